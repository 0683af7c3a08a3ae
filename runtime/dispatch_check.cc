#include "runtime/dispatch_check.h"

#include <map>
#include <utility>

#include "base/error.h"
#include "runtime/device_tensor.h"
#include "runtime/op_call.h"

namespace motley {
namespace {

std::int64_t bytes_of(const Graph& graph, const std::vector<TensorId>& tensors, std::int64_t batch) {
  std::int64_t bytes = 0;
  for (TensorId id : tensors) bytes += id == kNone ? 0 : graph.tensors[id].bytes(batch).value;
  return bytes;
}

std::vector<TensorHandle> zeros(Executor& executor, const Op& op, std::int64_t batch) {
  std::vector<TensorHandle> tensors;
  for (TensorId id : op.inputs) tensors.push_back(id == kNone ? nullptr : executor.fill(id, batch, 0));
  return tensors;
}

// Runs a forward op and its backward ops. What fails for another reason than a missing kernel may do so only on zeros
// (a singular matrix), and is left for the real run to tell.
void probe(const Graph& graph, Executor& executor, OpId forward, const std::vector<OpId>& backward,
           std::int64_t batch) {
  try {
    executor.run(forward, batch, zeros(executor, graph.ops[forward], batch));
    for (OpId op : backward) executor.run(op, batch, zeros(executor, graph.ops[op], batch));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnsupported) throw;
  }
  executor.clear_contexts();
}

}  // namespace

void check_dispatch(const Graph& graph, Executor& executor) {
  const c10::Device device = parse_device(executor.device());
  std::vector<std::vector<OpId>> backward(graph.ops.size());
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    if (graph.ops[id].is_backward()) backward[graph.ops[id].forward].push_back(id);
  }
  struct Smallest {
    OpId op = kNone;
    std::int64_t bytes = 0;
  };
  std::map<std::pair<std::string, std::size_t>, Smallest> smallest;  // by operator and number of backward ops
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    const Op& op = graph.ops[id];
    if (op.kind != OpKind::kForward) continue;
    static_cast<void>(OpCall(op, find_operator(op), graph.min_batch, device));
    Smallest& candidate = smallest[{op.target, backward[id].size()}];
    const std::int64_t bytes =
        bytes_of(graph, op.inputs, graph.min_batch) + bytes_of(graph, op.outputs, graph.min_batch);
    if (candidate.op == kNone || bytes < candidate.bytes) candidate = {id, bytes};
  }
  for (const auto& [key, candidate] : smallest) {
    probe(graph, executor, candidate.op, backward[candidate.op], graph.min_batch);
  }
}

}  // namespace motley

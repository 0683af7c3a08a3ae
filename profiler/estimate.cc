#include "profiler/estimate.h"

#include <algorithm>
#include <set>

#include "graph/op_knowledge.h"

namespace motley {
namespace {

const Op& forward_of(const Graph& graph, const Op& op) { return op.is_backward() ? graph.ops[op.forward] : op; }

WorkRule work_of(const Graph& graph, const Op& op) {
  if (op.kind == OpKind::kUpdate || op.kind == OpKind::kGradientSum) return WorkRule::kElements;
  return facts_of(forward_of(graph, op).target).work;
}

bool is_product(WorkRule work) {
  return work == WorkRule::kContraction || work == WorkRule::kConvolution || work == WorkRule::kAttention ||
         work == WorkRule::kTransposedConvolution || work == WorkRule::kRecurrent;
}

// That the arithmetic is in: of the first floating tensor.
DType dtype_of_work(const Graph& graph, const Op& op) {
  for (const std::vector<TensorId>* ids : {&op.inputs, &op.outputs}) {
    for (const TensorId id : *ids) {
      if (id != kNone && is_floating(graph.tensors[id].dtype)) return graph.tensors[id].dtype;
    }
  }
  return DType::kInt64;
}

FlopsPerSecond peak_of(const DeviceKind& kind, WorkRule work, DType dtype) {
  if (!is_product(work)) return dtype == DType::kFloat64 ? kind.fp64 : kind.fp32;  // no tensor cores
  const bool convolution = work == WorkRule::kConvolution || work == WorkRule::kTransposedConvolution;
  if (convolution && dtype == DType::kFloat32 && kind.tf32.value > 0) return kind.tf32;  // PyTorch's default
  return kind.peak(dtype);
}

// What the forward op keeps beyond inputs and outputs.
Bytes kept_by(const Graph& graph, OpId id, std::int64_t batch) {
  const Op& op = graph.ops[id];
  if (op.kind != OpKind::kForward) return Bytes(0);
  std::set<std::int32_t> places;
  for (const Op& other : graph.ops) {
    if (other.is_backward() && other.forward == id) {
      places.insert(other.gradient_inputs.begin(), other.gradient_inputs.end());
    }
  }
  if (places.empty()) return Bytes(0);
  return saved_for_backward(graph, op, {places.begin(), places.end()}).extra(batch);
}

double median(const std::vector<double>& sorted) {
  const std::size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

}  // namespace

Seconds roofline(const Graph& graph, OpId id, const DeviceKind& kind, std::int64_t batch) {
  const Op& op = graph.ops[id];
  if (op.is_view) return kind.launch / 2;
  const WorkRule work = work_of(graph, op);
  const Seconds ramp = is_product(work) ? kind.launch * kRamp : Seconds(0);
  const Seconds ideal = flops(graph, op, batch) / peak_of(kind, work, dtype_of_work(graph, op));
  const Seconds arithmetic = (ideal + ramp) / kArithmeticEfficiency;
  const Seconds traffic = bytes_moved(graph, op, batch) / (kind.memory_bandwidth * kMemoryEfficiency);
  const double launches = op.is_backward() ? 2 : 1;
  return kind.launch * launches + std::max(arithmetic, traffic);
}

bool is_product(const Graph& graph, OpId op) { return is_product(work_of(graph, graph.ops[op])); }

OpFamily family_of(const Graph& graph, OpId id) {
  const Op& op = graph.ops[id];
  constexpr OpFamily kKinds = 8;
  constexpr OpFamily kViews = 255;
  return (op.is_view ? kViews : static_cast<OpFamily>(work_of(graph, op))) * kKinds + static_cast<OpFamily>(op.kind);
}

void Calibration::add(OpFamily family, Seconds measured, Seconds estimated) {
  const double ratio = measured / estimated;
  for (std::vector<double>* ratios : {&ratios_[family], &all_}) {
    ratios->insert(std::upper_bound(ratios->begin(), ratios->end(), ratio), ratio);
  }
}

double Calibration::ratio(OpFamily family) const {
  const auto found = ratios_.find(family);
  if (found != ratios_.end()) return median(found->second);
  return all_.empty() ? 1 : median(all_);
}

OpCost estimate(const Graph& graph, OpId op, const DeviceKind& kind, std::int64_t batch,
                const Calibration& calibration) {
  OpCost cost;
  cost.time = roofline(graph, op, kind, batch) * calibration.ratio(family_of(graph, op));
  cost.spread = cost.time / 3;
  cost.kept = kept_by(graph, op, batch);
  return cost;
}

}  // namespace motley

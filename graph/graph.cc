#include "graph/graph.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/error.h"

namespace motley {

Bytes size_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return Bytes(8);
    case DType::kFloat32:
    case DType::kInt32:
      return Bytes(4);
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
      return Bytes(2);
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kBool:
      return Bytes(1);
  }
  MOTLEY_CHECK(false, "dtype " + std::to_string(static_cast<int>(dtype)));
  return {};
}

bool is_floating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat64;
}

std::string to_string(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "f32";
    case DType::kFloat16:
      return "f16";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat64:
      return "f64";
    case DType::kInt64:
      return "i64";
    case DType::kInt32:
      return "i32";
    case DType::kInt16:
      return "i16";
    case DType::kInt8:
      return "i8";
    case DType::kUInt8:
      return "u8";
    case DType::kBool:
      return "bool";
  }
  MOTLEY_CHECK(false, "dtype " + std::to_string(static_cast<int>(dtype)));
  return {};
}

Bytes Tensor::bytes(std::int64_t batch) const { return Bytes(element_count(shape).at(batch) * size_of(dtype).value); }

void Graph::finish() {
  const auto tensor_count = static_cast<TensorId>(tensors.size());
  const auto op_count = static_cast<OpId>(ops.size());
  const auto is_tensor = [&](TensorId id) { return id >= 0 && id < tensor_count; };

  consumers.assign(tensors.size(), {});
  std::unordered_set<std::string> names;
  for (OpId id = 0; id < op_count; ++id) {
    const Op& op = ops[static_cast<std::size_t>(id)];
    MOTLEY_CHECK(!op.name.empty() && names.insert(op.name).second, "op name \"" + op.name + "\" stands twice");
    MOTLEY_CHECK(op.forward == kNone || (op.forward >= 0 && op.forward < id), op.name);
    for (TensorId input : op.inputs) {
      MOTLEY_CHECK(is_tensor(input), op.name);
      const Tensor& tensor = tensors[static_cast<std::size_t>(input)];
      MOTLEY_CHECK(tensor.producer < id, op.name + " uses " + tensor.name + " before it is made");
      std::vector<OpId>& users = consumers[static_cast<std::size_t>(input)];
      if (users.empty() || users.back() != id) users.push_back(id);
    }
    for (TensorId output : op.outputs) {
      if (output == kNone) continue;
      MOTLEY_CHECK(is_tensor(output) && tensors[static_cast<std::size_t>(output)].producer == id, op.name);
    }
    for (TensorId written : op.writes) MOTLEY_CHECK(is_tensor(written), op.name);
  }
  for (const Tensor& tensor : tensors) {
    MOTLEY_CHECK(tensor.producer >= kNone && tensor.producer < op_count, tensor.name);
    for (TensorId other : {tensor.alias_of, tensor.gradient_of, tensor.state_of}) {
      MOTLEY_CHECK(other == kNone || is_tensor(other), tensor.name);
    }
    if (tensor.alias_of != kNone) {
      MOTLEY_CHECK(tensors[static_cast<std::size_t>(tensor.alias_of)].alias_of == kNone, tensor.name);
    }
  }
  for (TensorId input : inputs) MOTLEY_CHECK(is_tensor(input), name);
  MOTLEY_CHECK(loss == kNone || is_tensor(loss), name);
}

std::vector<std::pair<GroupId, GroupId>> edges_between_groups(const Graph& graph) {
  std::vector<std::pair<GroupId, GroupId>> edges;
  for (const Op& op : graph.ops) {
    if (op.kind != OpKind::kForward) continue;
    for (TensorId input : op.inputs) {
      const OpId producer = input == kNone ? kNone : graph.tensors[input].producer;
      const GroupId from = producer == kNone ? kNone : graph.ops[producer].group;
      if (from != kNone && from != op.group) edges.emplace_back(from, op.group);
    }
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

}  // namespace motley

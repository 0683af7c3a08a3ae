#include "profiler/synthetic.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "graph/op_knowledge.h"

namespace motley {
namespace {

std::int64_t size_at(const Graph& graph, TensorId id, std::int64_t dim, std::int64_t batch) {
  const Shape& shape = graph.tensors[id].shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (dim < 0) dim += rank;
  return dim >= 0 && dim < rank ? shape[dim].at(batch) : 0;
}

// Where an op reads `place` as indices: how many there may be. 0: it does not.
std::int64_t bound_in(const Graph& graph, const Op& op, std::int32_t place, std::int64_t batch) {
  const std::string_view name = functional_name(op.target);
  const auto is = [&](std::string_view argument) { return input_place(op, argument) == place; };
  if (name == "embedding" || name == "embedding_bag") {
    return is("indices") ? size_at(graph, op.inputs[input_place(op, "weight")], 0, batch) : 0;
  }
  if (name == "one_hot") return std::max<std::int64_t>(integer_argument(op, "num_classes", 0), 0);
  if (name.find("nll_loss") != std::string_view::npos || name.starts_with("cross_entropy")) {
    const TensorId scores = op.inputs[std::max(input_place(op, "self"), 0)];
    return is("target") ? size_at(graph, scores, graph.tensors[scores].shape.size() > 1 ? 1 : 0, batch) : 0;
  }
  if (is("index")) {  // gather, scatter, index_select, index_add, ...
    return size_at(graph, op.inputs[std::max(input_place(op, "self"), 0)], integer_argument(op, "dim", 0), batch);
  }
  if (const Argument* indices = find_argument(op, "indices")) {  // index, index_put: one tensor per dimension
    if (const auto* refs = std::get_if<std::vector<InputRef>>(&indices->value)) {
      for (std::size_t dim = 0; dim < refs->size(); ++dim) {
        if ((*refs)[dim].index == place) return size_at(graph, op.inputs[0], static_cast<std::int64_t>(dim), batch);
      }
    }
  }
  return 0;
}

bool is_index_dtype(DType dtype) { return !is_floating(dtype) && dtype != DType::kBool; }

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double between(double low, double high) { return low + (high - low) * static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
};

// IEEE half precision of a normal number below 65504, rounded towards zero.
std::uint16_t half_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::int32_t exponent = static_cast<std::int32_t>((bits >> 23) & 0xff) - 127 + 15;
  if (exponent <= 0) return static_cast<std::uint16_t>(sign);  // too small: zero, not a denormal
  return static_cast<std::uint16_t>(sign | (static_cast<std::uint32_t>(exponent) << 10) | ((bits >> 13) & 0x3ff));
}

void fill_floating(HostTensor& tensor, Random& random, double low, double high) {
  switch (tensor.dtype) {
    case DType::kFloat32:
      for (float& value : elements<float>(tensor)) value = static_cast<float>(random.between(low, high));
      break;
    case DType::kFloat64:
      for (double& value : elements<double>(tensor)) value = random.between(low, high);
      break;
    case DType::kBFloat16:
      for (std::uint16_t& value : elements<std::uint16_t>(tensor)) {
        value = static_cast<std::uint16_t>(
            std::bit_cast<std::uint32_t>(static_cast<float>(random.between(low, high))) >> 16);
      }
      break;
    default:
      for (std::uint16_t& value : elements<std::uint16_t>(tensor)) {
        value = half_bits(static_cast<float>(random.between(low, high)));
      }
  }
}

void fill_integers(HostTensor& tensor, Random& random, std::int64_t bound) {
  const std::size_t width = static_cast<std::size_t>(size_of(tensor.dtype).value);
  const bool open = bound <= 0;
  for (std::size_t at = 0; at < tensor.bytes.size(); at += width) {
    const std::int64_t value = open ? 1 : static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(bound));
    std::memcpy(tensor.bytes.data() + at, &value, width);  // little endian
  }
}

}  // namespace

std::int64_t index_bound(const Graph& graph, TensorId tensor, std::int64_t batch) {
  std::int64_t least = 0;
  std::set<TensorId> seen{tensor};
  std::vector<TensorId> open{tensor};
  while (!open.empty()) {
    const TensorId id = open.back();
    open.pop_back();
    for (const OpId consumer : graph.consumers[id]) {
      const Op& op = graph.ops[consumer];
      if (op.kind != OpKind::kForward) continue;
      for (std::size_t place = 0; place < op.inputs.size(); ++place) {
        if (op.inputs[place] != id) continue;
        const std::int64_t bound = bound_in(graph, op, static_cast<std::int32_t>(place), batch);
        if (bound > 0 && (least == 0 || bound < least)) least = bound;
      }
      for (const TensorId output : op.outputs) {
        // Integers made of integers: the same ones reshaped, sliced or copied, as a rule.
        if (output != kNone && is_index_dtype(graph.tensors[output].dtype) && seen.insert(output).second) {
          open.push_back(output);
        }
      }
    }
  }
  return least;
}

HostTensor synthetic_value(const Graph& graph, TensorId id, std::int64_t batch) {
  const Tensor& tensor = graph.tensors[id];
  std::vector<std::int64_t> sizes;
  for (const BatchExpr& size : tensor.shape) sizes.push_back(size.at(batch));
  HostTensor value = make_host_tensor(tensor.dtype, std::move(sizes));
  Random random(static_cast<std::uint64_t>(id));
  if (tensor.role == TensorRole::kOptimizerState) return value;
  if (!is_floating(tensor.dtype)) {
    fill_integers(value, random, tensor.dtype == DType::kBool ? 0 : index_bound(graph, id, batch));
  } else if (tensor.role == TensorRole::kBuffer || tensor.role == TensorRole::kConstant) {
    fill_floating(value, random, 0.5, 1);
  } else {
    const double range = tensor.role == TensorRole::kParameter ? 0.05 : 1;
    fill_floating(value, random, -range, range);
  }
  return value;
}

}  // namespace motley

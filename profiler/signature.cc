#include "profiler/signature.h"

#include <openssl/evp.h>

#include <array>
#include <map>

#include "base/error.h"

namespace motley {
namespace {

std::string hash_of(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const int done = EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  MOTLEY_CHECK(done == 1, "SHA-256 of a signature");
  constexpr std::size_t kBytes = 16;
  constexpr const char* kHex = "0123456789abcdef";
  std::string hex;
  for (std::size_t i = 0; i < kBytes; ++i) {
    hex += kHex[digest[i] >> 4];
    hex += kHex[digest[i] & 15];
  }
  return hex;
}

std::string number(double value) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.9g", value);
  return buffer.data();
}

template <class T, class Format>
std::string list(const std::vector<T>& values, Format format) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    text += format(values[i]);
  }
  return text + "]";
}

std::string shape_text(const Shape& shape) {
  return list(shape, [](const BatchExpr& size) { return size.to_string(); });
}

std::string places(const std::vector<std::int32_t>& values) {
  return list(values, [](std::int32_t value) { return std::to_string(value); });
}

struct ArgumentText {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(InputRef ref) const { return ref.index == kNone ? "None" : "$" + std::to_string(ref.index); }
  std::string operator()(const BatchExpr& size) const { return size.to_string(); }
  std::string operator()(double value) const { return number(value); }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(const std::string& value) const { return "'" + value + "'"; }
  std::string operator()(DType dtype) const { return to_string(dtype); }
  std::string operator()(MemoryFormat format) const { return "format" + std::to_string(static_cast<int>(format)); }
  std::string operator()(DeviceArgument) const { return "device"; }
  std::string operator()(LayoutArgument) const { return "strided"; }
  template <class T>
  std::string operator()(const std::vector<T>& values) const {
    return list(values, [this](const T& value) { return (*this)(value); });
  }
};

class Writer {
 public:
  explicit Writer(const Graph& graph) : graph_(graph), backward_(graph.ops.size()), texts_(graph.ops.size()) {
    for (const Op& op : graph.ops) {
      if (op.is_backward()) backward_[op.forward] += gradients_text(op);
    }
  }

  Signature signature(OpId id) {
    const Op& op = graph_.ops[id];
    Signature result;
    result.text = text(id);
    result.hash = hash_of(result.text);
    result.dtype = dtype(op);
    result.depends_on_batch = depends_on_batch(op);
    return result;
  }

 private:
  static std::string gradients_text(const Op& op) {
    return (op.kind == OpKind::kInputGradient ? " dx" : " dw") + places(op.gradient_inputs);
  }

  const std::string& text(OpId id) {
    std::string& result = texts_[id];
    if (!result.empty()) return result;
    const Op& op = graph_.ops[id];
    switch (op.kind) {
      case OpKind::kForward:
        result = "forward " + call_text(op) + " -> " + tensors_text(op.outputs) + backward_[id];
        break;
      case OpKind::kInputGradient:
      case OpKind::kWeightGradient:
        // The whole forward op stands here, with its other backward op: the two may share one kernel.
        result =
            "backward" + gradients_text(op) + " of outputs" + places(op.gradient_outputs) + " | " + text(op.forward);
        break;
      case OpKind::kGradientSum:
        result = "gradient sum " + tensors_text(op.inputs);
        break;
      case OpKind::kUpdate: {
        const OptimizerOptions& optimizer = graph_.optimizer;
        result = "update " + op.target + (optimizer.momentum != 0 ? " momentum" : "") +
                 (optimizer.weight_decay != 0 ? " decay" : "") + " " + tensors_text(op.inputs);
        break;
      }
    }
    return result;
  }

  std::string call_text(const Op& op) const {
    std::string result = op.target + "(" + tensors_text(op.inputs);
    for (const Argument& argument : op.arguments) {
      result += ", " + argument.name + "=" + std::visit(ArgumentText{}, argument.value);
    }
    return result + ")";
  }

  std::string tensors_text(const std::vector<TensorId>& ids) const {
    return list(ids, [this](TensorId id) {
      if (id == kNone) return std::string("None");
      const Tensor& tensor = graph_.tensors[id];
      return to_string(tensor.dtype) + shape_text(tensor.shape) + layout_text(tensor);
    });
  }

  // How a view lies in memory follows from the views that made it; what is no view lies in order.
  std::string layout_text(const Tensor& tensor) const {
    if (tensor.alias_of == kNone || tensor.producer == kNone) return "";
    const Op& op = graph_.ops[tensor.producer];
    if (!op.is_view || op.kind != OpKind::kForward || op.inputs.empty()) return "";
    std::string result = "<" + op.target;
    for (const Argument& argument : op.arguments) result += " " + std::visit(ArgumentText{}, argument.value);
    const Tensor& base = graph_.tensors[op.inputs[0]];
    return result + " " + shape_text(base.shape) + layout_text(base) + ">";
  }

  std::string dtype(const Op& op) const {
    for (const std::vector<TensorId>* ids : {&op.outputs, &op.inputs}) {
      for (const TensorId id : *ids) {
        if (id != kNone && is_floating(graph_.tensors[id].dtype)) return to_string(graph_.tensors[id].dtype);
      }
    }
    return to_string(DType::kInt64);
  }

  bool depends_on_batch(const Op& op) const {
    const auto any = [this](const std::vector<TensorId>& ids) {
      for (const TensorId id : ids) {
        if (id == kNone) continue;
        for (const BatchExpr& size : graph_.tensors[id].shape) {
          if (size.depends_on_batch()) return true;
        }
      }
      return false;
    };
    return any(op.inputs) || any(op.outputs);
  }

  const Graph& graph_;
  std::vector<std::string> backward_;  // per forward op: its gradients, in graph order
  std::vector<std::string> texts_;
};

}  // namespace

Signatures signatures_of(const Graph& graph) {
  Signatures result;
  Writer writer(graph);
  std::map<std::string, std::int32_t> index;
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    Signature signature = writer.signature(id);
    const auto [found, fresh] = index.emplace(signature.hash, static_cast<std::int32_t>(result.distinct.size()));
    if (fresh) {
      result.distinct.push_back(std::move(signature));
      result.representative.push_back(id);
    }
    result.of_op.push_back(found->second);
  }
  return result;
}

}  // namespace motley

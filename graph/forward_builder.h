#pragma once

// Collects forward ops in the order in which they run: gives them and their results names, marks views, randomness and
// what needs a gradient, and in the end drops what the loss does not need.

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace motley {

struct TensorMeta {
  DType dtype = DType::kFloat32;
  Shape shape;
  Shape strides;
  bool strides_known = true;  // false: `strides` is a guess
};

// An op to be added. `inputs` are what the arguments' InputRefs point at.
struct Call {
  std::string name;
  std::string target;
  std::vector<Argument> arguments;
  std::vector<TensorId> inputs;
  std::vector<TensorId> writes;
  std::string source;
  std::string module;
  bool gradients = true;  // false under torch.no_grad

  // Appends a tensor argument.
  void add(const std::string& argument, TensorId tensor);
};

class ForwardBuilder {
 public:
  TensorId add_tensor(const std::string& name, const TensorMeta& meta, TensorRole role, bool requires_gradient);
  // Adds the op; an output without meta is not made (kNone). Names are made unique with a number where they repeat.
  std::vector<TensorId> add(const Call& call, const std::vector<std::optional<TensorMeta>>& outputs,
                            const std::vector<std::string>& output_names);
  // One output, named as the op.
  TensorId add(const Call& call, const TensorMeta& output);

  const TensorMeta& meta(TensorId tensor) const { return places_.at(static_cast<std::size_t>(tensor)).meta; }
  const Tensor& tensor(TensorId id) const { return graph_.tensors.at(static_cast<std::size_t>(id)); }
  // Whether the strides hold on every device, so that decisions may rest on them.
  bool strides_are_sure(TensorId id) const { return places_.at(static_cast<std::size_t>(id)).sure; }

  // Drops ops and tensors that neither the loss nor state that is written needs (inputs stay), and finishes the graph.
  Graph finish(std::string name, const std::vector<TensorId>& inputs, TensorId loss);

 private:
  struct Place {
    TensorMeta meta;
    bool sure = true;
  };
  std::string unique(const std::string& name, std::map<std::string, int>& taken);
  bool views_storage(const Call& call, const std::vector<std::optional<TensorMeta>>& outputs) const;

  Graph graph_;
  std::vector<Place> places_;  // beside Graph::tensors
  std::map<std::string, int> op_names_;
  std::map<std::string, int> tensor_names_;
};

}  // namespace motley

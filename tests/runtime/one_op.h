#pragma once

// Graphs of one forward op and its backward ops, and the executor that runs them, for tests of the runtime.

#include <memory>
#include <string>
#include <vector>

#include "runtime/executor.h"

namespace motley {

struct OneOpInput {
  Shape shape;
  TensorRole role = TensorRole::kActivation;  // gradients are asked for activations and parameters
  DType dtype = DType::kFloat32;
};

class OneOp {
 public:
  // `arguments` refer to `inputs` by place; outputs of the given shapes, gradients come in for the first of them.
  OneOp(std::string target, std::vector<Argument> arguments, std::vector<OneOpInput> inputs,
        std::vector<Shape> outputs);

  Graph graph;
  OpId forward = 0;
  OpId dx = kNone;  // when there are activations of floating type
  OpId dw = kNone;  // when there are parameters
};

HostTensor floats(std::vector<std::int64_t> sizes, const std::vector<float>& values);
HostTensor integers(std::vector<std::int64_t> sizes, const std::vector<std::int64_t>& values);
std::vector<float> values_of(Executor& executor, const TensorHandle& tensor);

}  // namespace motley

#pragma once

// A training graph run on one device, op after op in the graph's own order: what a worker does when it is alone, for
// tests of ops and for measuring them.

#include <string>
#include <vector>

#include "graph/pt2_file.h"
#include "runtime/executor.h"
#include "runtime/safetensors.h"

namespace motley {

class OneDevice {
 public:
  // Optimizer states start at zero, the rest must be set. `keep`: tensors that value() will be asked for after an
  // iteration; all others are dropped after their last use.
  OneDevice(const Graph& graph, Executor& executor, std::int64_t batch, const std::vector<TensorId>& keep = {});

  void set(TensorId tensor, TensorHandle value);  // inputs and state
  void iterate();
  const TensorHandle& value(TensorId tensor) const { return values_[tensor]; }

 private:
  const Graph& graph_;
  Executor& executor_;
  std::int64_t batch_;
  std::vector<TensorHandle> values_;             // by TensorId
  std::vector<std::vector<TensorId>> releases_;  // by OpId: what is not used after it
};

// Parameters, buffers and constants from the model file; inputs from "input.NAME" of a safetensors file. Throw Error
// naming what is missing.
void load_state(const Graph& graph, const Pt2File& file, Executor& executor, OneDevice& device);
void load_inputs(const Graph& graph, const SafetensorsFile& file, Executor& executor, OneDevice& device);

}  // namespace motley

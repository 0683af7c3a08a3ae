#pragma once

// What lives across iterations on one device: parameters, buffers, constants, optimizer states. Loaded from the model
// file or a checkpoint, saved as this device's part of a checkpoint (docs/checkpoint.md).

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/deployment.h"
#include "runtime/executor.h"
#include "runtime/safetensors.h"

namespace motley {

// Who saves what: each tensor that is kept in a checkpoint is saved by the first device that has it.
std::vector<TensorId> saved_by(const Graph& graph, const Deployment& deployment, DeviceIndex device);

class ModelState {
 public:
  // Arguments outlive the object.
  ModelState(const Graph& graph, const Program& program, Executor& executor);

  // Weights of the .pt2, optimizer states of an untrained model. Throws Error(kInvalidInput) naming the tensor and
  // the file when it has no weights, or when they have another shape or dtype.
  void load_model(const std::filesystem::path& model);
  // Parameters, buffers and optimizer states of a checkpoint, over what load_model gave. The same errors.
  void load_checkpoint(const std::filesystem::path& checkpoint);

  // By ValueId; null for values that do not persist.
  std::vector<TensorHandle>& handles() { return handles_; }

  // `with_optimizer`: a checkpoint; otherwise parameters and buffers alone.
  void save(const std::filesystem::path& path, const std::vector<TensorId>& tensors, bool with_optimizer) const;

 private:
  void set(ValueId value, const NamedTensor& tensor, const std::string& source);

  const Graph& graph_;
  const Program& program_;
  Executor& executor_;
  std::vector<TensorHandle> handles_;
};

}  // namespace motley

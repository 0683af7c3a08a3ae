#pragma once

// A model file as torch.export.save writes it: a zip that holds the graph as JSON, and the weights as raw bytes beside
// a table of their shapes. Weights may be absent (exported from the meta device, or stripped): the graph is there all
// the same.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace torch::_export {
class ExportedProgram;
}

namespace motley {

// One parameter, buffer or constant, as the file holds it. Sizes, strides and offset count elements.
struct StoredTensor {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
  std::string entry;     // of the archive; tensors that share storage name the same one
  bool present = false;  // the archive has the bytes
  bool is_parameter = false;

  // The same bytes under another name: tied weights.
  bool same_storage(const StoredTensor& other) const;
};

// Immutable once open. Const members may be called from several threads: each reads through a handle of its own.
class Pt2File {
 public:
  // Throws Error(kNotFound) when the file is not there, Error(kInvalidInput) when it is not such a file (truncated,
  // another kind of zip, damaged JSON), Error(kUnsupported) when it is one of another schema version or byte order.
  static Pt2File open(const std::filesystem::path& path);

  Pt2File(Pt2File&&) noexcept;
  Pt2File& operator=(Pt2File&&) noexcept;
  ~Pt2File();

  const std::filesystem::path& path() const;
  const torch::_export::ExportedProgram& program() const;
  const std::string& graph_json() const;  // the program's text, as stored

  // By the model's own names; parameters, buffers and constants together.
  const std::map<std::string, StoredTensor>& tensors() const;
  // True when every tensor in the table has its bytes in the archive.
  bool has_weights() const;

  // The values of one tensor: contiguous, row-major, little-endian, whatever its strides in the file. Throws
  // Error(kNotFound) for a name that is not in the table, Error(kInvalidInput) when its bytes are absent or too few.
  std::string read(const std::string& name) const;

 private:
  struct State;
  explicit Pt2File(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The dtype of a torch.export scalar type code. Throws Error(kUnsupported) naming the code (complex, 8-bit floats).
DType dtype_from_code(std::int64_t code);

}  // namespace motley

#pragma once

// Named tensors in a safetensors file: checkpoints, final weights, data (docs/checkpoint.md). The format is that of
// Hugging Face's safetensors: eight bytes of header size, a JSON header, then the data, little endian and in C order.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/mapped_file.h"

namespace motley {

struct NamedTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

using Metadata = std::map<std::string, std::string>;

// An opened file; tensors point into the mapping. Safe to read from several threads.
class SafetensorsFile {
 public:
  // Throws Error(kNotFound) when the file is not there, Error(kInvalidInput) with the path when it is not a whole
  // safetensors file, Error(kUnsupported) for a dtype that motley lacks.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<NamedTensor>& tensors() const { return tensors_; }  // by place in the file
  const NamedTensor* find(const std::string& name) const;               // nullptr when it is not there
  const Metadata& metadata() const { return metadata_; }
  const MappedFile& file() const { return file_; }

 private:
  std::string path_;
  MappedFile file_;
  std::vector<NamedTensor> tensors_;
  std::map<std::string, std::size_t> by_name_;
  Metadata metadata_;
};

// A tensor's bytes, valid until the next call.
using BytesOf = std::function<std::span<const std::byte>(const NamedTensor&)>;
// Writes the whole file beside `path` and renames it: readers see the old file or the new. Larger element types come
// first, so that every tensor is aligned. `bytes_of` is asked for one tensor after the other, so that no two need be in
// memory at once; without it, each has its bytes. Throws Error(kUnavailable) when the file cannot be written, and
// leaves nothing.
void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       const Metadata& metadata = {}, const BytesOf& bytes_of = &NamedTensor::bytes);

}  // namespace motley

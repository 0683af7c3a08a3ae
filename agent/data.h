#pragma once

// Training data: a folder of one array per model input, NAME.npy or NAME.safetensors (docs/data.md), read where it
// lies. The first dimension of an array counts samples. Each epoch visits the samples in an order made of the seed and
// the epoch alone, in global batches of one size; what is left over at the end of an epoch is dropped. A worker reads
// its range of samples of each global batch, so the batches are the same whatever the plan.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "runtime/mapped_file.h"
#include "runtime/safetensors.h"

namespace motley {

// The order of `samples` samples in an epoch: Fisher and Yates's shuffle (Knuth, The Art of Computer Programming 2,
// algorithm P) drawing from SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) seeded with seed and epoch.
std::vector<std::int64_t> sample_order(std::int64_t samples, std::uint64_t seed, std::int64_t epoch);

// Thread-safe.
class Dataset {
 public:
  // Throws Error(kNotFound) for an input without file; Error(kInvalidInput) naming file and input when a dtype or shape
  // does not fit, when inputs differ in their number of samples, or when there are fewer samples than `batch`.
  Dataset(const std::filesystem::path& folder, const Graph& graph, std::int64_t batch, std::uint64_t seed);

  std::int64_t samples() const { return samples_; }
  std::int64_t batches_per_epoch() const { return samples_ / batch_; }

  // Samples [begin, end) of the global batch of an iteration (counted from 0 over all epochs) of the graph's
  // `input`-th input, in order, written to `out`, which is exactly as large. An input that does not depend on the batch
  // is written whole.
  void read(std::size_t input, std::int64_t iteration, std::int64_t begin, std::int64_t end, std::span<std::byte> out);

 private:
  struct Array {
    std::variant<MappedFile, SafetensorsFile> file;  // owns the bytes
    NamedTensor tensor;
    bool per_sample = true;
    std::size_t sample_bytes = 0;

    const MappedFile& mapped() const;
  };
  static Array open_npy(const std::filesystem::path& path);
  static Array open_safetensors(const std::filesystem::path& path, const std::string& input);
  static Array open(const std::filesystem::path& folder, const Tensor& input);

  std::int64_t batch_;
  std::uint64_t seed_;
  std::int64_t samples_ = -1;
  std::vector<Array> arrays_;
  std::mutex mutex_;  // guards the order of the epoch last read
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_;
};

}  // namespace motley

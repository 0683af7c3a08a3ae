#include "agent/data.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "agent/npy.h"
#include "base/error.h"

namespace motley {
namespace {

std::uint64_t split_mix(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + ")";
}

std::string text_of(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + shape[i].to_string();
  return text + ")";
}

// Whether an array of samples fits an input whose first dimension is the batch.
bool fits(const std::vector<std::int64_t>& array, const Shape& input, bool per_sample) {
  if (array.size() != input.size()) return false;
  for (std::size_t i = per_sample ? 1 : 0; i < input.size(); ++i) {
    if (!input[i].is_constant() || input[i].at(1) != array[i]) return false;
  }
  return true;
}

}  // namespace

std::vector<std::int64_t> sample_order(std::int64_t samples, std::uint64_t seed, std::int64_t epoch) {
  std::uint64_t state = seed;
  state = split_mix(state) ^ static_cast<std::uint64_t>(epoch);
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[split_mix(state) % left]);
  }
  return order;
}

Dataset::Dataset(const std::filesystem::path& folder, const Graph& graph, std::int64_t batch, std::uint64_t seed)
    : batch_(batch), seed_(seed) {
  if (!std::filesystem::is_directory(folder)) {
    throw Error(ErrorKind::kNotFound, folder.string() + ": there is no such folder with data");
  }
  std::string first;
  for (const TensorId id : graph.inputs) {
    const Tensor& input = graph.tensors[id];
    arrays_.push_back(open(folder, input));
    const Array& array = arrays_.back();
    if (!array.per_sample) continue;
    const std::int64_t samples = array.tensor.shape[0];
    if (samples_ < 0) {
      samples_ = samples;
      first = input.name;
    } else if (samples != samples_) {
      throw Error(ErrorKind::kInvalidInput, folder.string() + ": input '" + first + "' has " +
                                                std::to_string(samples_) + " samples, input '" + input.name + "' has " +
                                                std::to_string(samples));
    }
  }
  if (samples_ < batch) {
    throw Error(ErrorKind::kInvalidInput, folder.string() + " has " +
                                              std::to_string(std::max<std::int64_t>(samples_, 0)) +
                                              " samples, fewer than one batch of " + std::to_string(batch) +
                                              ": give more data or a smaller batch");
  }
}

const MappedFile& Dataset::Array::mapped() const {
  const auto* const npy = std::get_if<MappedFile>(&file);
  return npy != nullptr ? *npy : std::get<SafetensorsFile>(file).file();
}

Dataset::Array Dataset::open_npy(const std::filesystem::path& path) {
  MappedFile file(path);
  const NamedTensor tensor = parse_npy(path, file.bytes());
  return {std::move(file), tensor};
}

Dataset::Array Dataset::open_safetensors(const std::filesystem::path& path, const std::string& input) {
  SafetensorsFile file(path);
  const NamedTensor* found = file.find(input);
  if (found == nullptr && file.tensors().size() == 1) found = &file.tensors().front();
  if (found == nullptr) {
    throw Error(ErrorKind::kInvalidInput, path.string() + " holds no tensor named '" + input + "'");
  }
  const NamedTensor tensor = *found;
  return {std::move(file), tensor};
}

Dataset::Array Dataset::open(const std::filesystem::path& folder, const Tensor& input) {
  const auto npy = folder / (input.name + ".npy");
  const auto safetensors = folder / (input.name + ".safetensors");
  const bool is_npy = std::filesystem::exists(npy);
  const auto& path = is_npy ? npy : safetensors;
  if (!is_npy && !std::filesystem::exists(safetensors)) {
    throw Error(ErrorKind::kNotFound, folder.string() + " has no array for the model's input '" + input.name +
                                          "': put " + input.name + ".npy or " + input.name + ".safetensors there");
  }
  Array array = is_npy ? open_npy(path) : open_safetensors(path, input.name);
  const bool per_sample = !input.shape.empty() && input.shape[0] == BatchExpr::batch();
  if (array.tensor.dtype != input.dtype) {
    throw Error(ErrorKind::kInvalidInput, path.string() + " holds " + to_string(array.tensor.dtype) +
                                              ", the model's input '" + input.name + "' is " + to_string(input.dtype) +
                                              ": convert the array");
  }
  if (!fits(array.tensor.shape, input.shape, per_sample)) {
    throw Error(ErrorKind::kInvalidInput, path.string() + " has shape " + text_of(array.tensor.shape) +
                                              ", the model's input '" + input.name + "' needs " + text_of(input.shape) +
                                              (per_sample ? " with any number of samples in place of B" : ""));
  }
  array.per_sample = per_sample;
  array.sample_bytes = array.tensor.bytes.size();
  if (per_sample) array.sample_bytes /= static_cast<std::size_t>(std::max<std::int64_t>(array.tensor.shape[0], 1));
  return array;
}

void Dataset::read(std::size_t input, std::int64_t iteration, std::int64_t begin, std::int64_t end,
                   std::span<std::byte> out) {
  const Array& array = arrays_.at(input);
  if (!array.per_sample) {
    MOTLEY_CHECK(out.size() == array.tensor.bytes.size(), "room for an input");
    array.mapped().copy(array.tensor.bytes, out);
    return;
  }
  MOTLEY_CHECK(0 <= begin && begin <= end && end <= batch_, "samples of a batch");
  MOTLEY_CHECK(out.size() == static_cast<std::size_t>(end - begin) * array.sample_bytes, "room for samples");
  std::vector<std::int64_t> samples(static_cast<std::size_t>(end - begin));
  {
    const std::scoped_lock lock(mutex_);
    const std::int64_t epoch = iteration / batches_per_epoch();
    if (epoch != epoch_) order_ = sample_order(samples_, seed_, epoch_ = epoch);
    const auto start = order_.begin() + iteration % batches_per_epoch() * batch_ + begin;
    std::copy(start, start + (end - begin), samples.begin());
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::size_t place = static_cast<std::size_t>(samples[i]) * array.sample_bytes;
    array.mapped().copy(array.tensor.bytes.subspan(place, array.sample_bytes),
                        out.subspan(i * array.sample_bytes, array.sample_bytes));
  }
}

}  // namespace motley

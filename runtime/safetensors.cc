#include "runtime/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace motley {
namespace {

constexpr std::array<std::pair<const char*, DType>, 10> kDTypes = {{
    {"F32", DType::kFloat32},
    {"F16", DType::kFloat16},
    {"BF16", DType::kBFloat16},
    {"F64", DType::kFloat64},
    {"I64", DType::kInt64},
    {"I32", DType::kInt32},
    {"I16", DType::kInt16},
    {"I8", DType::kInt8},
    {"U8", DType::kUInt8},
    {"BOOL", DType::kBool},
}};
constexpr std::size_t kLongestHeader = 100'000'000;  // as the reference implementation has it

const char* name_of(DType dtype) {
  return std::find_if(kDTypes.begin(), kDTypes.end(), [&](const auto& pair) { return pair.second == dtype; })->first;
}

// The bytes of a tensor, or nothing when the sizes are negative or overflow.
std::optional<std::uint64_t> byte_count(DType dtype, const std::vector<std::int64_t>& shape) {
  auto count = static_cast<std::uint64_t>(size_of(dtype).value);
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, static_cast<std::uint64_t>(size), &count)) return std::nullopt;
  }
  return count;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path.string()), file_(path) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::kInvalidInput, path_ + ": not a whole safetensors file: " + why);
  };
  const auto bytes = file_.bytes();
  std::uint64_t header_size = 0;
  if (bytes.size() < sizeof header_size) refuse("it has " + std::to_string(bytes.size()) + " bytes");
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  if (header_size > kLongestHeader || header_size > bytes.size() - sizeof header_size) {
    refuse("its header of " + std::to_string(header_size) + " bytes does not fit in it");
  }
  const auto data = bytes.subspan(sizeof header_size + header_size);
  const char* text = reinterpret_cast<const char*>(bytes.data()) + sizeof header_size;
  const auto header = nlohmann::json::parse(text, text + header_size, nullptr, false);
  if (!header.is_object()) refuse("its header is not a JSON object");

  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) refuse("its metadata is not a JSON object");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) refuse("its metadata '" + key + "' is not a string");
        metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    try {
      NamedTensor tensor{.name = name, .shape = entry.at("shape").get<std::vector<std::int64_t>>()};
      const auto dtype = entry.at("dtype").get<std::string>();
      const auto* known =
          std::find_if(kDTypes.begin(), kDTypes.end(), [&](const auto& pair) { return dtype == pair.first; });
      if (known == kDTypes.end()) {
        throw Error(ErrorKind::kUnsupported,
                    std::string(path_).append(": tensor '").append(name).append("' has dtype ").append(dtype) +
                        ", which motley lacks");
      }
      tensor.dtype = known->second;
      const auto [begin, end] = entry.at("data_offsets").get<std::array<std::uint64_t, 2>>();
      if (begin > end || end > data.size()) refuse("tensor '" + name + "' ends after the file does");
      if (byte_count(tensor.dtype, tensor.shape) != end - begin)
        refuse("tensor '" + name + "' is not as large as its shape");
      tensor.bytes = data.subspan(begin, end - begin);
      tensors_.push_back(std::move(tensor));
    } catch (const nlohmann::json::exception& error) {
      refuse("its entry '" + name + "' is malformed");
    }
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.bytes.data(), a.name) < std::pair(b.bytes.data(), b.name);
  });
  for (std::size_t i = 0; i < tensors_.size(); ++i) by_name_[tensors_[i].name] = i;
}

const NamedTensor* SafetensorsFile::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors, const Metadata& metadata,
                       const BytesOf& bytes_of) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(-size_of(a.dtype).value, a.name) < std::pair(-size_of(b.dtype).value, b.name);
  });
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    MOTLEY_CHECK(!header.contains(tensor.name), "two tensors named " + tensor.name);
    const auto bytes = byte_count(tensor.dtype, tensor.shape);
    MOTLEY_CHECK(bytes, "sizes of " + tensor.name);
    const std::uint64_t end = offset + *bytes;
    header[tensor.name] = {{"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t header_size = text.size();

  HalfFile file(path);
  file.write({reinterpret_cast<const char*>(&header_size), sizeof header_size});
  file.write(text);
  for (const NamedTensor& tensor : tensors) {
    const std::span<const std::byte> bytes = bytes_of(tensor);
    MOTLEY_CHECK(byte_count(tensor.dtype, tensor.shape) == bytes.size(), "bytes of " + tensor.name);
    file.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  file.finish();
}

}  // namespace motley

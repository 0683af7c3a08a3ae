#include "agent/npy.h"

#include <cstring>
#include <map>
#include <regex>
#include <string_view>

#include "base/error.h"

namespace motley {
namespace {

// By kind and size, as in descr '<f4'; booleans and bytes have no byte order ('|b1').
const std::map<std::string, DType> kDTypes = {
    {"f4", DType::kFloat32}, {"f2", DType::kFloat16}, {"f8", DType::kFloat64},
    {"i8", DType::kInt64},   {"i4", DType::kInt32},   {"i2", DType::kInt16},
    {"i1", DType::kInt8},    {"u1", DType::kUInt8},   {"b1", DType::kBool},
};

}  // namespace

NamedTensor parse_npy(const std::filesystem::path& path, std::span<const std::byte> file) {
  const auto fail = [&](ErrorKind kind, const std::string& why) { throw Error(kind, path.string() + ": " + why); };
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (text.size() < 12 || !text.starts_with(kMagic)) fail(ErrorKind::kInvalidInput, "not a .npy file");
  const int version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3) {
    fail(ErrorKind::kUnsupported, "version " + std::to_string(version) + " of .npy is not known (1 to 3 are)");
  }
  std::uint32_t header_size = 0;  // little endian: two bytes in version 1, four since
  const std::size_t size_bytes = version == 1 ? 2 : 4;
  std::memcpy(&header_size, text.data() + 8, size_bytes);
  const std::size_t data_begin = 8 + size_bytes + header_size;
  if (data_begin > text.size()) fail(ErrorKind::kInvalidInput, "its header is cut off");
  const std::string header(text.substr(8 + size_bytes, header_size));

  // The header is a Python literal with exactly these keys, in this order as NumPy writes it; any order is accepted.
  std::smatch descr;
  std::smatch order;
  std::smatch shape;
  if (!std::regex_search(header, descr, std::regex(R"('descr'\s*:\s*'([<>|=])([a-zA-Z]\w*)')")) ||
      !std::regex_search(header, order, std::regex(R"('fortran_order'\s*:\s*(True|False))")) ||
      !std::regex_search(header, shape, std::regex(R"('shape'\s*:\s*\(([0-9,\s]*)\))"))) {
    fail(ErrorKind::kInvalidInput, "its header is not that of one plain array: " + header);
  }
  if (descr[1] == ">") {
    fail(ErrorKind::kInvalidInput, "the array is big endian; save it with array.astype(array.dtype.newbyteorder('<'))");
  }
  if (order[1] == "True") {
    fail(ErrorKind::kInvalidInput, "the array is in Fortran order; save it with numpy.ascontiguousarray(array)");
  }
  const auto dtype = kDTypes.find(descr[2]);
  if (dtype == kDTypes.end()) fail(ErrorKind::kUnsupported, "motley lacks the dtype '" + descr[2].str() + "'");

  NamedTensor array{.dtype = dtype->second};
  auto bytes = static_cast<std::uint64_t>(size_of(array.dtype).value);
  const std::string sizes = shape[1];
  const std::regex number("[0-9]+");
  for (std::sregex_iterator it(sizes.begin(), sizes.end(), number), end; it != end; ++it) {
    if (it->length() > 18 || __builtin_mul_overflow(bytes, std::stoull(it->str()), &bytes)) {
      fail(ErrorKind::kInvalidInput, "its shape (" + sizes + ") is too large");
    }
    array.shape.push_back(std::stoll(it->str()));
  }
  if (text.size() - data_begin != bytes) {
    fail(ErrorKind::kInvalidInput, "it holds " + std::to_string(text.size() - data_begin) +
                                       " bytes of data, its shape (" + sizes + ") needs " + std::to_string(bytes));
  }
  array.bytes = file.subspan(data_begin);
  return array;
}

}  // namespace motley

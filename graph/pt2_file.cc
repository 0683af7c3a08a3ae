#include "graph/pt2_file.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "graph/export_schema.h"
#include "graph/zip_archive.h"

namespace motley {
namespace {

constexpr std::int64_t kSchemaMajor = 8;  // the schema of the header that this is built with
constexpr const char* kFormat = "archive_format";

std::int64_t as_number(const schema::SymInt& size) {
  if (size.tag() == schema::SymInt::Tag::AS_INT) return size.get_as_int();
  throw Error(ErrorKind::kUnsupported, "a stored tensor has the symbolic size " + size.get_as_expr().get_expr_str());
}

std::vector<std::int64_t> as_numbers(const std::vector<schema::SymInt>& sizes) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(sizes.size());
  for (const schema::SymInt& size : sizes) numbers.push_back(as_number(size));
  return numbers;
}

// Elements from the storage's start to the tensor's last one; 0 when it has none.
std::int64_t storage_extent(const StoredTensor& tensor) {
  std::int64_t last = tensor.offset;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return 0;
    last += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  return last + 1;
}

bool is_row_major(const StoredTensor& tensor) {
  std::int64_t expected = 1;
  for (std::size_t i = tensor.sizes.size(); i-- > 0;) {
    if (tensor.sizes[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.sizes[i];
  }
  return true;
}

void check_kind(const ZipArchive& zip, const std::string& file) {
  if (zip.contains(kFormat) && zip.read(kFormat) == "pt2" && !zip.list("models/").empty()) return;
  std::string found = "a zip of something else";
  if (zip.contains(kFormat)) {
    found = "a PyTorch archive without an exported program";
  } else if (zip.contains("serialized_exported_program.json")) {
    found = "a .pt2 file of an old PyTorch";
  } else if (zip.contains("constants.pkl")) {
    found = "a TorchScript file";
  } else if (zip.contains("data.pkl")) {
    found = "a torch.save file";
  }
  throw Error(ErrorKind::kInvalidInput, file + ": " + found +
                                            "; motley reads .pt2 files made by torch.export.save of PyTorch 2.14 "
                                            "(motley.export_model makes one)");
}

nlohmann::json parse_json(const std::string& text, const std::string& file, const std::string& entry) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_discarded() && json.is_object()) return json;
  throw Error(ErrorKind::kInvalidInput, file + ": " + entry + " is not valid JSON: export the model again");
}

// The generated readers throw nlohmann's exceptions, which name the field.
template <class Value>
Value decode(const nlohmann::json& json, const std::string& file, const std::string& entry) {
  try {
    return json.get<Value>();
  } catch (const nlohmann::json::exception& problem) {
    throw Error(ErrorKind::kInvalidInput,
                file + ": " + entry + " does not follow the schema of torch.export: " + problem.what());
  }
}

void check_version(const nlohmann::json& json, const std::string& file) {
  const nlohmann::json version = json.value("schema_version", nlohmann::json::object());
  const auto part = [&](const char* name) {
    return version.contains(name) && version[name].is_number_integer() ? version[name].get<std::int64_t>() : -1;
  };
  if (part("major") == kSchemaMajor) return;
  const std::string written = json.value("torch_version", nlohmann::json("?")).dump();
  throw Error(ErrorKind::kUnsupported, file + ": the graph has schema version " + std::to_string(part("major")) + "." +
                                           std::to_string(part("minor")) + " (written by PyTorch " + written +
                                           "), and motley reads version " + std::to_string(kSchemaMajor) +
                                           ": export the model with PyTorch 2.14");
}

void add_table(const ZipArchive& zip, const std::string& file, const std::string& folder, const std::string& table,
               std::map<std::string, StoredTensor>& tensors) {
  const std::string entry = folder + table;
  if (!zip.contains(entry)) return;
  const auto config = decode<schema::PayloadConfig>(parse_json(zip.read(entry), file, entry), file, entry);
  for (const auto& [name, payload] : config.get_config()) {
    if (payload.get_use_pickle() || !payload.get_tensor_meta()) {
      throw Error(ErrorKind::kUnsupported, std::string(file).append(": ").append(name).append(
                                               " is stored as a pickled Python object, not as a plain tensor: replace "
                                               "it by a plain tensor and export again"));
    }
    const schema::TensorMeta& meta = *payload.get_tensor_meta();
    StoredTensor tensor;
    tensor.dtype = dtype_from_code(static_cast<std::int64_t>(meta.get_dtype()));
    tensor.sizes = as_numbers(meta.get_sizes());
    tensor.strides = as_numbers(meta.get_strides());
    tensor.offset = as_number(meta.get_storage_offset());
    tensor.entry = folder + payload.get_path_name();
    tensor.is_parameter = payload.get_is_param();
    tensor.present = meta.get_device().get_type() != "meta" && zip.contains(tensor.entry);
    tensors.emplace(name, std::move(tensor));
  }
}

}  // namespace

DType dtype_from_code(std::int64_t code) {
  switch (static_cast<schema::ScalarType>(code)) {
    case schema::ScalarType::FLOAT:
      return DType::kFloat32;
    case schema::ScalarType::HALF:
      return DType::kFloat16;
    case schema::ScalarType::BFLOAT16:
      return DType::kBFloat16;
    case schema::ScalarType::DOUBLE:
      return DType::kFloat64;
    case schema::ScalarType::LONG:
      return DType::kInt64;
    case schema::ScalarType::INT:
      return DType::kInt32;
    case schema::ScalarType::SHORT:
      return DType::kInt16;
    case schema::ScalarType::CHAR:
      return DType::kInt8;
    case schema::ScalarType::BYTE:
      return DType::kUInt8;
    case schema::ScalarType::BOOL:
      return DType::kBool;
    default:
      throw Error(ErrorKind::kUnsupported, "a tensor has the scalar type of code " + std::to_string(code) +
                                               ", which motley does not know (complex numbers, 8-bit floats)");
  }
}

bool StoredTensor::same_storage(const StoredTensor& other) const {
  return present && other.present && entry == other.entry && dtype == other.dtype && sizes == other.sizes &&
         strides == other.strides && offset == other.offset;
}

struct Pt2File::State {
  std::filesystem::path path;
  schema::ExportedProgram program;
  std::string json;
  std::map<std::string, StoredTensor> tensors;
};

Pt2File::Pt2File(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pt2File::Pt2File(Pt2File&&) noexcept = default;
Pt2File& Pt2File::operator=(Pt2File&&) noexcept = default;
Pt2File::~Pt2File() = default;

Pt2File Pt2File::open(const std::filesystem::path& path) {
  const std::string file = path.string();
  const ZipArchive zip(path);
  check_kind(zip, file);
  if (zip.contains("byteorder") && zip.read("byteorder") != "little") {
    throw Error(ErrorKind::kUnsupported, file + ": its numbers are big-endian; export it on a little-endian machine");
  }
  const std::vector<std::string> models = zip.list("models/");
  if (models.size() != 1) {
    throw Error(ErrorKind::kUnsupported, file + ": holds " + std::to_string(models.size()) +
                                             " models; save the one to train in a file of its own");
  }
  auto state = std::make_unique<State>();
  state->path = path;
  state->json = zip.read(models.front());
  const nlohmann::json json = parse_json(state->json, file, models.front());
  check_version(json, file);
  state->program = decode<schema::ExportedProgram>(json, file, models.front());
  const std::string name = std::filesystem::path(models.front()).stem().string();
  try {
    add_table(zip, file, "data/weights/", name + "_weights_config.json", state->tensors);
    add_table(zip, file, "data/constants/", name + "_constants_config.json", state->tensors);
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(file)) throw;
    throw Error(error.kind(), file + ": " + error.what());
  }
  return Pt2File(std::move(state));
}

const std::filesystem::path& Pt2File::path() const { return state_->path; }
const schema::ExportedProgram& Pt2File::program() const { return state_->program; }
const std::string& Pt2File::graph_json() const { return state_->json; }
const std::map<std::string, StoredTensor>& Pt2File::tensors() const { return state_->tensors; }

bool Pt2File::has_weights() const {
  return std::all_of(tensors().begin(), tensors().end(), [](const auto& named) { return named.second.present; });
}

std::string Pt2File::read(const std::string& name) const {
  const std::string file = path().string();
  const auto found = tensors().find(name);
  if (found == tensors().end()) throw Error(ErrorKind::kNotFound, file + ": has no tensor named " + name);
  const StoredTensor& tensor = found->second;
  if (!tensor.present) {
    throw Error(ErrorKind::kInvalidInput, file + ": holds shapes alone, and the values of " + name +
                                              " are needed: export the model with its weights");
  }
  const std::string storage = ZipArchive(path()).read(tensor.entry);
  const std::int64_t width = size_of(tensor.dtype).value;
  const std::int64_t extent = storage_extent(tensor);
  if (static_cast<std::int64_t>(storage.size()) < extent * width || tensor.strides.size() != tensor.sizes.size()) {
    throw Error(ErrorKind::kInvalidInput, file + ": the bytes of " + name + " are too few for its shape (" +
                                              std::to_string(storage.size()) + " in " + tensor.entry + ", " +
                                              std::to_string(extent * width) + " needed): export the model again");
  }
  std::int64_t count = 1;
  for (std::int64_t size : tensor.sizes) count *= size;
  if (count == 0) return {};
  std::string values(static_cast<std::size_t>(count * width), '\0');
  if (is_row_major(tensor)) return storage.substr(static_cast<std::size_t>(tensor.offset * width), values.size());
  std::vector<std::int64_t> index(tensor.sizes.size(), 0);
  std::int64_t from = tensor.offset;
  for (std::int64_t to = 0; to < count; ++to) {
    std::memcpy(values.data() + to * width, storage.data() + from * width, static_cast<std::size_t>(width));
    for (std::size_t i = index.size(); i-- > 0;) {
      from += tensor.strides[i];
      if (++index[i] < tensor.sizes[i]) break;
      from -= tensor.strides[i] * tensor.sizes[i];
      index[i] = 0;
    }
  }
  return values;
}

}  // namespace motley

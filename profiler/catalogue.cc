#include "profiler/catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/suggest.h"

namespace motley {
namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

struct Row {
  const char* name;
  double fp64, fp32, tf32, fp16, bf16;  // TFLOP/s
  int memory;                           // GiB
  double bandwidth;                     // GB/s
  int pcie;                             // generation, 16 lanes
  double nvlink;                        // GB/s, one way
  const char* source;
};

// One line per device, as its data sheet has it. Rates with sparsity are halved; NVLink's total of both ways likewise.
constexpr std::array<Row, 18> kRows{{
    {"GTX-1080-Ti", 0.354, 11.3, 0, 0.177, 0, 11, 484, 3, 0, "NVIDIA GeForce GTX 1080 Ti specifications (GP102)"},
    {"P100", 4.7, 9.3, 0, 18.7, 0, 16, 732, 3, 0, "NVIDIA Tesla P100 PCIe data sheet"},
    {"P100-12GB", 4.7, 9.3, 0, 18.7, 0, 12, 549, 3, 0, "NVIDIA Tesla P100 PCIe data sheet, 12 GB"},
    {"T4", 0.254, 8.1, 0, 65, 0, 16, 320, 3, 0, "NVIDIA T4 data sheet"},
    {"V100-16GB", 7.8, 15.7, 0, 125, 0, 16, 900, 3, 150, "NVIDIA V100 data sheet, SXM2"},
    {"V100-32GB", 7.8, 15.7, 0, 125, 0, 32, 900, 3, 150, "NVIDIA V100 data sheet, SXM2"},
    {"RTX-2080-Ti", 0.42, 13.4, 0, 53.8, 0, 11, 616, 3, 0, "NVIDIA Turing GPU architecture whitepaper, reference card"},
    {"RTX-3090", 0.556, 35.6, 35.6, 71, 71, 24, 936, 4, 0, "NVIDIA Ampere GA102 GPU architecture whitepaper"},
    {"RTX-4090", 1.29, 82.6, 82.6, 165.2, 165.2, 24, 1008, 4, 0, "NVIDIA Ada GPU architecture whitepaper"},
    {"A10", 0.976, 31.2, 62.5, 125, 125, 24, 600, 4, 0, "NVIDIA A10 data sheet"},
    {"L4", 0.473, 30.3, 60, 121, 121, 24, 300, 4, 0, "NVIDIA L4 data sheet"},
    {"L40S", 1.43, 91.6, 183, 362, 362, 48, 864, 4, 0, "NVIDIA L40S data sheet"},
    {"A100-40GB", 9.7, 19.5, 156, 312, 312, 40, 1555, 4, 300, "NVIDIA A100 data sheet, SXM4"},
    {"A100-80GB", 9.7, 19.5, 156, 312, 312, 80, 2039, 4, 300, "NVIDIA A100 data sheet, SXM4"},
    {"H100", 34, 67, 494.5, 989.5, 989.5, 80, 3350, 5, 450, "NVIDIA H100 data sheet, SXM5"},
    {"H200", 34, 67, 494.5, 989.5, 989.5, 141, 4800, 5, 450, "NVIDIA H200 data sheet, SXM"},
    {"B200", 37, 75, 1120, 2250, 2250, 180, 8000, 5, 900, "NVIDIA HGX B200 and DGX B200 data sheets, per GPU"},
    {"cpu", 0.03, 0.06, 0, 0, 0, 0, 10, 0, 0, "assumed: one core with 256-bit vectors; profile the machine"},
}};

// Copies reach about 0.8 of 15.8, 31.5 and 63 GB/s.
double host_rate(int pcie) {
  switch (pcie) {
    case 3:
      return 12;
    case 4:
      return 25;
    case 5:
      return 50;
    default:
      return 10;  // a CPU's own memory
  }
}

DeviceKind made(const Row& row) {
  const bool gpu = row.pcie > 0;
  DeviceKind kind;
  kind.name = row.name;
  kind.fp64 = FlopsPerSecond(row.fp64 * kTera);
  kind.fp32 = FlopsPerSecond(row.fp32 * kTera);
  kind.tf32 = FlopsPerSecond(row.tf32 * kTera);
  kind.fp16 = FlopsPerSecond(row.fp16 * kTera);
  kind.bf16 = FlopsPerSecond(row.bf16 * kTera);
  kind.memory = Bytes(std::int64_t{row.memory} << 30);
  kind.memory_bandwidth = BytesPerSecond(row.bandwidth * kGiga);
  kind.host_bandwidth = BytesPerSecond(host_rate(row.pcie) * kGiga);
  kind.host_latency = Seconds(gpu ? 5e-6 : 1e-6);
  kind.nvlink = BytesPerSecond(row.nvlink * kGiga);
  // Of no data sheet: what an eager op and a CUDA context are known to take, whatever the card.
  kind.launch = Seconds(gpu ? 8e-6 : 3e-6);
  kind.context = Bytes(std::int64_t{gpu ? 500 : 300} << 20);
  kind.message = Seconds(gpu ? 15e-6 : 30e-6);
  kind.source = row.source;
  return kind;
}

// Letters and digits in lower case: "NVIDIA GeForce RTX 3090" -> "nvidiageforcertx3090".
std::string folded(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return result;
}

// The catalogue's name without its memory size: "A100-80GB" -> "a100".
std::string chip(const DeviceKind& kind) {
  const std::size_t dash = kind.name.rfind('-');
  const bool sized = dash != std::string::npos && kind.name.ends_with("GB");
  return folded(sized ? kind.name.substr(0, dash) : kind.name);
}

}  // namespace

FlopsPerSecond DeviceKind::peak(DType dtype) const {
  FlopsPerSecond rate = fp32;
  if (dtype == DType::kFloat64) rate = fp64;
  if (dtype == DType::kFloat16) rate = fp16;
  if (dtype == DType::kBFloat16) rate = bf16;
  return rate.value > 0 ? rate : fp32;
}

const std::vector<DeviceKind>& device_kinds() {
  static const std::vector<DeviceKind> kKinds = [] {
    std::vector<DeviceKind> kinds;
    kinds.reserve(kRows.size());
    for (const Row& row : kRows) kinds.push_back(made(row));
    return kinds;
  }();
  return kKinds;
}

ScaledName split_kind(const std::string& name) {
  const std::size_t at = name.rfind('@');
  if (at == std::string::npos) return {name, 1};
  double factor = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + at + 1, end, factor);
  if (error != std::errc{} || rest != end || !(factor > 0) || factor > 1) return {name, 1};
  return {name.substr(0, at), factor};
}

std::string join_kind(const ScaledName& name) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "@%.3g", name.factor);
  return buffer.data() == std::string("@1") ? name.name : name.name + buffer.data();
}

std::optional<DeviceKind> find_kind(const std::string& name) {
  const ScaledName scaled = split_kind(name);
  for (const DeviceKind& known : device_kinds()) {
    if (known.name != scaled.name) continue;
    DeviceKind kind = known;
    kind.name = name;
    for (FlopsPerSecond* rate : {&kind.fp64, &kind.fp32, &kind.tf32, &kind.fp16, &kind.bf16}) {
      *rate = *rate * scaled.factor;
    }
    kind.memory_bandwidth = kind.memory_bandwidth * scaled.factor;
    kind.launch = kind.launch / scaled.factor;
    kind.message = kind.message / scaled.factor;
    return kind;
  }
  return std::nullopt;
}

std::string kind_of_model(const std::string& model, Bytes memory) {
  const std::string wanted = folded(model);
  const DeviceKind* best = nullptr;
  for (const DeviceKind& kind : device_kinds()) {
    const std::string name = chip(kind);
    const std::size_t at = kind.memory.value > 0 ? wanted.find(name) : std::string::npos;
    if (at == std::string::npos) continue;
    // "A10" is not "A100", "L4" not "L40S", "RTX 3090" not "RTX 3090 Ti".
    const std::string rest = wanted.substr(at + name.size());
    if ((!rest.empty() && std::isdigit(static_cast<unsigned char>(rest[0])) != 0) || rest.starts_with("ti")) continue;
    // Of one chip with several memories, the nearest; drivers tell a little less than the nominal size.
    const auto off = [&](const DeviceKind& k) { return std::abs(static_cast<double>((k.memory - memory).value)); };
    if (best == nullptr || name.size() > chip(*best).size() || (name == chip(*best) && off(kind) < off(*best))) {
      best = &kind;
    }
  }
  if (best != nullptr) return best->name;
  std::string own = model;
  std::replace_if(
      own.begin(), own.end(), [](unsigned char c) { return c <= ' ' || c == ',' || c == '@'; }, '-');
  return own;
}

KindDefaults catalogue_defaults(const std::string& kind) {
  if (const std::optional<DeviceKind> known = find_kind(kind)) {
    return {known->memory, known->host_bandwidth, known->host_latency, known->nvlink, ""};
  }
  std::vector<std::string> names;
  for (const DeviceKind& known : device_kinds()) names.push_back(known.name);
  KindDefaults defaults;
  defaults.suggestion = nearest_name(split_kind(kind).name, names);
  return defaults;
}

}  // namespace motley

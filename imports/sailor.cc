#include "imports/sailor.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "imports/layers.h"

namespace motley {
namespace {

SailorBandwidth bandwidth_at(const JsonPlace& place) {
  SailorBandwidth bandwidth;
  const JsonPlace polynomial = place[0];
  for (std::size_t i = 0; i < 3; ++i) bandwidth.c.at(i) = polynomial[i].any_number();
  bandwidth.peak = BytesPerSecond(place[1].number());
  if (bandwidth.peak <= BytesPerSecond(0)) place[1].fail("a peak bandwidth should be more than 0");
  return bandwidth;
}

}  // namespace

std::vector<RatePoint> rates_of(const SailorBandwidth& bandwidth, std::int64_t sharing) {
  constexpr int kLeast = -10, kMost = 14;  // 1 kB to 16 GB
  const auto& [c2, c1, c0] = bandwidth.c;
  std::vector<RatePoint> points;
  double fastest = 0;
  for (int power = kLeast; power <= kMost; ++power) {
    // Left of its least value a polynomial rises with smaller messages: it was fitted to larger ones.
    if (c2 > 0 && power < -c1 / (2 * c2)) {
      points.push_back({Bytes(std::llround(std::exp2(power) * 1e6)), BytesPerSecond(0)});
      continue;
    }
    const double rate = std::min((c2 * power * power + c1 * power + c0) * 1e9, bandwidth.peak.value);
    fastest = std::max(fastest, rate);
    points.push_back({Bytes(std::llround(std::exp2(power) * 1e6)), BytesPerSecond(fastest)});
  }
  double shortest = points.back().bytes.value / points.back().rate.value;
  for (std::size_t i = points.size(); i-- > 0;) {
    const auto bytes = static_cast<double>(points[i].bytes.value);
    const double rate = points[i].rate.value;
    if (rate > 0) shortest = std::min(shortest, bytes / rate);
    points[i].rate = BytesPerSecond(bytes / shortest / static_cast<double>(sharing));
    points[i].rate = std::min(points[i].rate, points[std::min(i + 1, points.size() - 1)].rate);  // but for rounding
  }
  return points;
}

SailorProfiles::SailorProfiles(std::filesystem::path folder, std::string model)
    : folder_(std::move(folder)), model_(std::move(model)) {
  std::vector<std::filesystem::path> configs;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("training_config") && name.ends_with(".json")) configs.push_back(entry.path());
  }
  std::sort(configs.begin(), configs.end());
  if (model_.empty()) {
    if (configs.size() != 1) {
      throw Error(ErrorKind::kNotFound, folder_.string() + ": has " + std::to_string(configs.size()) +
                                            " training_config_*.json: say which model of " +
                                            (folder_ / "profiles").string() + " it is");
    }
    model_ = JsonPlace::of_file(configs[0])["model"].text();
  }
  for (const std::filesystem::path& path : configs) {
    const JsonPlace config = JsonPlace::of_file(path);
    if (config["model"].text() != model_ || !config.has("heads")) continue;
    transformer_ = {config["num_layers"].integer(), config["heads"].integer(), config["sequence_length"].integer()};
  }
  const JsonPlace degrees = file("llm_info.json")[model_];
  if (degrees.keys().empty()) degrees.fail("has no tensor-parallel degree");
  layers_ = static_cast<std::int32_t>(degrees[degrees.keys().front()].keys().size());
}

const JsonPlace& SailorProfiles::file(const std::string& name) const {
  auto known = files_.find(name);
  if (known == files_.end()) known = files_.emplace(name, JsonPlace::of_file(folder_ / name)).first;
  return known->second;
}

SailorSizes SailorProfiles::sizes(std::int64_t tensor_parallel, std::int32_t layer) const {
  const JsonPlace at = file("llm_info.json")[model_][std::to_string(tensor_parallel)][std::to_string(layer)];
  return {Bytes(at["params_bytes"].integer()), Bytes(at["act_output_bytes"].integer()),
          Bytes(at["act_mem_bytes"].integer())};
}

std::vector<LayerTimes> SailorProfiles::times(const std::string& gpu, std::int64_t tensor_parallel,
                                              std::int32_t layer) const {
  const JsonPlace& profile = file("profiles/" + model_ + "/" + gpu + "/profile.json");
  std::vector<LayerTimes> times;
  for (const std::string& size : profile.keys()) {
    const JsonPlace of_size = profile[size];
    if (!of_size.has(std::to_string(tensor_parallel))) continue;  // did not fit
    const JsonPlace at = of_size[std::to_string(tensor_parallel)][std::to_string(layer)];
    times.push_back({of_size.key_number(), Seconds(at[0].number()), Seconds(at[1].number()), Seconds(at[2].number())});
  }
  if (times.empty()) profile.fail("has no times at tensor-parallel degree " + std::to_string(tensor_parallel));
  std::ranges::sort(times, {}, &LayerTimes::samples);
  return times;
}

std::vector<std::string> SailorProfiles::gpus() const {
  std::vector<std::string> gpus;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "profiles" / model_, error)) {
    if (std::filesystem::exists(entry.path() / "profile.json")) gpus.push_back(entry.path().filename().string());
  }
  std::sort(gpus.begin(), gpus.end());
  return gpus;
}

std::vector<std::int64_t> SailorProfiles::degrees(const std::string& gpu) const {
  const JsonPlace& profile = file("profiles/" + model_ + "/" + gpu + "/profile.json");
  const JsonPlace sizes = file("llm_info.json")[model_];
  std::set<std::int64_t> degrees;
  for (const std::string& samples : profile.keys()) {
    for (const std::string& degree : profile[samples].keys()) {
      if (sizes.has(degree)) degrees.insert(sizes[degree].key_number());
    }
  }
  return {degrees.begin(), degrees.end()};
}

std::int64_t SailorProfiles::gpus_per_node(const std::string& gpu) const {
  const JsonPlace count = file("basic_cluster_config.json")[gpu]["gpus_per_node"];
  if (count.integer() == 0) count.fail("should be 1 or more");
  return count.integer();
}

Bytes SailorProfiles::memory(const std::string& gpu) const {
  return Bytes(file("basic_cluster_config.json")[gpu]["mem_per_gpu"].integer());
}

SailorProfiles::Shared SailorProfiles::bandwidth(const std::string& where, const std::string& gpu,
                                                 std::int64_t gpus) const {
  const JsonPlace counts = file("network/network_coeffs_all_homo.json")[where][gpu];
  std::vector<std::int64_t> known;
  for (const std::string& count : counts.keys()) known.push_back(counts[count].key_number());
  if (known.empty()) counts.fail("has no number of GPUs");
  std::sort(known.begin(), known.end());
  const auto enough = std::ranges::lower_bound(known, gpus);
  const std::int64_t count = enough == known.end() ? known.back() : *enough;
  return {bandwidth_at(counts[std::to_string(count)]), count};
}

Graph sailor_graph(const SailorProfiles& profiles, const std::vector<std::int64_t>& degrees) {
  std::vector<Layer> layers;
  for (std::int32_t layer = 0; layer < profiles.layers(); ++layer) {
    const SailorSizes sizes = profiles.sizes(degrees[static_cast<std::size_t>(layer)], layer);
    std::vector<std::int32_t> inputs;
    if (layer > 0) inputs = {layer - 1};
    layers.push_back({"layer" + std::to_string(layer), std::move(inputs), sizes.parameters, sizes.output,
                      megatron_deepspeed::kAdamStates});
  }
  return graph_of_layers(profiles.model(), layers);
}

ImportedDevice sailor_device(const SailorProfiles& profiles, const std::string& gpu, std::int64_t degree,
                             bool attention) {
  ImportedDevice device;
  device.messages.in_line = true;
  device.context = megatron_deepspeed::context(gpu, degree);
  const Bytes workspace =
      attention ? megatron_deepspeed::attention_workspace(*profiles.transformer(), degree) : Bytes(0);
  for (std::int32_t layer = 0; layer < profiles.layers(); ++layer) {
    const SailorSizes sizes = profiles.sizes(degree, layer);
    const Bytes kept = std::max(Bytes(0), sizes.activations - sizes.output);
    device.layers.push_back({profiles.times(gpu, degree, layer), {kept, workspace}});
  }
  return device;
}

}  // namespace motley

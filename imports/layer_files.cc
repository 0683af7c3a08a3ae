#include "imports/layer_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "imports/json_place.h"

namespace motley {
namespace {

constexpr double kForwardShare = 1.0 / 3;

// What stands in the file, before it is put in order.
struct FoundLayer {
  Layer layer;  // without inputs
  LayerCost cost;
  std::vector<std::string> inputs;  // ids
};

// Each node behind its inputs, else in the order of `ids`.
ImportedModel in_order(const std::string& source, std::map<std::string, FoundLayer> nodes,
                       const std::vector<std::string>& ids) {
  ImportedModel model{std::filesystem::path(source).stem().string(), {}, {}};
  std::map<std::string, std::int32_t> place;  // -1: being placed
  const auto put = [&](const auto& self, const std::string& id) -> std::int32_t {
    const auto [known, fresh] = place.try_emplace(id, -1);
    if (!fresh && known->second < 0) {
      throw Error(ErrorKind::kInvalidInput, source + ": node " + id + " feeds itself: a layer graph has no circle");
    }
    if (!fresh) return known->second;
    FoundLayer& node = nodes.at(id);
    for (const std::string& input : node.inputs) node.layer.inputs.push_back(self(self, input));
    model.layers.push_back(std::move(node.layer));
    model.costs.push_back(std::move(node.cost));
    return place[id] = static_cast<std::int32_t>(model.layers.size() - 1);
  };
  for (const std::string& id : ids) put(put, id);
  return model;
}

// A file that is read line by line.
class PipedreamReader {
 public:
  explicit PipedreamReader(std::string source) : source_(std::move(source)) {}

  ImportedModel read(const std::string& text) {
    std::istringstream lines(text);
    std::string line;
    std::vector<std::pair<std::string, int>> edges;
    while (std::getline(lines, line)) {
      ++line_;
      if (line.starts_with('\t')) {
        edges.emplace_back(line.substr(1), line_);
      } else if (!line.empty()) {
        add_node(line);
      }
    }
    for (const auto& [edge, number] : edges) {
      line_ = number;
      add_edge(edge);
    }
    leave_out_inputs();
    if (ids_.empty()) throw Error(ErrorKind::kInvalidInput, source_ + ": has no layer");
    return in_order(source_, std::move(nodes_), ids_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kInvalidInput, source_ + ":" + std::to_string(line_) + ": " + what);
  }

  // ID -- LAYER -- forward_compute_time=MS, backward_compute_time=MS, activation_size=B, parameter_size=B
  void add_node(const std::string& line) {
    const std::size_t first = line.find(" -- ");
    const std::size_t last = line.find(" -- forward_compute_time=");
    if (first == std::string::npos || last == std::string::npos) {
      fail("should be \"ID -- LAYER -- forward_compute_time=..., ...\", or an edge after a tab");
    }
    const std::string id = line.substr(0, first);
    if (line.compare(first + 4, 5, "Input") == 0) inputs_.insert(id);
    FoundLayer node;
    node.layer.name = id;
    node.layer.parameters = Bytes(std::llround(figure(line, "parameter_size")));
    node.layer.output = Bytes(std::llround(figure(line, "activation_size")));
    node.layer.states = 0;
    node.cost.times = {{1, Seconds(figure(line, "forward_compute_time") / 1e3),
                        Seconds(figure(line, "backward_compute_time") / 1e3), Seconds(0)}};
    if (!nodes_.emplace(id, std::move(node)).second) fail("node " + id + " stands twice");
    ids_.push_back(id);
  }

  void add_edge(const std::string& edge) {
    const std::size_t middle = edge.find(" -- ");
    if (middle == std::string::npos) fail("should be an edge \"ID -- ID\"");
    const std::string from = edge.substr(0, middle), to = edge.substr(middle + 4);
    for (const std::string& id : {from, to}) {
      if (!nodes_.contains(id)) fail("there is no node " + id);
    }
    nodes_.at(to).inputs.push_back(from);
  }

  // The time of an input is that of loading data, which no device computes: PipeDream's optimizer leaves it out too.
  void leave_out_inputs() {
    for (const std::string& id : inputs_) nodes_.erase(id);
    std::erase_if(ids_, [&](const std::string& id) { return inputs_.contains(id); });
    for (auto& [id, node] : nodes_) {
      std::erase_if(node.inputs, [&](const std::string& input) { return inputs_.contains(input); });
    }
  }

  // A number, or the sum of "[a; b; c]".
  double figure(const std::string& line, const std::string& key) const {
    const std::size_t at = line.find(key + "=");
    if (at == std::string::npos) fail("has no " + key);
    double sum = 0;
    const char* next = line.data() + at + key.size() + 1;
    const char* const end = line.data() + line.size();
    const bool list = next != end && *next == '[';
    do {
      while (next != end && (*next == '[' || *next == ';' || *next == ' ')) ++next;
      double value = 0;
      const auto read = std::from_chars(next, end, value);
      if (read.ec != std::errc() || !(value >= 0) || !std::isfinite(value))
        fail(key + " should be a number, 0 or more");
      sum += value;
      next = read.ptr;
    } while (list && next != end && *next == ';');
    return sum;
  }

  std::string source_;
  int line_ = 0;
  std::map<std::string, FoundLayer> nodes_;
  std::vector<std::string> ids_;
  std::set<std::string> inputs_;
};

LayerTimes times_of(std::int64_t samples, Seconds both, Seconds update = {}) {
  return {samples, kForwardShare * both, (1 - kForwardShare) * both, update};
}

JsonPlace vanilla(const JsonPlace& variants) {
  for (const JsonPlace& variant : variants.elements()) {
    if (variant["id"].text() == "vanilla") return variant;
  }
  variants.fail("has no variant \"vanilla\"");
}

}  // namespace

ImportedModel read_pipedream(const std::filesystem::path& path) {
  return PipedreamReader(path.string()).read(read_file(path));
}

ImportedModel read_piper(const std::filesystem::path& path, std::int64_t tensor_parallel) {
  const JsonPlace file = JsonPlace::of_file(path);
  std::map<std::string, FoundLayer> nodes;
  std::vector<std::string> ids;
  for (const JsonPlace& each : file["nodes"].elements()) {
    const std::string id = std::to_string(each["id"].integer());
    const JsonPlace variant = vanilla(each["TMPCs"][std::to_string(tensor_parallel)]);
    FoundLayer node;
    node.layer = {each["name"].text() + "." + id, {}, Bytes(variant["parameterSize"].integer()), Bytes(0), 0};
    node.cost.times = {times_of(1, Seconds(variant["timePerSample"].number()))};
    node.cost.memory.kept = Bytes(variant["memoryUsageA"].integer());
    if (!nodes.emplace(id, std::move(node)).second) each.fail("node " + id + " stands twice");
    ids.push_back(id);
  }
  for (const JsonPlace& edge : file["edges"].elements()) {
    const std::string from = std::to_string(edge["sourceId"].integer()), to = std::to_string(edge["destId"].integer());
    for (const std::string& id : {from, to}) {
      if (!nodes.contains(id)) edge.fail("there is no node " + id);
    }
    nodes.at(to).inputs.push_back(from);
    Bytes& output = nodes.at(from).layer.output;
    output = std::max(output, Bytes(edge["communicationCost"].integer()));
  }
  // What a layer keeps has its output in it, as far as it goes.
  for (auto& [id, node] : nodes) {
    node.cost.memory.kept = std::max(Bytes(0), node.cost.memory.kept - node.layer.output);
  }
  return in_order(path.string(), std::move(nodes), ids);
}

std::vector<std::int64_t> piper_degrees(const std::filesystem::path& path) {
  std::map<std::int64_t, std::size_t> nodes;  // with that degree
  const std::vector<JsonPlace> all = JsonPlace::of_file(path)["nodes"].elements();
  for (const JsonPlace& node : all) {
    for (const std::string& degree : node["TMPCs"].keys()) ++nodes[node["TMPCs"][degree].key_number()];
  }
  std::vector<std::int64_t> degrees;
  for (const auto& [degree, count] : nodes) {
    if (count == all.size()) degrees.push_back(degree);
  }
  if (degrees.empty()) throw Error(ErrorKind::kInvalidInput, path.string() + ": its nodes have no degree in common");
  return degrees;
}

namespace {

// Of a file DeviceType.GPU_tpN_bsM.json.
struct MetisFile {
  std::string gpu;
  std::int64_t degree = 0, samples = 0;
  std::filesystem::path path;
};

std::vector<MetisFile> metis_files(const std::filesystem::path& folder) {
  static const std::regex kName(R"(DeviceType\.(.+)_tp([1-9][0-9]{0,8})_bs([1-9][0-9]{0,8})\.json)");
  std::vector<MetisFile> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::smatch match;
    if (!std::regex_match(name, match, kName)) continue;
    files.push_back({match[1], std::stoll(match[2]), std::stoll(match[3]), entry.path()});
  }
  std::ranges::sort(files, {}, &MetisFile::samples);
  return files;
}

// By layer; empty where the file does not tell it.
std::vector<double> layer_memory(const JsonPlace& file) {
  std::vector<double> bytes;
  if (!file.has("execution_memory")) return bytes;
  for (const JsonPlace& layer : file["execution_memory"]["layer_memory_total_mb"].elements()) {
    bytes.push_back(layer.number() * (1 << 20));
  }
  return bytes;
}

}  // namespace

std::map<std::string, std::vector<std::int64_t>> metis_profiles(const std::filesystem::path& folder) {
  std::map<std::string, std::set<std::int64_t>> degrees;
  for (const MetisFile& file : metis_files(folder)) degrees[file.gpu].insert(file.degree);
  std::map<std::string, std::vector<std::int64_t>> found;
  for (const auto& [gpu, of_gpu] : degrees) found[gpu] = {of_gpu.begin(), of_gpu.end()};
  return found;
}

ImportedModel read_metis(const std::filesystem::path& folder, const std::string& gpu, std::int64_t tensor_parallel,
                         Bytes output) {
  ImportedModel model;
  std::vector<double> least;  // by layer: memory at the least samples
  for (const auto& [kind, degree, samples, path] : metis_files(folder)) {
    if (kind != gpu || degree != tensor_parallel) continue;
    const JsonPlace file = JsonPlace::of_file(path);
    const std::vector<JsonPlace> times = file["execution_time"]["layer_compute_total_ms"].elements();
    const JsonPlace sizes = file["model"]["parameters"]["parameters_per_layer_bytes"];
    const Seconds update(file["execution_time"]["optimizer_time_ms"].number() / 1e3 /
                         std::max(1.0, 1.0 * times.size()));
    const std::vector<double> memory = layer_memory(file);
    if (model.layers.empty()) {
      model.name = file["model"]["model_name"].text();
      for (std::size_t i = 0; i < times.size(); ++i) {
        Layer layer{"layer" + std::to_string(i), {}, Bytes(sizes[i].integer() / tensor_parallel), output};
        if (i > 0) layer.inputs = {static_cast<std::int32_t>(i - 1)};
        model.layers.push_back(std::move(layer));
        model.costs.emplace_back();
      }
      least = memory;
    }
    if (times.size() != model.layers.size() || memory.size() != least.size()) {
      file.fail("has " + std::to_string(times.size()) + " layers with times and " + std::to_string(memory.size()) +
                " with memory, others have " + std::to_string(model.layers.size()) + " and " +
                std::to_string(least.size()));
    }
    for (std::size_t i = 0; i < times.size(); ++i) {
      LayerCost& cost = model.costs[i];
      cost.times.push_back(times_of(samples, Seconds(times[i].number() / 1e3), update));
      const auto more = static_cast<double>(samples - cost.times.front().samples);
      if (i >= memory.size() || more == 0) continue;
      const double grows = (memory[i] - least[i]) / more - static_cast<double>(output.value);
      cost.memory.kept = Bytes(std::llround(std::max(0.0, grows)));
    }
  }
  if (model.layers.empty()) {
    throw Error(ErrorKind::kNotFound,
                (folder / ("DeviceType." + gpu + "_tp" + std::to_string(tensor_parallel))).string() +
                    "_bs*.json: there is no such file");
  }
  return model;
}

}  // namespace motley

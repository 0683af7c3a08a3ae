#include "imports/layer_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
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
    if (ids_.empty()) fail("has no node");
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

ImportedModel read_metis(const std::filesystem::path& folder, const std::string& gpu, std::int64_t tensor_parallel,
                         Bytes output) {
  const std::string prefix = "DeviceType." + gpu + "_tp" + std::to_string(tensor_parallel) + "_bs";
  ImportedModel model;
  std::error_code error;
  std::map<std::int64_t, std::filesystem::path> files;  // by samples
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(".json")) continue;
    std::int64_t samples = 0;
    const auto read = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), samples);
    if (read.ec == std::errc() && samples > 0) files[samples] = entry.path();
  }
  if (files.empty()) throw Error(ErrorKind::kNotFound, (folder / prefix).string() + "*.json: there is no such file");
  for (const auto& [samples, path] : files) {
    const JsonPlace file = JsonPlace::of_file(path);
    const std::vector<JsonPlace> times = file["execution_time"]["layer_compute_total_ms"].elements();
    const JsonPlace sizes = file["model"]["parameters"]["parameters_per_layer_bytes"];
    const Seconds update(file["execution_time"]["optimizer_time_ms"].number() / 1e3 /
                         std::max(1.0, 1.0 * times.size()));
    if (model.layers.empty()) {
      model.name = file["model"]["model_name"].text();
      for (std::size_t i = 0; i < times.size(); ++i) {
        Layer layer{"layer" + std::to_string(i), {}, Bytes(sizes[i].integer() / tensor_parallel), output};
        if (i > 0) layer.inputs = {static_cast<std::int32_t>(i - 1)};
        model.layers.push_back(std::move(layer));
        model.costs.emplace_back();
      }
    }
    if (times.size() != model.layers.size()) {
      file.fail("has " + std::to_string(times.size()) + " layers, others have " + std::to_string(model.layers.size()));
    }
    for (std::size_t i = 0; i < times.size(); ++i) {
      model.costs[i].times.push_back(times_of(samples, Seconds(times[i].number() / 1e3), update));
    }
  }
  return model;
}

}  // namespace motley

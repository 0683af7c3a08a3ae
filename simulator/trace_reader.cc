#include <cmath>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/error.h"
#include "base/file.h"
#include "compiler/serialize.h"
#include "graph/serialize.h"
#include "simulator/trace.h"

namespace motley {

namespace {

TraceFile read(const nlohmann::json& json, const std::string& source) {
  const auto found = json.find("motley");
  if (found == json.end()) {
    throw Error(ErrorKind::kInvalidInput, "no motley trace: write one with `motley run --trace FILE`");
  }
  const nlohmann::json& motley = *found;
  if (motley.at("version") != kTraceFormatVersion) {
    throw Error(ErrorKind::kInvalidInput, "a trace of version " + motley.at("version").dump() + ", this motley reads " +
                                              std::to_string(kTraceFormatVersion) + ": write it anew");
  }
  TraceFile file;
  file.graph = deserialize_graph(from_base64(motley.at("graph").get<std::string>()), source);
  file.cluster = parse_cluster(motley.at("cluster").get<std::string>(), source, nullptr);
  file.deployment = deserialize_deployment(from_base64(motley.at("deployment").get<std::string>()), source);
  if (file.deployment.graph_fingerprint != file.graph.fingerprint) {
    throw Error(ErrorKind::kInvalidInput, "the deployment is of another model than the graph: write the trace anew");
  }
  check(file.deployment);
  for (const nlohmann::json& one : motley.at("timelines")) {
    file.timelines.push_back({one.at("label"), {}, {}, Seconds(one.at("iteration_seconds").get<double>())});
  }
  const auto devices = static_cast<DeviceIndex>(file.cluster.devices.size());
  const auto seconds = [](double microseconds) { return Seconds(std::round(microseconds * 1e3) / 1e9); };
  for (const nlohmann::json& event : json.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const int process = event.at("pid").get<int>() - 1;
    const double start = event.at("ts"), duration = event.at("dur");
    file.timelines.at(static_cast<std::size_t>(process / devices))
        .events.push_back({process % devices, event.at("args").at("instruction").get<std::int32_t>(), seconds(start),
                           seconds(start + duration)});
  }
  return file;
}

}  // namespace

TraceFile parse_trace(const std::string& json, const std::string& source) {
  try {
    return read(nlohmann::json::parse(json), source);
  } catch (const Error& error) {
    throw Error(ErrorKind::kInvalidInput, source + ": " + error.what());
  } catch (const std::exception& error) {  // the parser's and the maps'
    throw Error(ErrorKind::kInvalidInput, source + ": this is no motley trace, or it was cut: " + error.what());
  }
}

TraceFile read_trace(const std::string& path) { return parse_trace(read_file(path), path); }

}  // namespace motley

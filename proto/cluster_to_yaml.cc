#include <yaml-cpp/yaml.h>

#include <cstdio>
#include <cstdlib>

#include "proto/cluster.h"

namespace motley {
namespace {

// Exact and still readable: base units, the fewest digits that read back as the same number.
std::string exact(double value, const char* unit) {
  char buffer[64];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    if (std::strtod(buffer, nullptr) == value) break;
  }
  return buffer + std::string(unit);
}

}  // namespace

std::string to_yaml(const Cluster& cluster) {
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "nodes" << YAML::Value << YAML::BeginSeq;
  for (const Node& node : cluster.nodes) {
    out << YAML::BeginMap << YAML::Key << "name" << YAML::Value << node.name;
    if (node.price > 0) out << YAML::Key << "price" << YAML::Value << exact(node.price, "");
    out << YAML::Key << "devices" << YAML::Value << YAML::BeginSeq;
    for (const DeviceIndex index : node.devices) {
      const Device& device = cluster.devices[index];
      out << YAML::Flow << YAML::BeginMap << YAML::Key << "kind" << YAML::Value << device.kind;
      out << YAML::Key << "memory" << YAML::Value << std::to_string(device.memory.value) + "B";
      if (device.price) out << YAML::Key << "price" << YAML::Value << exact(*device.price, "");
      out << YAML::Key << "nvlink" << YAML::Value << "none" << YAML::EndMap;
    }
    out << YAML::EndSeq << YAML::Key << "peer" << YAML::Value << "none" << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::Key << "switches" << YAML::Value << YAML::Flow << cluster.switches;
  out << YAML::Key << "links" << YAML::Value << YAML::BeginSeq;
  for (const Link& link : cluster.links) {
    out << YAML::Flow << YAML::BeginMap << YAML::Key << "name" << YAML::Value << link.name;
    out << YAML::Key << "between" << YAML::Value << YAML::Flow
        << std::vector<std::string>{cluster.vertex_name(link.a), cluster.vertex_name(link.b)};
    out << YAML::Key << "bandwidth" << YAML::Value << exact(link.bandwidth.value, "B/s");
    out << YAML::Key << "latency" << YAML::Value << exact(link.latency.value, "s");
    out << YAML::Key << "duplex" << YAML::Value << (link.full_duplex ? "full" : "half");
    if (!link.curve.empty()) {
      out << YAML::Key << "curve" << YAML::Value << YAML::Flow << YAML::BeginMap;
      for (const RatePoint& point : link.curve) {
        out << YAML::Key << std::to_string(point.bytes.value) + "B" << YAML::Value << exact(point.rate.value, "B/s");
      }
      out << YAML::EndMap;
    }
    out << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::EndMap;
  return out.c_str() + std::string("\n");
}

}  // namespace motley

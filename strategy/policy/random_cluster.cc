#include "strategy/policy/random_cluster.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "profiler/catalogue.h"
#include "strategy/policy/draw.h"

namespace motley {

namespace {

std::vector<std::string> some_kinds(Draw& draw) {
  std::vector<std::string> kinds;
  const std::vector<DeviceKind>& all = device_kinds();
  const std::int64_t count = draw.between(1, 4);
  while (static_cast<std::int64_t>(kinds.size()) < count) {
    const DeviceKind& kind = all[static_cast<std::size_t>(draw.between(0, static_cast<std::int64_t>(all.size()) - 1))];
    if (kind.memory.value == 0) continue;  // it depends on the machine
    std::string name = kind.name;
    if (draw.chance(0.2)) name = join_kind({name, static_cast<double>(draw.between(3, 9)) / 10});
    kinds.push_back(std::move(name));
  }
  return kinds;
}

std::string link(const std::string& a, const std::string& b, double gigabits, std::int64_t microseconds) {
  char text[160];
  std::snprintf(text, sizeof text, "  - {between: [%s, %s], bandwidth: %.3gGbps, latency: %lldus}\n", a.c_str(),
                b.c_str(), gigabits, static_cast<long long>(microseconds));
  return text;
}

}  // namespace

Cluster random_cluster(std::uint64_t seed) {
  Draw draw(seed);
  const std::vector<std::string> kinds = some_kinds(draw);
  const std::int64_t most = draw.between(2, 16);
  const bool zones = draw.chance(0.25);
  const double usual = draw.of({1.0, 10.0, 25.0, 40.0, 50.0, 100.0, 200.0});
  std::string nodes, links;
  std::int64_t devices = 0, count = 0;
  while (devices < most && count < 8) {
    const std::int64_t here = std::min<std::int64_t>(most - devices, draw.of<std::int64_t>({1, 1, 2, 2, 4, 8}));
    const std::string name = "n" + std::to_string(count);
    const std::string& kind = kinds[static_cast<std::size_t>(count) % kinds.size()];
    nodes.append("  - {name: ").append(name).append(", devices: {kind: ").append(kind);
    nodes.append(", count: ").append(std::to_string(here)).append("}}\n");
    const double bandwidth = draw.chance(0.7) ? usual : draw.of({1.0, 5.0, 10.0, 25.0, 50.0, 100.0});
    links += link(name, zones && count % 2 == 1 ? "far" : "near", bandwidth, draw.between(5, 50));
    devices += here;
    ++count;
  }
  if (zones) links += link("near", "far", draw.log_between(1, 100), draw.between(20, 500));
  const std::string switches = zones ? "[near, far]" : "[near]";
  return parse_cluster("nodes:\n" + nodes + "switches: " + switches + "\nlinks:\n" + links, "random cluster",
                       catalogue_defaults);
}

}  // namespace motley

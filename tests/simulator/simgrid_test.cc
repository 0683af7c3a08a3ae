// The same flows on the same networks in SimGrid (Casanova, Giersch, Legrand, Quinson, Suter: Versatile, scalable, and
// accurate simulation of distributed applications and platforms, JPDC 2014), whose network model without its
// corrections for TCP is max-min fair as well.

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <simgrid/s4u.hpp>

#include "simulator/flow.h"

namespace motley {
namespace {

namespace sg4 = simgrid::s4u;

struct Flow {
  double start;
  std::uint64_t bytes;
  std::vector<ChannelIndex> route;
};

struct System {
  std::vector<double> capacities;  // of channel 2 * i
  std::vector<Flow> flows;         // by start
};

System random_system(std::uint32_t seed) {
  std::mt19937 random(seed);
  System system;
  const int channels = 2 + static_cast<int>(random() % 30);
  for (int c = 0; c < channels; ++c) system.capacities.push_back(1e6 * (1 + random() % 50));
  double now = 0;
  for (int f = 0; f < 60; ++f) {
    std::set<ChannelIndex> route;
    const auto hops = 1 + random() % std::min(channels, 5);
    while (route.size() < hops) route.insert(2 * static_cast<ChannelIndex>(random() % channels));
    system.flows.push_back({now, 100'000 * (1 + random() % 200), {route.begin(), route.end()}});
    if (random() % 3 > 0) now += 0.01 * static_cast<double>(random() % 100);
  }
  return system;
}

std::vector<double> our_ends(const System& system) {
  Cluster cluster;
  for (double capacity : system.capacities) {
    cluster.links.push_back({"", 0, 1, BytesPerSecond(capacity), Seconds(0), true});
  }
  FlowNetwork network(cluster);
  std::vector<double> ends(system.flows.size());
  std::size_t ended = 0;
  for (std::size_t next = 0; ended < ends.size();) {
    const double end = network.next_end().value;
    if (next < system.flows.size() && system.flows[next].start < end) {
      const Flow& flow = system.flows[next];
      network.start(Seconds(flow.start), flow.route, static_cast<double>(flow.bytes),
                    static_cast<std::int32_t>(next++));
    } else {
      ends[network.end_next()] = end;
      ++ended;
    }
  }
  return ends;
}

// SimGrid's engine is one per process: all systems run in it side by side, each on links of its own, and every flow
// between two hosts of its own.
std::vector<std::vector<double>> simgrid_ends(const std::vector<System>& systems) {
  std::vector<std::string> arguments = {"test",
                                        "--log=root.thres:error",
                                        "--cfg=network/model:CM02",
                                        "--cfg=network/crosstraffic:0",
                                        "--cfg=network/TCP-gamma:0",
                                        "--cfg=network/bandwidth-factor:1",
                                        "--cfg=network/latency-factor:1",
                                        "--cfg=network/weight-S:0",
                                        "--cfg=maxmin/precision:1e-9",
                                        "--cfg=surf/precision:1e-9",
                                        "--cfg=contexts/factory:thread"};
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  sg4::Engine engine(&count, pointers.data());
  sg4::NetZone* const zone = sg4::create_full_zone("all");
  std::vector<std::vector<double>> ends;
  for (std::size_t s = 0; s < systems.size(); ++s) {
    ends.emplace_back(systems[s].flows.size());
    std::vector<sg4::Link*> links;
    for (double capacity : systems[s].capacities) {
      links.push_back(
          zone->create_link(std::to_string(s) + ":" + std::to_string(links.size()), capacity)->set_latency(0)->seal());
    }
    for (std::size_t f = 0; f < systems[s].flows.size(); ++f) {
      const Flow& flow = systems[s].flows[f];
      const std::string name = std::to_string(s) + "/" + std::to_string(f);
      sg4::Host* const from = zone->create_host(name + "a", 1e9)->seal();
      sg4::Host* const to = zone->create_host(name + "b", 1e9)->seal();
      std::vector<sg4::LinkInRoute> route;
      for (ChannelIndex channel : flow.route) route.emplace_back(links[channel / 2]);
      zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
      sg4::Actor::create(name, from, [&flow, from, to, end = &ends[s][f]] {
        sg4::this_actor::sleep_until(flow.start);
        sg4::Comm::sendto(from, to, flow.bytes);
        *end = sg4::Engine::get_clock();
      });
    }
  }
  zone->seal();
  engine.run();
  return ends;
}

TEST(SimGridTest, FlowsEndAtTheSameTimes) {
  std::vector<System> systems;
  for (std::uint32_t seed = 0; seed < 20; ++seed) systems.push_back(random_system(seed));
  const std::vector<std::vector<double>> expected = simgrid_ends(systems);
  for (std::size_t s = 0; s < systems.size(); ++s) {
    const std::vector<double> ends = our_ends(systems[s]);
    for (std::size_t f = 0; f < ends.size(); ++f) {
      EXPECT_NEAR(ends[f], expected[s][f], 1e-6 * expected[s][f]) << "system " << s << ", flow " << f;
    }
  }
}

}  // namespace
}  // namespace motley

// How fast the simulator is, on one thread. Prints one JSON object; bench/simulator.py makes the table.
//   simulator_bench deployment MODEL.pt2 CLUSTER.yaml   simulates what the compiler makes of a strategy, again and
//   again simulator_bench chain                               the same for a chain of layers, of any length, on any
//   number of
//                                                       devices
//   simulator_bench flows                               flows between random pairs of hosts, so many at once

#include <malloc.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "base/error.h"
#include "compiler/compiler.h"
#include "graph/training_graph.h"
#include "profiler/catalogue.h"
#include "profiler/cost_table.h"
#include "simulator/engine.h"
#include "strategy/baselines.h"
#include "tests/support/chain_graph.h"
#include "tests/support/fixed_costs.h"

namespace motley {
namespace {

// CPU time: what else runs on the machine does not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <class Work>
double seconds_of(Work work) {
  const double start = cpu_seconds();
  work();
  return cpu_seconds() - start;
}

// Runs `work` at least three times and for `seconds`; the shortest. Who else uses the memory only ever adds to it.
template <class Work>
double shortest_seconds(double seconds, Work work) {
  double shortest = std::numeric_limits<double>::infinity();
  const double begin = cpu_seconds();
  for (int runs = 0; runs < 3 || cpu_seconds() - begin < seconds; ++runs) {
    shortest = std::min(shortest, seconds_of(work));
  }
  return shortest;
}

// Of this process, in bytes: the most since the last reset.
double peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return 1024 * std::stod(line.substr(6));
  }
  throw Error(ErrorKind::kNotFound, "/proc/self/status: no VmHWM");
}
void reset_peak_memory() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

nlohmann::json measure(const Graph& graph, const Cluster& cluster, const CostModel& costs, const Strategy& strategy,
                       std::int64_t batch, double seconds) {
  const Compiler compiler(graph, cluster, costs);
  std::optional<Deployment> made;
  const double compile = seconds_of([&] { made = std::get<Deployment>(compiler.compile(strategy, batch)); });
  std::int64_t computes = 0, transfers = 0;
  for (const Program& program : made->programs) {
    for (const Instruction& instruction : program.instructions) {
      if (stream_of(instruction.kind) == Stream::kCompute) ++computes;
      if (instruction.kind == InstructionKind::kSend) ++transfers;
    }
  }
  const auto collectives = static_cast<std::int64_t>(made->collectives.size());
  std::vector<Bytes> contexts;
  for (const Program& program : made->programs) contexts.push_back(costs.context(program.device));

  std::optional<FlatDeployment> flat;
  std::optional<MemoryLayout> layout;
  const double flatten = seconds_of([&] {
    flat.emplace(graph, cluster, costs, *made);
    layout.emplace(graph, *made, *flat);
  });
  const double peak = peak_memory();
  made.reset();
  reset_peak_memory();
  const double simulate = shortest_seconds(seconds, [&] {
    MemoryLedger ledger(*layout, *flat, contexts);
    Engine engine(cluster, *flat, ledger);
    engine.run();
  });
  return {{"devices", cluster.devices.size()},
          {"computes", computes},
          {"transfers", transfers},
          {"collectives", collectives},
          {"tasks", computes + transfers + collectives},
          {"compile_seconds", compile},
          {"flatten_seconds", flatten},
          {"simulate_seconds", simulate},
          {"compile_peak_bytes", peak},
          {"simulate_peak_bytes", peak_memory()}};
}

struct ModelOptions {
  std::string model;
  std::string cluster;
  std::string strategy = "ev-ar";
  std::int64_t batch = 0;
};

nlohmann::json deployment(const ModelOptions& options, double seconds) {
  const Graph graph = load_training_graph(options.model, {});
  const Cluster cluster = read_cluster(options.cluster, catalogue_defaults);
  const CostTable costs(graph, cluster, nullptr);
  const Strategy strategy = baseline(options.strategy, graph, cluster, costs, options.batch);
  return measure(graph, cluster, costs, strategy, options.batch, seconds);
}

struct ChainOptions {
  int devices = 64;
  std::int64_t tasks = 10'000;
};

// Devices of unlike speeds, all in data parallelism.
nlohmann::json chain(const ChainOptions& options, double seconds) {
  constexpr std::int64_t kTasksPerLayer = 7;
  const auto layers = std::max<std::int64_t>(1, options.tasks / options.devices / kTasksPerLayer);
  const Graph graph = support::chain_graph({.layers = static_cast<int>(layers), .width = 256});
  const Cluster cluster = support::star_cluster(options.devices, {BytesPerSecond(12.5e9)}, Seconds(1e-5));
  std::vector<double> speeds;
  for (int d = 0; d < options.devices; ++d) speeds.push_back(1.0 / (1 + d % 4));
  const support::FixedCosts costs(graph, speeds, 1e-4);
  const Strategy strategy = baseline("ev-ar", graph, cluster, costs, options.devices);
  return measure(graph, cluster, costs, strategy, options.devices, seconds);
}

struct FlowOptions {
  int racks = 1;
  int hosts = 64;  // per rack
  int at_once = 64;
  double oversubscribed = 1;
};

// Hosts at 100 Gbit/s behind one switch per rack, the racks behind one switch.
Cluster racks(const FlowOptions& options) {
  Cluster cluster;
  const BytesPerSecond host(12.5e9);
  const int count = options.racks * options.hosts;
  for (int i = 0; i < count; ++i) {
    cluster.nodes.push_back({"host" + std::to_string(i), {}});
    cluster.devices.push_back({"", "device", i, Bytes(1)});
  }
  for (int r = 0; r < options.racks; ++r) cluster.switches.push_back("rack" + std::to_string(r));
  if (options.racks > 1) cluster.switches.emplace_back("core");
  for (int i = 0; i < count; ++i) {
    const VertexIndex node = cluster.vertex_of_node(i);
    cluster.links.push_back({"", i, node, BytesPerSecond(16e9), Seconds(0)});
    cluster.links.push_back({"", node, cluster.vertex_of_switch(i / options.hosts), host, Seconds(0)});
  }
  for (int r = 0; options.racks > 1 && r < options.racks; ++r) {
    cluster.links.push_back({"", cluster.vertex_of_switch(r), cluster.vertex_of_switch(options.racks),
                             host * (options.hosts / options.oversubscribed), Seconds(0)});
  }
  cluster.finish();
  return cluster;
}

// Closed loop: as soon as a flow ends, another one starts.
nlohmann::json flows(const FlowOptions& options, double seconds) {
  const Cluster cluster = racks(options);
  FlowNetwork network(cluster);
  std::mt19937 random(1);
  const auto hosts = static_cast<std::uint32_t>(cluster.devices.size());
  std::vector<std::vector<ChannelIndex>> routes;  // from * hosts + to
  for (std::uint32_t pair = 0; pair < hosts * hosts; ++pair) {
    routes.push_back(cluster.route(static_cast<DeviceIndex>(pair / hosts), static_cast<DeviceIndex>(pair % hosts)));
  }
  const auto start = [&](double now) {
    const std::uint32_t from = random() % hosts;
    const std::uint32_t to = (from + 1 + random() % (hosts - 1)) % hosts;
    const double bytes = 1e6 * (1 + random() % 100);
    network.start(Seconds(now), routes[from * hosts + to], bytes, 0);
  };
  for (int flow = 0; flow < options.at_once; ++flow) start(0);
  // Each flow is another one, so that all of them count.
  std::int64_t ended = 0;
  const double begin = cpu_seconds();
  while (cpu_seconds() - begin < seconds) {
    for (int flow = 0; flow < 1000; ++flow, ++ended) {
      const double now = network.next_end().value;
      network.end_next();
      start(now);
    }
  }
  return {{"flows_per_second", static_cast<double>(ended) / (cpu_seconds() - begin)}};
}

}  // namespace
}  // namespace motley

int main(int argc, char** argv) {
  CLI::App app("Measures the simulator on one thread, in CPU time.");
  app.require_subcommand(1);
  double seconds = 1;
  app.add_option("--seconds", seconds, "how long to measure");
  motley::ModelOptions model;
  CLI::App* deployment = app.add_subcommand("deployment", "re-simulate a compiled deployment from its flat form");
  deployment->add_option("model", model.model, "the model file")->required();
  deployment->add_option("cluster", model.cluster, "the cluster file")->required();
  deployment->add_option("--batch", model.batch, "samples")->required();
  deployment->add_option("--strategy", model.strategy, "by its name");
  motley::ChainOptions chain;
  CLI::App* of_chain = app.add_subcommand("chain", "the same for a chain of layers in data parallelism");
  of_chain->add_option("--devices", chain.devices, "how many");
  of_chain->add_option("--tasks", chain.tasks, "about how many");
  motley::FlowOptions flow;
  CLI::App* flows = app.add_subcommand("flows", "flows between random pairs of hosts");
  flows->add_option("--racks", flow.racks, "switches with hosts");
  flows->add_option("--hosts", flow.hosts, "per rack");
  flows->add_option("--at-once", flow.at_once, "flows");
  flows->add_option("--oversubscribed", flow.oversubscribed, "a rack's hosts over its uplink");
  CLI11_PARSE(app, argc, argv);
  try {
    nlohmann::json result;
    if (*deployment) result = motley::deployment(model, seconds);
    if (*of_chain) result = motley::chain(chain, seconds);
    if (*flows) result = motley::flows(flow, seconds);
    std::cout << result.dump() << "\n";
  } catch (const motley::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}

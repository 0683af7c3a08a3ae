// One pipeline in unit times, simulated: `papers_bench --schedule 1f1b --stages 4 --micro-batches 8`. Prints one JSON
// object; bench/papers.py makes the table.

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "simulator/simulator.h"
#include "strategy/evaluate.h"
#include "tests/support/chain_graph.h"
#include "tests/support/fixed_costs.h"

namespace motley {
namespace {

struct Options {
  std::string schedule = "1f1b";
  int stages = 4;
  int ranks = 0;  // sets of devices; 0: as many as stages
  bool v_shape = false;
  int micro_batches = 8;
  double forward = 1, input_gradient = 1, weight_gradient = 1;
  bool recompute = false;
};

constexpr Bytes kUnit{1 << 30};  // kept by a stage for a micro-batch: all else is little beside it

// A layer per stage; links take no time.
nlohmann::json simulated(const Options& options) {
  const Graph graph = support::chain_graph({.layers = options.stages, .width = 1});
  const int ranks = options.ranks > 0 ? options.ranks : options.stages;
  const Cluster cluster = support::star_cluster(ranks, {BytesPerSecond(1e18)});
  support::FixedCosts costs(graph, std::vector<double>(static_cast<std::size_t>(ranks), 1.0), 0);
  const auto set = [&](int layer, const char* op, double seconds) {
    costs.seconds_per_sample[support::op_named(graph, "l" + std::to_string(layer) + op)] = seconds;
  };
  Strategy strategy{.name = options.schedule, .micro_batches = options.micro_batches, .schedule = options.schedule};
  for (int layer = 0; layer < options.stages; ++layer) {
    set(layer, ".linear", options.forward);
    set(layer, ".relu.dx", options.input_gradient);
    set(layer, ".linear.dw", options.weight_gradient);
    costs.kept[support::op_named(graph, "l" + std::to_string(layer) + ".linear")] = kUnit;
    const DeviceIndex device = options.v_shape ? std::min(layer, 2 * ranks - 1 - layer) : layer % ranks;
    GroupDecision decision{.shares = {{device, 1.0}}, .stage = layer};
    if (options.recompute) decision.recompute = Recompute::kFull;
    strategy.groups.push_back(decision);
  }
  const Evaluation evaluation = Evaluator(graph, cluster, costs, options.micro_batches).evaluate(strategy);
  if (evaluation.not_compilable) throw Error(ErrorKind::kInvalidInput, *evaluation.not_compilable);
  nlohmann::json kept = nlohmann::json::array(), busy = nlohmann::json::array();
  for (const DeviceMemory& memory : evaluation.simulation.memory) kept.push_back(std::round(memory.peak / kUnit));
  for (const Seconds& seconds : evaluation.simulation.busy) busy.push_back(seconds.value);
  return {{"seconds", evaluation.simulation.iteration.value}, {"kept", kept}, {"busy", busy}};
}

}  // namespace
}  // namespace motley

int main(int argc, char** argv) {
  CLI::App app("Simulates one pipeline in unit times.");
  motley::Options options;
  app.add_option("--schedule", options.schedule);
  app.add_option("--stages", options.stages);
  app.add_option("--ranks", options.ranks, "sets of devices; default: as many as stages");
  app.add_flag("--v", options.v_shape, "two stages per set of devices, the first with the last");
  app.add_option("--micro-batches", options.micro_batches);
  app.add_option("--forward", options.forward);
  app.add_option("--input-gradient", options.input_gradient);
  app.add_option("--weight-gradient", options.weight_gradient);
  app.add_flag("--recompute", options.recompute);
  CLI11_PARSE(app, argc, argv);
  std::cout << motley::simulated(options).dump() << "\n";
}

#include "strategy/what_if.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/parallel.h"
#include "graph/cast.h"
#include "strategy/baselines.h"
#include "strategy/scaled_costs.h"
#include "strategy/search.h"

namespace motley {
namespace {

constexpr std::size_t kServers = 128;  // devices, beyond which parameter servers are left out

class Sweep {
 public:
  Sweep(const Graph& graph, const std::vector<WhatIfCluster>& clusters, const CostMaker& costs, std::int64_t batch,
        const WhatIfOptions& options)
      : graph_(graph), clusters_(clusters), make_costs_(costs), batch_(batch), options_(options) {}

  WhatIf run() {
    WhatIf result;
    if (clusters_.size() > 1) result.axes.emplace_back("cluster");
    for (const Variation& variation : options_.vary) result.axes.push_back(variation.title());
    cast_graphs();
    for (const WhatIfCluster& cluster : clusters_) add_cells(cluster);
    parallel_for(cells_.size(), options_.threads, [&](std::size_t i) { build(cells_[i]); });
    judge();
    for (Cell& cell : cells_) result.outcomes.push_back(outcome_of(cell));
    return result;
  }

 private:
  // One combination, with what is known of it.
  struct Cell {
    const WhatIfCluster* from = nullptr;
    std::vector<std::string> values;  // of each variation
    std::string impossible;           // why there is no such cluster
    Scenario scenario;
    std::unique_ptr<CostModel> nominal;  // at the speeds of the catalogue and the profiles
    std::unique_ptr<CostModel> costs;    // at the scenario's
    std::unique_ptr<Evaluator> evaluator;
    std::vector<std::string> strategies;  // to judge; an empty name is a search
    Evaluation best;
    std::size_t place = 0;  // of the best among `strategies`; one past the last until there is one
  };

  // The casts that any scenario asks for.
  void cast_graphs() {
    for (const Variation& variation : options_.vary) {
      if (variation.what != Variation::What::kDType) continue;
      for (const std::string& value : variation.values) {
        const DType dtype = *parse_floating(value);
        if (!casts_.contains(dtype)) casts_.emplace(dtype, cast(graph_, dtype));
      }
    }
  }
  const Graph& graph_of(const Scenario& scenario) const { return scenario.dtype ? casts_.at(*scenario.dtype) : graph_; }

  void add_cells(const WhatIfCluster& cluster) {
    std::vector<std::vector<std::string>> combinations(1);
    for (const Variation& variation : options_.vary) {
      std::vector<std::string> values;
      for (const std::string& value : variation.values) {
        if (variation.what != Variation::What::kLost || value != "each") {
          values.push_back(value);
          continue;
        }
        const Cluster whole = cluster.read({});
        for (const Node& node : whole.nodes) values.push_back(node.name);
      }
      std::vector<std::vector<std::string>> longer;
      for (const std::vector<std::string>& combination : combinations) {
        for (const std::string& value : values) {
          longer.push_back(combination);
          longer.back().push_back(value);
        }
      }
      combinations = std::move(longer);
    }
    for (std::vector<std::string>& values : combinations) {
      cells_.emplace_back();
      cells_.back().from = &cluster;
      cells_.back().values = std::move(values);
    }
  }

  void build(Cell& cell) {
    try {
      cell.scenario = make_scenario(cell.from->read, batch_, options_.vary, cell.values);
    } catch (const UnusableCluster& error) {
      cell.impossible = error.what();
      return;
    }
    const Scenario& scenario = cell.scenario;
    const Graph& graph = graph_of(scenario);
    check_batch(graph, scenario.batch);
    cell.nominal = make_costs_(graph, scenario.cluster);
    cell.costs = std::make_unique<ScaledCosts>(*cell.nominal, scenario.speeds);
    cell.evaluator = std::make_unique<Evaluator>(graph, scenario.cluster, *cell.costs, scenario.batch);
    cell.strategies = options_.strategies;
    if (cell.strategies.empty()) {
      for (const std::string& name : strategy_names(scenario.cluster)) {
        const bool many = scenario.cluster.devices.size() > kServers && name.ends_with("-ps");
        if (!many && !name.starts_with("mp:")) cell.strategies.push_back(name);
      }
    }
    if (options_.evaluations > 0) cell.strategies.emplace_back();
    cell.place = cell.strategies.size();
  }

  // Each strategy of each scenario, in parallel. Of equally good ones the first counts, whichever was ready first.
  void judge() {
    std::vector<std::pair<Cell*, std::size_t>> tasks;
    for (Cell& cell : cells_) {
      for (std::size_t s = 0; s < cell.strategies.size(); ++s) tasks.emplace_back(&cell, s);
    }
    run_all("scenarios", tasks.size(), [&](std::size_t i) {
      const auto& [cell, place] = tasks[i];
      Evaluation evaluation = evaluate(*cell->evaluator, cell->strategies[place]);
      const std::lock_guard lock(mutex_);
      const bool first = cell->place == cell->strategies.size();
      const bool equal = !first && !better(cell->best, evaluation) && place < cell->place;
      if (!first && !better(evaluation, cell->best) && !equal) return;
      cell->best = std::move(evaluation);
      cell->place = place;
    });
  }

  Evaluation evaluate(const Evaluator& evaluator, const std::string& strategy) const {
    if (!strategy.empty()) return evaluator.evaluate_baseline(strategy);
    SearchOptions search;
    search.time = Seconds(std::numeric_limits<double>::infinity());
    search.evaluations = options_.evaluations;
    search.seed = options_.seed;
    search.threads = 1;
    return motley::search(evaluator, search).best;
  }

  void run_all(const std::string& what, std::size_t count, const std::function<void(std::size_t)>& work) {
    std::size_t done = 0;
    std::mutex mutex;
    parallel_for(count, options_.threads, [&](std::size_t i) {
      work(i);
      const std::lock_guard lock(mutex);
      ++done;
      if (options_.progress) options_.progress(what, static_cast<std::int64_t>(done), static_cast<std::int64_t>(count));
    });
  }

  Outcome outcome_of(const Cell& cell) const {
    Outcome outcome;
    if (clusters_.size() > 1) outcome.values.push_back(cell.from->name);
    outcome.values.insert(outcome.values.end(), cell.values.begin(), cell.values.end());
    if (!cell.impossible.empty()) {
      outcome.reasons = {cell.impossible};
      return outcome;
    }
    const Evaluation& best = cell.best;
    const std::vector<Device>& devices = cell.scenario.cluster.devices;
    outcome.batch = cell.scenario.batch;
    outcome.devices = static_cast<std::int64_t>(devices.size());
    outcome.strategy = best.strategy.name;
    outcome.reasons = best.reasons();
    if (best.not_compilable) return outcome;
    outcome.iteration = best.simulation.iteration;
    outcome.estimated_share = best.simulation.estimated_share;
    const auto fullest = std::ranges::max_element(
        best.simulation.memory, {}, [](const DeviceMemory& memory) { return memory.peak / memory.capacity; });
    outcome.fullest = devices[fullest->device].name;
    outcome.peak = fullest->peak;
    outcome.capacity = fullest->capacity;
    return outcome;
  }

  const Graph& graph_;
  const std::vector<WhatIfCluster>& clusters_;
  const CostMaker& make_costs_;
  const std::int64_t batch_;
  const WhatIfOptions& options_;
  std::map<DType, Graph> casts_;
  std::vector<Cell> cells_;
  std::mutex mutex_;  // of each cell's best
};

}  // namespace

WhatIf what_if(const Graph& graph, const std::vector<WhatIfCluster>& clusters, const CostMaker& costs,
               std::int64_t batch, const WhatIfOptions& options) {
  return Sweep(graph, clusters, costs, batch, options).run();
}

}  // namespace motley

#include "strategy/what_if.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/parallel.h"
#include "base/statistics.h"
#include "graph/cast.h"
#include "strategy/baselines.h"
#include "strategy/drawn_costs.h"
#include "strategy/scaled_costs.h"
#include "strategy/search/search.h"

namespace motley {
namespace {

constexpr std::size_t kServers = 128;  // devices, beyond which parameter servers are left out
constexpr double kNotable = 0.01;      // of the iteration: what counts as a bottleneck
constexpr Seconds kForever{std::numeric_limits<double>::infinity()};

class Sweep {
 public:
  Sweep(const Graph& graph, const std::vector<WhatIfCluster>& clusters, const CostMaker& costs, std::int64_t batch,
        const WhatIfOptions& options)
      : graph_(graph), clusters_(clusters), make_costs_(costs), batch_(batch), options_(options) {}

  WhatIf run() {
    WhatIf result{.draws = options_.draws, .noise = options_.noise};
    if (clusters_.size() > 1) result.axes.emplace_back("cluster");
    for (const Variation& variation : options_.vary) result.axes.push_back(variation.title());
    cast_graphs();
    for (const WhatIfCluster& cluster : clusters_) add_cells(cluster);
    parallel_for(cells_.size(), options_.threads, [&](std::size_t i) { build(cells_[i]); });
    judge();
    find_bottlenecks();
    if (options_.remedies) try_remedies();
    if (options_.draws > 0) draw();
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
    std::size_t place = 0;                 // of the best among `strategies`; one past the last until there is one
    Seconds fastest = kForever;            // of all, whether they fit or not
    std::optional<Deployment> deployment;  // of the best; for draws
    std::vector<Usage> usage;
    std::vector<Remedy> remedies;
    std::vector<double> drawn;  // seconds
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
      cell->fastest = std::min(cell->fastest, evaluation.not_compilable ? kForever : evaluation.simulation.iteration);
      const bool first = cell->place == cell->strategies.size();
      const bool equal = !first && !better(cell->best, evaluation) && place < cell->place;
      if (!first && !better(evaluation, cell->best) && !equal) return;
      cell->best = std::move(evaluation);
      cell->place = place;
    });
  }

  // Where the time of each best strategy goes.
  void find_bottlenecks() {
    const std::vector<Cell*> cells = cells_where([](const Cell& cell) { return !cell.best.not_compilable; });
    run_all("bottlenecks", cells.size(), [&](std::size_t i) {
      Cell& cell = *cells[i];
      const Scenario& scenario = cell.scenario;
      const Graph& graph = graph_of(scenario);
      Deployment deployment = std::get<Deployment>(
          Compiler(graph, scenario.cluster, *cell.costs).compile(cell.best.strategy, scenario.batch, Folding::kTwins));
      const SimulationResult result = simulate(graph, scenario.cluster, *cell.costs, deployment, {.keep_events = true});
      cell.usage = critical_usage(scenario.cluster, *cell.costs, deployment, result);
      if (options_.draws > 0 && cell.best.feasible()) cell.deployment = std::move(deployment);
    });
  }

  std::vector<Cell*> cells_where(const std::function<bool(const Cell&)>& wanted) {
    std::vector<Cell*> cells;
    for (Cell& cell : cells_) {
      if (cell.impossible.empty() && wanted(cell)) cells.push_back(&cell);
    }
    return cells;
  }

  void try_remedies() {
    std::vector<std::pair<Cell*, Resource>> tasks;
    for (Cell* cell : cells_where([](const Cell& one) { return !one.best.not_compilable; })) {
      if (!cell->best.feasible() || cell->fastest < cell->best.simulation.iteration) {
        tasks.emplace_back(cell, Resource{Resource::What::kMemory, "memory of all devices", {}});
      }
      if (!cell->best.feasible()) continue;
      for (const Usage& usage : cell->usage) {
        if (usage.time >= cell->best.simulation.iteration * kNotable) tasks.emplace_back(cell, usage.resource);
      }
    }
    std::vector<Remedy> remedies(tasks.size());
    run_all("remedies", tasks.size(), [&](std::size_t i) { remedies[i] = doubled(*tasks[i].first, tasks[i].second); });
    for (std::size_t i = 0; i < tasks.size(); ++i) tasks[i].first->remedies.push_back(std::move(remedies[i]));
  }

  // Another strategy may be the best then.
  Remedy doubled(const Cell& cell, const Resource& resource) const {
    const Scenario& scenario = cell.scenario;
    Cluster cluster = scenario.cluster;
    std::vector<double> speeds(cluster.devices.size(), 1);
    double messages = 1;
    std::string change = "twice the ";
    switch (resource.what) {
      case Resource::What::kCompute:
        for (std::int32_t device : resource.members) speeds[device] = 2;
        break;
      case Resource::What::kLinks:
        change += "bandwidth of ";
        for (std::int32_t index : resource.members) {
          Link& link = cluster.links[index];
          link.bandwidth = link.bandwidth * 2;
          for (RatePoint& point : link.curve) point.rate = point.rate * 2;
        }
        break;
      case Resource::What::kMessages:
        change = "half the ";
        for (Link& link : cluster.links) link.latency = link.latency / 2;
        messages = 2;
        break;
      case Resource::What::kMemory:
        for (Device& device : cluster.devices) device.memory = device.memory * 2;
        break;
    }
    cluster.finish();
    const ScaledCosts costs(*cell.costs, std::move(speeds), messages);
    const Evaluator evaluator(graph_of(scenario), cluster, costs, scenario.batch);
    Evaluation best = evaluator.evaluate(cell.best.strategy);
    for (const std::string& name : cell.strategies) {
      if (name.empty()) continue;
      Evaluation evaluation = evaluator.evaluate_baseline(name);
      if (better(evaluation, best)) best = std::move(evaluation);
    }
    return {change + resource.name, best.feasible() ? best.simulation.iteration : Seconds(0)};
  }

  // The same programs, with other luck each time. A device that stands for others is as slow as the slowest of them.
  void draw() {
    const std::vector<Cell*> cells = cells_where([](const Cell& cell) { return cell.deployment.has_value(); });
    const auto draws = static_cast<std::size_t>(options_.draws);
    for (Cell* cell : cells) cell->drawn.resize(draws);
    run_all("draws", cells.size() * draws, [&](std::size_t i) {
      Cell& cell = *cells[i / draws];
      const Scenario& scenario = cell.scenario;
      std::vector<double> luck;
      for (std::size_t d = 0; d < scenario.cluster.devices.size(); ++d) {
        luck.push_back(standard_normal(options_.seed, i % draws, d));
      }
      for (const Program& program : cell.deployment->programs) {
        for (DeviceIndex twin : program.twins) luck[program.device] = std::max(luck[program.device], luck[twin]);
      }
      const DrawnCosts costs(*cell.costs, std::move(luck), options_.noise);
      cell.drawn[i % draws] = simulate(graph_of(scenario), scenario.cluster, costs, *cell.deployment).iteration.value;
    });
  }

  Evaluation evaluate(const Evaluator& evaluator, const std::string& strategy) const {
    if (!strategy.empty()) return evaluator.evaluate_baseline(strategy);
    SearchOptions search;
    search.time = kForever;
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
    outcome.price = cell.scenario.cluster.price();
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
    outcome.remedies = cell.remedies;
    if (!best.feasible()) {
      for (const Resource& short_of : lacking_memory(cell.scenario.cluster, best.simulation)) {
        outcome.bottlenecks.emplace_back(short_of.name, 0);
      }
      return outcome;
    }
    for (const Usage& usage : cell.usage) {
      const double share = usage.time / outcome.iteration;
      if (share >= kNotable) outcome.bottlenecks.emplace_back(usage.resource.name, share);
    }
    if (!cell.drawn.empty()) {
      outcome.noise = {Seconds(percentile(cell.drawn, 50)), Seconds(percentile(cell.drawn, 95))};
    }
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

const Outcome* cheapest(const WhatIf& sweep, double samples_per_second) {
  const Outcome* best = nullptr;
  for (const Outcome& outcome : sweep.outcomes) {
    if (!outcome.price || !outcome.feasible() || outcome.samples_per_second() < samples_per_second) continue;
    const auto key = [](const Outcome& o) {
      return std::pair(*o.price, o.iteration.value / static_cast<double>(o.batch));
    };
    if (best == nullptr || key(outcome) < key(*best)) best = &outcome;
  }
  return best;
}

WhatIf what_if(const Graph& graph, const std::vector<WhatIfCluster>& clusters, const CostMaker& costs,
               std::int64_t batch, const WhatIfOptions& options) {
  return Sweep(graph, clusters, costs, batch, options).run();
}

}  // namespace motley

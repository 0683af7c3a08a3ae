#include "strategy/bound/bound.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "base/index.h"
#include "strategy/alike.h"
#include "strategy/bound/least_costs.h"
#include "strategy/bound/linear_program.h"
#include "strategy/bound/traffic.h"

namespace motley {

namespace {

// By group, then class of devices.
class Table {
 public:
  Table(std::size_t groups, std::size_t classes) : classes_(classes), values_(groups * classes, 0) {}
  double& operator()(std::size_t group, std::size_t of_class) { return values_[group * classes_ + of_class]; }
  double operator()(std::size_t group, std::size_t of_class) const { return values_[group * classes_ + of_class]; }

 private:
  std::size_t classes_;
  std::vector<double> values_;
};

struct OpLeast {
  std::vector<double> once;  // seconds, by class
  double anywhere = 0;       // the least of them
  bool per_sample = false;
};

// Of the groups: what they take and hold at the least.
struct Needs {
  Needs(std::size_t groups, std::size_t classes)
      : work(groups, classes), update(groups, classes), held(groups, 0), states(groups, 0), updates(groups, 0) {}
  Table work, update;                // seconds for the whole batch
  std::vector<double> held, states;  // bytes
  std::vector<char> updates;         // whether any of its parameters is trained
  std::vector<OpLeast> ops;          // by op; sums of gradients, which the compiler may make for free, take nothing
};

// Which device updates a parameter is decided for each, while v counts bytes of all that a group owns: so each byte
// takes what the quickest of them does, and has the states that the leanest has.
void add_updates(const Graph& graph, std::int64_t batch, std::size_t classes, Needs& needs) {
  std::vector<double> states(graph.tensors.size(), 0);  // of each parameter
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role != TensorRole::kOptimizerState || tensor.state_of == kNone) continue;
    states[at(tensor.state_of)] += static_cast<double>(tensor.bytes(batch).value);
  }
  struct Owned {
    double bytes = 0;
    double states = LinearProgram::kInfinity;  // per byte
    std::vector<double> seconds;               // per byte, by class
  };
  std::vector<Owned> of_group(graph.groups.size());
  for (std::size_t o = 0; o < graph.ops.size(); ++o) {
    const Op& op = graph.ops[o];
    if (op.kind != OpKind::kUpdate || op.group == kNone) continue;
    Owned& owned = of_group[at(op.group)];
    const double bytes = std::max(1.0, static_cast<double>(graph.tensors[at(op.inputs[0])].bytes(batch).value));
    owned.bytes += bytes;
    owned.states = std::min(owned.states, states[at(op.inputs[0])] / bytes);
    owned.seconds.resize(classes, LinearProgram::kInfinity);
    for (std::size_t c = 0; c < classes; ++c) {
      owned.seconds[c] = std::min(owned.seconds[c], needs.ops[o].once[c] / bytes);
    }
  }
  for (std::size_t g = 0; g < of_group.size(); ++g) {
    const Owned& owned = of_group[g];
    if (owned.bytes == 0) continue;
    needs.updates[g] = 1;
    needs.states[g] = owned.bytes * owned.states;
    for (std::size_t c = 0; c < classes; ++c) needs.update(g, c) = owned.bytes * owned.seconds[c];
  }
}

void add_held(const Graph& graph, std::int64_t batch, Needs& needs) {
  std::vector<GroupId> owner(graph.tensors.size(), kNone);
  for (std::size_t g = 0; g < graph.groups.size(); ++g) {
    for (const TensorId parameter : graph.groups[g].parameters) owner[at(parameter)] = static_cast<GroupId>(g);
  }
  for (const Op& op : graph.ops) {
    if (op.kind != OpKind::kForward) continue;
    for (const TensorId input : op.inputs) {
      if (input == kNone || graph.tensors[at(input)].role != TensorRole::kBuffer) continue;
      if (owner[at(input)] == kNone) owner[at(input)] = op.group;
    }
  }
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (owner[t] == kNone || tensor.alias_of != kNone) continue;
    needs.held[at(owner[t])] += static_cast<double>(tensor.bytes(batch).value);
  }
}

Needs needs_of(const Graph& graph, const CostModel& costs, const std::vector<std::vector<DeviceIndex>>& classes,
               std::int64_t batch) {
  std::vector<DeviceIndex> distinct;  // a device of each cost class
  std::vector<std::size_t> cost_of;   // by class
  std::map<std::int32_t, std::size_t> known;
  for (const std::vector<DeviceIndex>& devices : classes) {
    const auto [place, fresh] = known.try_emplace(costs.cost_class(devices[0]), distinct.size());
    if (fresh) distinct.push_back(devices[0]);
    cost_of.push_back(place->second);
  }
  Needs needs(graph.groups.size(), classes.size());
  needs.ops.resize(graph.ops.size());
  for (std::size_t o = 0; o < graph.ops.size(); ++o) {
    const Op& op = graph.ops[o];
    OpLeast& least = needs.ops[o];
    least.once.assign(classes.size(), 0);
    if (op.kind == OpKind::kGradientSum || op.group == kNone) continue;
    const bool update = op.kind == OpKind::kUpdate;
    least.per_sample = !update && meets_batch(graph, op);
    const std::vector<LeastCost> found = least_costs(costs, static_cast<OpId>(o), distinct, update ? 1 : batch);
    const auto once = [](const LeastCost& cost) { return cost.once; };
    least.anywhere = std::ranges::min(found, {}, once).once.value;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const LeastCost& cost = found[cost_of[c]];
      least.once[c] = cost.once.value;
      if (least.per_sample) {
        needs.work(at(op.group), c) += cost.sample.value * static_cast<double>(batch);
      } else if (op.kind == OpKind::kForward) {
        needs.work(at(op.group), c) += cost.once.value;
      }
    }
  }
  add_updates(graph, batch, classes.size(), needs);
  add_held(graph, batch, needs);
  return needs;
}

// Devices whose traffic with all others is bounded.
struct Region {
  std::string name;
  std::vector<char> inside;  // by class
  double rate = 0;           // bytes per second, one way
};

class Program {
 public:
  Program(const Graph& graph, const Cluster& cluster, const CostModel& costs, std::int64_t batch)
      : graph_(graph),
        cluster_(cluster),
        classes_(alike_devices(cluster, costs)),
        needs_(needs_of(graph, costs, classes_, batch)),
        exchanges_(exchanges(graph, batch)),
        x_(graph.groups.size(), classes_.size()),
        scale_(scale()) {
    for (const std::vector<DeviceIndex>& devices : classes_) {
      double bytes = 0, largest = 0;
      for (const DeviceIndex device : devices) {
        const double free =
            std::max(0.0, static_cast<double>((cluster.devices[at(device)].usable() - costs.context(device)).value));
        bytes += free;
        largest = std::max(largest, free);
      }
      memory_.push_back(bytes);
      largest_.push_back(largest);
    }
    add_columns();
    add_rows();
    find_regions();
  }

  LowerBound run() {
    LowerBound bound;
    double some_rounds_ago = 0;
    for (int round = 0;; ++round) {
      if (!program_.solve()) {
        // More rows break no placement: where there was one, the solver failed, and the last bound holds.
        if (round == 0) {
          bound.never_fits =
              "no placement of the op groups keeps their parameters, optimizer states and buffers within "
              "the devices' memories: add memory, or choose an optimizer with fewer states";
        }
        return bound;
      }
      certify(bound);
      for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
        for (std::size_t c = 0; c < classes_.size(); ++c) x_(g, c) = program_.value(x(g, c));
      }
      if (round % kSome == kSome - 1) {
        if (program_.value(0) <= some_rounds_ago * (1 + kGained)) return bound;
        some_rounds_ago = program_.value(0);
      }
      const std::size_t before = rows_.size();
      add_path();
      for (const Region& region : regions_) {
        add_traffic(region, true);
        add_traffic(region, false);
      }
      if (rows_.size() == before) return bound;
    }
  }

 private:
  static constexpr double kBroken = 1e-4;  // of the time: by how much a row must be broken to be added
  static constexpr int kSome = 5;          // rounds in which ...
  static constexpr double kGained = 5e-4;  // ... the bound must rise by so much for more of them

  struct Row {
    std::string name;
    std::vector<Term> terms;  // sum <= times * T + constant
    double times = 0;
    double constant = 0;
    int number = 0;  // in the program
  };

  int x(std::size_t group, std::size_t of_class) const {
    return 1 + static_cast<int>(group * classes_.size() + of_class);
  }
  int v(std::size_t group, std::size_t of_class) const {
    return x(graph_.groups.size(), 0) + static_cast<int>(group * classes_.size() + of_class);
  }

  // Seconds in which the program counts: all work on its fastest class.
  double scale() const {
    double least = LinearProgram::kInfinity;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      double sum = 0;
      for (std::size_t g = 0; g < graph_.groups.size(); ++g) sum += needs_.work(g, c) + needs_.update(g, c);
      least = std::min(least, sum);
    }
    return least > 0 ? least : 1;
  }

  void add_columns() {
    program_.add_column(1, 0, LinearProgram::kInfinity);
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
      for (std::size_t c = 0; c < classes_.size(); ++c) {
        program_.add_column(0, 0, needs_.held[g] > largest_[c] ? 0 : 1);
      }
    }
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
      const double most = needs_.updates[g] != 0 ? 1 : 0;
      for (std::size_t c = 0; c < classes_.size(); ++c) {
        program_.add_column(0, 0, needs_.held[g] > largest_[c] ? 0 : most);
      }
    }
  }

  void add_rows() {
    std::vector<Term> terms;
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
      for (const bool update : {false, true}) {
        if (update && needs_.updates[g] == 0) continue;
        terms.clear();
        for (std::size_t c = 0; c < classes_.size(); ++c) terms.push_back({update ? v(g, c) : x(g, c), 1});
        program_.add_row(terms, 1, 1);
      }
    }
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      Row compute{"compute of " + name_of(c)}, memory{"memory of " + name_of(c)};
      for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
        compute.terms.push_back({x(g, c), needs_.work(g, c) / scale_});
        memory.terms.push_back({x(g, c), needs_.held[g] / std::max(1.0, memory_[c])});
        if (needs_.updates[g] == 0) continue;
        compute.terms.push_back({v(g, c), needs_.update(g, c) / scale_});
        memory.terms.push_back({v(g, c), needs_.states[g] / std::max(1.0, memory_[c])});
      }
      compute.times = static_cast<double>(classes_[c].size());
      memory.constant = memory_[c] > 0 ? 1 : 0;
      add(std::move(compute));
      add(std::move(memory));
    }
  }

  void add(Row row) {
    std::erase_if(row.terms, [](const Term& term) { return term.factor == 0; });
    std::vector<Term> terms = row.terms;
    if (row.times != 0) terms.push_back({0, -row.times});
    row.number = program_.add_row(terms, -LinearProgram::kInfinity, row.constant);
    rows_.push_back(std::move(row));
  }

  std::string name_of(std::size_t of_class) const {
    const Device& first = cluster_.devices[at(classes_[of_class][0])];
    const auto same_kind = [&](const std::vector<DeviceIndex>& devices) {
      return cluster_.devices[at(devices[0])].kind == first.kind;
    };
    if (std::ranges::count_if(classes_, same_kind) == 1) return first.kind;
    const std::size_t more = classes_[of_class].size() - 1;
    return first.name + (more > 0 ? " and " + std::to_string(more) + " like it" : "");
  }

  void find_regions() {
    if (classes_.size() < 2) return;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      std::vector<char> inside(classes_.size(), 0);
      inside[c] = 1;
      add_region("links of " + name_of(c), std::move(inside));
    }
    // All that is behind one switch.
    const std::vector<VertexIndex> places = places_of_nodes(cluster_);
    std::map<VertexIndex, std::vector<char>> behind;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      std::vector<char>& inside = behind[places[at(cluster_.devices[at(classes_[c][0])].node)]];
      inside.resize(classes_.size(), 0);
      inside[c] = 1;
    }
    for (auto& [place, inside] : behind) {
      const auto count = std::ranges::count(inside, 1);
      if (count < 2 || count == static_cast<std::ptrdiff_t>(classes_.size())) continue;
      add_region("links of " + cluster_.vertex_name(place), std::move(inside));
    }
  }

  void add_region(std::string name, std::vector<char> inside) {
    std::vector<DeviceIndex> devices;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      if (inside[c] != 0) devices.insert(devices.end(), classes_[c].begin(), classes_[c].end());
    }
    std::ranges::sort(devices);
    const double rate = cut_rate(cluster_, devices).value;
    regions_.push_back({std::move(name), std::move(inside), rate});
  }

  // The path that takes longest where the samples are now.
  void add_path() {
    std::vector<double> ready(graph_.tensors.size(), 0), ends(graph_.ops.size(), 0);
    std::vector<OpId> before(graph_.ops.size(), kNone);
    OpId last = kNone;
    for (std::size_t o = 0; o < graph_.ops.size(); ++o) {
      const Op& op = graph_.ops[o];
      double start = 0;
      const auto after = [&](OpId other) {
        if (other == kNone || ends[at(other)] <= start) return;
        start = ends[at(other)];
        before[o] = other;
      };
      for (const TensorId input : op.inputs) {
        if (input != kNone) after(graph_.tensors[at(input)].producer);
      }
      if (op.is_backward()) after(op.forward);
      ends[o] = start + seconds_now(o);
      if (last == kNone || ends[o] > ends[at(last)]) last = static_cast<OpId>(o);
    }
    if (last == kNone || ends[at(last)] / scale_ <= program_.value(0) * (1 + kBroken)) return;
    std::map<int, double> factors;
    double constant = 0;
    for (OpId o = last; o != kNone; o = before[at(o)]) {
      const OpLeast& op = needs_.ops[at(o)];
      if (!op.per_sample) {
        constant += op.anywhere / scale_;
        continue;
      }
      for (std::size_t c = 0; c < classes_.size(); ++c) {
        factors[x(at(graph_.ops[at(o)].group), c)] += op.once[c] / scale_;
      }
    }
    Row row{"critical path", {}, 1, -constant};
    for (const auto& [column, factor] : factors) row.terms.push_back({column, factor});
    add(std::move(row));
  }

  double seconds_now(std::size_t o) const {
    const OpLeast& op = needs_.ops[o];
    if (!op.per_sample) return op.anywhere;
    double seconds = 0;
    for (std::size_t c = 0; c < classes_.size(); ++c) seconds += op.once[c] * x_(at(graph_.ops[o].group), c);
    return seconds;
  }

  // What enters or leaves a region, where the samples are now.
  void add_traffic(const Region& region, bool inwards) {
    std::vector<double> inside(graph_.groups.size(), 0);
    for (std::size_t g = 0; g < inside.size(); ++g) {
      for (std::size_t c = 0; c < classes_.size(); ++c) inside[g] += region.inside[c] != 0 ? x_(g, c) : 0;
    }
    std::vector<double> factors(inside.size(), 0);
    double sum = 0;
    // Of the samples, those cross that one of the others has inside beyond the maker, or the maker beyond it.
    const auto cross = [&](GroupId maker, const std::vector<GroupId>& others, double bytes, bool others_more) {
      if (others.empty() || bytes <= 0) return;
      const double sign = others_more ? 1 : -1;
      const GroupId most = *std::ranges::max_element(others, {}, [&](GroupId g) { return sign * inside[at(g)]; });
      const double crossing = sign * (inside[at(most)] - inside[at(maker)]);
      if (crossing <= 0) return;
      const double seconds = bytes / region.rate / scale_;
      sum += seconds * crossing;
      factors[at(most)] += sign * seconds;
      factors[at(maker)] -= sign * seconds;
    };
    for (const Exchange& exchange : exchanges_) {
      cross(exchange.maker, exchange.takers, exchange.bytes, inwards);
      cross(exchange.maker, exchange.returners, exchange.gradient_bytes, !inwards);
    }
    if (sum <= program_.value(0) + kBroken * std::max(program_.value(0), 1e-9)) return;
    Row row{region.name, {}, 1, 0};
    for (std::size_t g = 0; g < factors.size(); ++g) {
      for (std::size_t c = 0; c < classes_.size() && factors[g] != 0; ++c) {
        if (region.inside[c] != 0) row.terms.push_back({x(g, c), factors[g]});
      }
    }
    add(std::move(row));
  }

  // The bound that the rows' multipliers give.
  void certify(LowerBound& bound) const {
    std::vector<double> multipliers;
    double times = 0;
    for (const Row& row : rows_) {
      multipliers.push_back(std::max(0.0, -program_.dual(row.number)));
      times += multipliers.back() * row.times;
    }
    if (times <= 0) return;
    const auto columns = static_cast<std::size_t>(v(graph_.groups.size(), 0));
    std::vector<double> reduced(columns, 0);
    double sum = 0;
    std::map<std::string, double> shares;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const double multiplier = multipliers[r] / times;
      if (multiplier == 0) continue;
      for (const Term& term : rows_[r].terms) reduced[at(term.column)] += multiplier * term.factor;
      sum -= multiplier * rows_[r].constant;
      if (rows_[r].times > 0) shares[rows_[r].name] += multiplier * rows_[r].times;
    }
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
      for (const bool update : {false, true}) {
        if (update && needs_.updates[g] == 0) continue;
        double least = LinearProgram::kInfinity;
        for (std::size_t c = 0; c < classes_.size(); ++c) {
          if (needs_.held[g] <= largest_[c]) least = std::min(least, reduced[at(update ? v(g, c) : x(g, c))]);
        }
        sum += least;
      }
    }
    if (sum * scale_ <= bound.time.value) return;
    bound.time = Seconds(sum * scale_);
    bound.parts.clear();
    for (const auto& [name, share] : shares) bound.parts.push_back({name, share});
    std::ranges::stable_sort(bound.parts, std::greater<>(), &LowerBound::Part::share);
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const std::vector<std::vector<DeviceIndex>> classes_;
  const Needs needs_;
  const std::vector<Exchange> exchanges_;
  Table x_;  // of the last optimum
  const double scale_;
  std::vector<double> memory_;   // bytes, by class, of all its devices
  std::vector<double> largest_;  // ... of the largest
  std::vector<Region> regions_;
  std::vector<Row> rows_;
  LinearProgram program_;
};

std::optional<std::string> state_exceeds_memory(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                                                std::int64_t batch) {
  Bytes state, memory, headroom;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kOptimizerState ||
        tensor.role == TensorRole::kBuffer) {
      if (tensor.alias_of == kNone) state += tensor.bytes(batch);
    }
  }
  for (std::size_t d = 0; d < cluster.devices.size(); ++d) {
    const Device& device = cluster.devices[d];
    memory += std::max(Bytes(0), device.usable() - costs.context(static_cast<DeviceIndex>(d)));
    headroom += device.memory - device.usable();
  }
  if (state <= memory) return std::nullopt;
  return "parameters, optimizer states and buffers need " + to_string(state) + ", all devices together have " +
         to_string(memory) + " beside what each process takes for itself" +
         (headroom > Bytes(0) ? " and " + to_string(headroom) + " of headroom" : "") +
         ": add devices, or choose an optimizer with fewer states";
}

}  // namespace

LowerBound lower_bound(const Graph& graph, const Cluster& cluster, const CostModel& costs, std::int64_t batch) {
  if (std::optional<std::string> why = state_exceeds_memory(graph, cluster, costs, batch)) {
    LowerBound bound;
    bound.never_fits = std::move(why);
    return bound;
  }
  return Program(graph, cluster, costs, batch).run();
}

}  // namespace motley

#include "compiler/pass_order.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/index.h"

namespace motley {
namespace {

std::int32_t stage_count(const Strategy& strategy) {
  std::int32_t last = 0;
  for (const GroupDecision& group : strategy.groups) last = std::max(last, group.stage);
  return last + 1;
}

// By stage. A device's rank is that of the first stage it has a part in.
std::vector<std::int32_t> ranks_of(const Strategy& strategy, std::int32_t stages) {
  std::vector<std::int32_t> rank(at(stages));
  for (std::int32_t s = 0; s < stages; ++s) rank[at(s)] = s;
  std::map<DeviceIndex, std::int32_t> first;  // stage of each device
  for (bool joined = true; joined;) {
    joined = false;
    for (const GroupDecision& group : strategy.groups) {
      for (const Share& share : group.shares) {
        std::int32_t& known = first.try_emplace(share.device, rank[at(group.stage)]).first->second;
        if (known == rank[at(group.stage)]) continue;
        known = rank[at(group.stage)] = std::min(known, rank[at(group.stage)]);
        joined = true;
      }
    }
  }
  std::vector<std::int32_t> distinct = rank;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (std::int32_t& one : rank) {
    one = static_cast<std::int32_t>(std::lower_bound(distinct.begin(), distinct.end(), one) - distinct.begin());
  }
  return rank;
}

// Of a stage on one of its devices.
struct Load {
  double forward = 0, input_gradient = 0, weight_gradient = 0;  // seconds of a micro-batch
  std::int64_t kept = 0;                                        // bytes of a micro-batch
};

class PipelineBuilder {
 public:
  PipelineBuilder(const CompilerTables& tables, const Strategy& strategy, const Placement& placement)
      : tables_(tables),
        strategy_(strategy),
        placement_(placement),
        stages_(stage_count(strategy)),
        loads_(at(stages_)),
        state_(at(placement.seats())),
        passing_(at(placement.seats())) {}

  Pipeline build() {
    add_ops();
    add_state();
    Pipeline pipeline;
    pipeline.micro_batches = static_cast<std::int32_t>(strategy_.micro_batches);
    const std::vector<std::int32_t> ranks = ranks_of(strategy_, stages_);
    pipeline.room.assign(at(*std::max_element(ranks.begin(), ranks.end()) + 1), Bytes(-1));
    for (std::int32_t s = 0; s < stages_; ++s) {
      PipelineStage stage{.rank = ranks[at(s)]};
      for (const auto& [device, load] : loads_[at(s)]) {
        stage.forward = std::max(stage.forward, Seconds(load.forward));
        stage.input_gradient = std::max(stage.input_gradient, Seconds(load.input_gradient));
        stage.weight_gradient = std::max(stage.weight_gradient, Seconds(load.weight_gradient));
        stage.kept = std::max(stage.kept, Bytes(load.kept));
        Bytes& room = pipeline.room[at(stage.rank)];
        const Bytes free = free_on(device);
        if (room.value < 0 || free < room) room = free;
      }
      pipeline.stages.push_back(stage);
    }
    connect(pipeline);
    return pipeline;
  }

 private:
  std::int32_t stage_of(GroupId group) const { return strategy_.groups[at(group)].stage; }

  void add_ops() {
    const Graph& graph = tables_.graph;
    for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
      const Op& op = graph.ops[at(id)];
      if (op.kind == OpKind::kUpdate || op.kind == OpKind::kGradientSum) continue;
      for (const Replica& replica : placement_.replicas(op.group)) {
        Load& load = loads_[at(stage_of(op.group))][replica.device];
        const OpCost cost = tables_.costs.op(id, replica.device, replica.samples());
        double& seconds = op.kind == OpKind::kForward         ? load.forward
                          : op.kind == OpKind::kInputGradient ? load.input_gradient
                                                              : load.weight_gradient;
        seconds += cost.time.value;
        std::int64_t passing = cost.workspace.value;
        for (TensorId output : op.outputs) {
          if (output != kNone && op.kind != OpKind::kWeightGradient) {
            passing += tables_.bytes(output, replica.samples());
          }
        }
        std::int64_t& most = passing_[at(placement_.seat(replica.device))];
        most = std::max(most, passing);
        if (op.kind != OpKind::kForward) continue;
        if (runs_again(tables_, strategy_, id)) {
          load.input_gradient += cost.time.value;
          continue;
        }
        load.kept += cost.kept.value;
        for (TensorId output : op.outputs) {
          if (output != kNone && tables_.tensors[at(output)].saved)
            load.kept += tables_.bytes(output, replica.samples());
        }
      }
    }
  }

  // Weights, gradients and the optimizer's states, by device that holds them.
  void add_state() {
    std::map<TensorId, std::int64_t> optimizer;  // bytes, by parameter
    for (std::size_t t = 0; t < tables_.graph.tensors.size(); ++t) {
      const TensorId of = tables_.graph.tensors[t].state_of;
      if (of != kNone) optimizer[of] += tables_.bytes(static_cast<TensorId>(t), 0);
    }
    for (const ParameterInfo& parameter : tables_.parameters) {
      const std::int64_t bytes = 2 * tables_.bytes(parameter.parameter, 0) + optimizer[parameter.parameter];
      std::set<DeviceIndex> holders;
      for (GroupId user : parameter.users) {
        for (const Replica& replica : placement_.replicas(user)) holders.insert(replica.device);
      }
      for (DeviceIndex device : holders) state_[at(placement_.seat(device))] += bytes;
    }
  }

  Bytes free_on(DeviceIndex device) const {
    const Bytes usable = tables_.cluster.devices[at(device)].usable();
    const std::size_t seat = at(placement_.seat(device));
    return std::max(Bytes(0), usable - tables_.costs.context(device) - Bytes(state_[seat] + passing_[seat]));
  }

  // Stages that feed each other, and the time that the largest part of what passes takes.
  void connect(Pipeline& pipeline) const {
    std::map<std::pair<std::int32_t, std::int32_t>, double> seconds;
    for (std::size_t t = 0; t < tables_.tensors.size(); ++t) {
      const GroupId home = tables_.tensors[t].home;
      if (home == kNone || tables_.graph.tensors[t].role != TensorRole::kActivation) continue;
      std::vector<std::int32_t> served;
      for (OpId user : tables_.graph.consumers[t]) {
        const Op& op = tables_.graph.ops[at(user)];
        const std::int32_t from = stage_of(home), to = stage_of(op.group);
        if (op.kind != OpKind::kForward || from >= to) continue;
        if (std::find(served.begin(), served.end(), to) != served.end()) continue;
        served.push_back(to);
        double slowest = 0;
        for (const Replica& receiver : placement_.replicas(op.group)) {
          for (const Replica& sender : placement_.replicas(home)) {
            const std::int64_t both = std::min(sender.end, receiver.end) - std::max(sender.begin, receiver.begin);
            if (both <= 0 || sender.device == receiver.device) continue;
            const std::int64_t bytes = tables_.bytes(static_cast<TensorId>(t), both);
            slowest = std::max(slowest, tables_.transfer_seconds(sender.device, receiver.device, bytes));
          }
        }
        seconds[{from, to}] += slowest;
      }
    }
    for (const auto& [edge, time] : seconds) {
      PipelineStage& stage = pipeline.stages[at(edge.first)];
      stage.next.push_back(edge.second);
      stage.transfer = std::max(stage.transfer, Seconds(time));
    }
  }

  const CompilerTables& tables_;
  const Strategy& strategy_;
  const Placement& placement_;
  std::int32_t stages_;
  std::vector<std::map<DeviceIndex, Load>> loads_;  // by stage
  std::vector<std::int64_t> state_;                 // bytes, by seat
  std::vector<std::int64_t> passing_;  // ... the most that an op makes and needs while it runs, but what is state
};

}  // namespace

bool runs_again(const CompilerTables& tables, const Strategy& strategy, OpId op) {
  const OpInfo& info = tables.ops[at(op)];
  if (!info.repeatable) return false;
  const Recompute recompute = strategy.groups[at(tables.graph.ops[at(op)].group)].recompute;
  return recompute == Recompute::kFull || (recompute == Recompute::kSelective && info.cheap);
}

std::int64_t samples_of(std::int32_t micro_batch, const Strategy& strategy, std::int64_t batch) {
  return batch / strategy.micro_batches + (micro_batch < batch % strategy.micro_batches ? 1 : 0);
}

Pipeline pipeline_of(const CompilerTables& tables, const Strategy& strategy, const Placement& placement) {
  return PipelineBuilder(tables, strategy, placement).build();
}

std::variant<PassOrder, NotCompilable> PassOrder::make(const CompilerTables& tables, const Strategy& strategy,
                                                       const Placement& placement) {
  PassOrder order(tables, strategy);
  const auto micro_batches = static_cast<std::int32_t>(strategy.micro_batches);
  order.batches_ = {{0, micro_batches}};
  if (micro_batches == 1) return order;
  const Pipeline pipeline = pipeline_of(tables, strategy, placement);
  std::variant<Schedule, NotSchedulable> made = make_schedule(strategy.schedule, pipeline);
  if (auto* reason = std::get_if<NotSchedulable>(&made)) return NotCompilable{std::move(reason->reason)};
  const Schedule& schedule = std::get<Schedule>(made);
  for (const PipelineStage& stage : pipeline.stages) order.home_.push_back(stage.rank);
  const std::size_t passes = pipeline.stages.size() * at(micro_batches);
  order.places_.assign(passes * kParts, kNone);
  order.ranks_.assign(passes, kNone);
  order.versions_.assign(passes, 0);
  order.lent_to_.assign(passes, kNone);
  order.back_.assign(passes, kNone);
  for (std::int32_t rank = 0; at(rank) < schedule.ranks.size(); ++rank) {
    const std::vector<Step>& steps = schedule.ranks[at(rank)];
    for (std::size_t i = 0; i < steps.size(); ++i) order.add(steps[i], rank, static_cast<std::int32_t>(i));
  }
  // Stages update after the same micro-batches.
  for (std::int32_t m = 0; m + 1 < micro_batches; ++m) {
    if (order.places_[order.at_part(0, m, kUpdate)] == kNone) continue;
    order.batches_.back().end = m + 1;
    order.batches_.push_back({m + 1, micro_batches});
  }
  order.passes_.assign(at(tables.devices()), 0);
  std::vector<std::set<DeviceIndex>> devices(schedule.ranks.size());
  for (const GroupDecision& group : strategy.groups) {
    const std::int32_t rank = order.home_[at(group.stage)];
    for (const Share& share : group.shares) {
      order.passes_[at(share.device)] = static_cast<std::int32_t>(schedule.ranks[at(rank)].size());
      devices[at(rank)].insert(share.device);
    }
  }
  for (const std::set<DeviceIndex>& of_rank : devices) order.devices_.emplace_back(of_rank.begin(), of_rank.end());
  return order;
}

void PassOrder::add(const Step& step, std::int32_t rank, std::int32_t place) {
  const auto put = [&](Part part) { places_[at_part(step.stage, step.micro_batch, part)] = place; };
  switch (step.pass) {
    case Pass::kForward:
      put(kForward);
      ranks_[at_pass(step.stage, step.micro_batch)] = rank;
      versions_[at_pass(step.stage, step.micro_batch)] = step.version;
      break;
    case Pass::kBackward:
      put(kInputGradient);
      put(kWeightGradient);
      break;
    case Pass::kInputGradient:
      put(kInputGradient);
      break;
    case Pass::kWeightGradient:
      put(kWeightGradient);
      break;
    case Pass::kUpdate:
      put(kUpdate);
      break;
    case Pass::kEvict:
      lent_to_[at_pass(step.stage, step.micro_batch)] = step.peer;
      break;
    case Pass::kLoad:
      back_[at_pass(step.stage, step.micro_batch)] = place;
      break;
  }
}

std::optional<Loan> PassOrder::loan(OpId op, std::int32_t micro_batch, DeviceIndex device) const {
  if (lent_to_.empty()) return std::nullopt;
  const std::int32_t stage = stage_of(tables_.graph.ops[at(op)].group);
  const std::int32_t to = lent_to_[at_pass(stage, micro_batch)];
  if (to == kNone) return std::nullopt;
  const std::vector<DeviceIndex>& lenders = devices_[at(ranks_[at_pass(stage, micro_batch)])];
  const auto place = static_cast<std::size_t>(std::ranges::find(lenders, device) - lenders.begin());
  return Loan{devices_[at(to)][place % devices_[at(to)].size()], back_[at_pass(stage, micro_batch)]};
}

std::int32_t PassOrder::version(const ParameterInfo& parameter, std::int32_t micro_batch) const {
  if (versions_.empty()) return 0;
  std::int32_t least = versions_[at_pass(stage_of(parameter.owner), micro_batch)];
  for (GroupId user : parameter.users) least = std::min(least, versions_[at_pass(stage_of(user), micro_batch)]);
  return least;
}

std::int32_t PassOrder::place_update(const ParameterInfo& parameter, std::size_t batch) const {
  const std::int32_t stage = stage_of(parameter.owner);
  const auto elsewhere = [&](GroupId user) { return stage_of(user) != stage; };
  if (std::ranges::any_of(parameter.users, elsewhere)) return kNone;
  return place(stage, batches_[batch].end - 1, kUpdate);
}

std::vector<std::int32_t> PassOrder::ranks(std::int32_t micro_batch) const {
  if (ranks_.empty()) return home_;
  std::vector<std::int32_t> ranks;
  for (std::size_t stage = 0; stage < home_.size(); ++stage) {
    ranks.push_back(ranks_[at_pass(static_cast<std::int32_t>(stage), micro_batch)]);
  }
  return ranks;
}

Strategy PassOrder::placed(std::int32_t micro_batch) const {
  Strategy strategy = strategy_;
  const std::vector<std::int32_t> ranks = this->ranks(micro_batch);
  for (GroupDecision& group : strategy.groups) {
    if (ranks[at(group.stage)] == home_[at(group.stage)]) continue;
    const auto host = std::ranges::find_if(
        strategy_.groups, [&](const GroupDecision& other) { return home_[at(other.stage)] == ranks[at(group.stage)]; });
    group.shares = host->shares;
  }
  return strategy;
}

std::int32_t PassOrder::place(OpId id, std::int32_t micro_batch) const {
  const Op& op = tables_.graph.ops[at(id)];
  if (tables_.ops[at(id)].early || op.kind == OpKind::kUpdate) return kNone;
  return place(stage_of(op.group), micro_batch,
               op.kind == OpKind::kForward         ? kForward
               : op.kind == OpKind::kInputGradient ? kInputGradient
                                                   : kWeightGradient);
}

std::int32_t PassOrder::place_again(OpId id, std::int32_t micro_batch) const {
  return place(stage_of(tables_.graph.ops[at(id)].group), micro_batch, kInputGradient);
}

std::int32_t PassOrder::place(std::int32_t stage, std::int32_t micro_batch, Part part) const {
  return passes_.empty() ? kNone : places_[at_part(stage, micro_batch, part)];
}

}  // namespace motley

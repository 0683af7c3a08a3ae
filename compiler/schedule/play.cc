#include "compiler/schedule/play.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "base/error.h"

namespace motley {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

class Player {
 public:
  Player(const Schedule& schedule, const Pipeline& pipeline)
      : schedule_(schedule), pipeline_(pipeline), before_(pipeline.stages.size()), next_(schedule.ranks.size()) {
    const std::size_t passes = pipeline.stages.size() * at(pipeline.micro_batches);
    forward_.resize(passes);
    gradient_.resize(passes);
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      for (std::int32_t next : pipeline.stages[s].next) before_[at(next)].push_back(static_cast<std::int32_t>(s));
    }
    for (const std::vector<Step>& steps : schedule.ranks) played_.steps.emplace_back(steps.size());
  }

  Played run() {
    std::vector<Seconds> free(schedule_.ranks.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
        while (next_[rank] < schedule_.ranks[rank].size()) {
          const Step& step = schedule_.ranks[rank][next_[rank]];
          const std::optional<Seconds> ready = ready_at(step, rank);
          if (!ready) break;
          const Seconds start = std::max(*ready, free[rank]);
          free[rank] = start + time(step);
          played_.steps[rank][next_[rank]++] = {start, free[rank]};
          played_.length = std::max(played_.length, free[rank]);
          if (step.pass == Pass::kForward) forward_[at_pass(step)] = {rank, free[rank], true};
          if (is_input_gradient(step)) gradient_[at_pass(step)] = {rank, free[rank], true};
          moved = true;
        }
      }
    }
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      played_.ends &= next_[rank] == schedule_.ranks[rank].size();
      count_kept(schedule_.ranks[rank]);
    }
    return std::move(played_);
  }

 private:
  struct Done {
    std::size_t rank = 0;
    Seconds end;
    bool done = false;
  };
  static bool is_input_gradient(const Step& step) {
    return step.pass == Pass::kBackward || step.pass == Pass::kInputGradient;
  }
  std::size_t at_pass(std::int32_t stage, std::int32_t micro_batch) const {
    return at(stage) * at(pipeline_.micro_batches) + at(micro_batch);
  }
  std::size_t at_pass(const Step& step) const { return at_pass(step.stage, step.micro_batch); }

  Seconds time(const Step& step) const {
    const PipelineStage& stage = pipeline_.stages[at(step.stage)];
    switch (step.pass) {
      case Pass::kForward:
        return stage.forward;
      case Pass::kBackward:
        return stage.input_gradient + stage.weight_gradient;
      case Pass::kInputGradient:
        return stage.input_gradient;
      case Pass::kWeightGradient:
        return stage.weight_gradient;
    }
    return {};
  }

  // When all that the step needs is on the rank; nothing while it is not known.
  std::optional<Seconds> ready_at(const Step& step, std::size_t rank) const {
    const PipelineStage& stage = pipeline_.stages[at(step.stage)];
    Seconds ready;
    const auto arrives = [&](const Done& what, Seconds transfer) {
      ready = std::max(ready, what.end + (what.rank == rank ? Seconds() : transfer));
      return what.done;
    };
    if (step.pass == Pass::kForward) {
      for (std::int32_t from : before_[at(step.stage)]) {
        if (!arrives(forward_[at_pass(from, step.micro_batch)], pipeline_.stages[at(from)].transfer)) return {};
      }
      return ready;
    }
    if (!arrives(forward_[at_pass(step)], {})) return {};
    if (step.pass == Pass::kWeightGradient) {
      if (!arrives(gradient_[at_pass(step)], {})) return {};
      return ready;
    }
    for (std::int32_t next : stage.next) {
      if (!arrives(gradient_[at_pass(next, step.micro_batch)], stage.transfer)) return {};
    }
    return ready;
  }

  void count_kept(const std::vector<Step>& steps) {
    std::int32_t passes = 0, most = 0;
    Bytes bytes, most_bytes;
    for (const Step& step : steps) {
      const Bytes kept = pipeline_.stages[at(step.stage)].kept;
      if (step.pass == Pass::kForward) {
        most = std::max(most, ++passes);
        bytes += kept;
        most_bytes = std::max(most_bytes, bytes);
      }
      if (is_input_gradient(step)) --passes;
      if (step.pass == Pass::kBackward || step.pass == Pass::kWeightGradient) bytes -= kept;
    }
    played_.kept.push_back(most);
    played_.kept_bytes.push_back(most_bytes);
  }

  const Schedule& schedule_;
  const Pipeline& pipeline_;
  std::vector<std::vector<std::int32_t>> before_;  // by stage: those whose outputs it takes
  std::vector<std::size_t> next_;                  // by rank: steps done
  std::vector<Done> forward_, gradient_;           // by stage and micro-batch
  Played played_;
};

std::string text(const Step& step) {
  static constexpr const char* kNames[] = {"forward", "backward", "input gradient", "weight gradient"};
  return std::string(kNames[static_cast<int>(step.pass)]) + " of stage " + std::to_string(step.stage) +
         ", micro-batch " + std::to_string(step.micro_batch);
}

[[noreturn]] void fail(const std::string& why) {
  throw Error(ErrorKind::kInternal, "the schedule is not sound: " + why);
}

}  // namespace

Played play(const Schedule& schedule, const Pipeline& pipeline) { return Player(schedule, pipeline).run(); }

void check(const Schedule& schedule, const Pipeline& pipeline) {
  // By stage and micro-batch, what is done: forward 1, input gradient 2, weight gradient 4; and the rank.
  std::map<std::pair<std::int32_t, std::int32_t>, std::pair<int, std::size_t>> done;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const Step& step : schedule.ranks[rank]) {
      if (step.stage < 0 || at(step.stage) >= pipeline.stages.size() || step.micro_batch < 0 ||
          step.micro_batch >= pipeline.micro_batches) {
        fail(text(step) + " is of no stage or micro-batch of the pipeline");
      }
      auto& [parts, where] = done.try_emplace({step.stage, step.micro_batch}, 0, rank).first->second;
      static constexpr int kDoes[] = {1, 6, 2, 4}, kNeeds[] = {0, 1, 1, 3};
      const int does = kDoes[static_cast<int>(step.pass)], needs = kNeeds[static_cast<int>(step.pass)];
      if ((parts & does) != 0) fail(text(step) + " stands twice");
      if ((parts & needs) != needs || where != rank) fail(text(step) + " comes before what it needs");
      parts |= does;
    }
  }
  for (std::int32_t s = 0; at(s) < pipeline.stages.size(); ++s) {
    for (std::int32_t m = 0; m < pipeline.micro_batches; ++m) {
      const auto found = done.find({s, m});
      if (found == done.end() || found->second.first != 7) {
        fail("stage " + std::to_string(s) + " does not do all passes of micro-batch " + std::to_string(m));
      }
    }
  }
  const Played played = play(schedule, pipeline);
  if (played.ends) return;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const bool first = i == 0 || played.steps[rank][i - 1].end > Seconds();
      if (first && played.steps[rank][i].end == Seconds()) fail(text(schedule.ranks[rank][i]) + " waits in a circle");
    }
  }
}

}  // namespace motley

#include "compiler/schedule/play.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "base/index.h"

namespace motley {
namespace {

bool has_input_gradient(const Step& step) { return step.pass == Pass::kBackward || step.pass == Pass::kInputGradient; }
bool has_weight_gradient(const Step& step) {
  return step.pass == Pass::kBackward || step.pass == Pass::kWeightGradient;
}

class Player {
 public:
  Player(const Schedule& schedule, const Pipeline& pipeline)
      : schedule_(schedule), pipeline_(pipeline), before_(pipeline.stages.size()) {
    const std::size_t passes = pipeline.stages.size() * at(pipeline.micro_batches);
    forward_.resize(passes);
    gradient_.resize(passes);
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      for (std::int32_t next : pipeline.stages[s].next) before_[at(next)].push_back(static_cast<std::int32_t>(s));
    }
    played_.steps.resize(schedule.ranks.size());
  }

  Played run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
        while (run_next(rank)) moved = true;
      }
    }
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      played_.ends &= played_.steps[rank].size() == schedule_.ranks[rank].size();
    }
    return std::move(played_);
  }

 private:
  struct Done {
    std::size_t rank = 0;
    Seconds end;
    bool done = false;
  };
  std::size_t at_pass(std::int32_t stage, std::int32_t micro_batch) const {
    return at(stage) * at(pipeline_.micro_batches) + at(micro_batch);
  }
  std::size_t at_pass(const Step& step) const { return at_pass(step.stage, step.micro_batch); }

  // False: the rank has ended, or waits.
  bool run_next(std::size_t rank) {
    std::vector<Played::Span>& ran = played_.steps[rank];
    if (ran.size() == schedule_.ranks[rank].size()) return false;
    const Step& step = schedule_.ranks[rank][ran.size()];
    const std::optional<Seconds> ready = ready_at(step, rank);
    if (!ready) return false;
    const Seconds start = std::max(*ready, ran.empty() ? Seconds() : ran.back().end), end = start + time(step);
    ran.push_back({start, end});
    played_.length = std::max(played_.length, end);
    if (step.pass == Pass::kForward) forward_[at_pass(step)] = {rank, end, true};
    if (has_input_gradient(step)) gradient_[at_pass(step)] = {rank, end, true};
    return true;
  }

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
      case Pass::kUpdate:
      case Pass::kEvict:
      case Pass::kLoad:
        return {};
    }
    return {};
  }

  // When all that the step needs is on the rank; nothing while it is not known. What the rank itself has done is there.
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
    }
    if (has_input_gradient(step)) {
      for (std::int32_t next : stage.next) {
        if (!arrives(gradient_[at_pass(next, step.micro_batch)], stage.transfer)) return {};
      }
    }
    return ready;
  }

  const Schedule& schedule_;
  const Pipeline& pipeline_;
  std::vector<std::vector<std::int32_t>> before_;  // by stage: those whose outputs it takes
  std::vector<Done> forward_, gradient_;           // by stage and micro-batch
  Played played_;
};

// Of what a rank keeps.
struct Change {
  Seconds when;
  std::int32_t passes = 0;
  Bytes bytes;
};

// By rank, in order of time: at one time what others take back goes first, what they bring comes last.
std::vector<std::vector<Change>> changes(const Schedule& schedule, const Pipeline& pipeline, const Played& played) {
  const std::size_t ranks = schedule.ranks.size();
  std::vector<std::vector<Change>> taken(ranks), own(ranks), brought(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < played.steps[rank].size(); ++i) {
      const Step& step = schedule.ranks[rank][i];
      const auto& [start, end] = played.steps[rank][i];
      const Bytes kept = pipeline.stages[at(step.stage)].kept;
      if (step.pass == Pass::kForward || step.pass == Pass::kLoad) own[rank].push_back({start, 1, kept});
      if (has_input_gradient(step)) own[rank].push_back({end, -1, Bytes()});
      if (has_weight_gradient(step)) own[rank].push_back({end, 0, -kept});
      if (step.pass == Pass::kEvict) {
        own[rank].push_back({end, -1, -kept});
        brought[at(step.peer)].push_back({end, 1, kept});
      }
      if (step.pass == Pass::kLoad) taken[at(step.peer)].push_back({start, -1, -kept});
    }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<Change>& all = taken[rank];
    all.insert(all.end(), own[rank].begin(), own[rank].end());
    all.insert(all.end(), brought[rank].begin(), brought[rank].end());
    std::ranges::stable_sort(all, {}, &Change::when);
  }
  return taken;
}

void count_kept(const Schedule& schedule, const Pipeline& pipeline, const Played& played, Peaks& peaks) {
  for (const std::vector<Change>& all : changes(schedule, pipeline, played)) {
    Change now, most;
    for (const Change& change : all) {
      now.passes += change.passes;
      now.bytes += change.bytes;
      most.passes = std::max(most.passes, now.passes);
      most.bytes = std::max(most.bytes, now.bytes);
    }
    peaks.kept.push_back(most.passes);
    peaks.kept_bytes.push_back(most.bytes);
  }
}

void count_versions(const Schedule& schedule, const Pipeline& pipeline, Peaks& peaks) {
  const std::size_t stages = pipeline.stages.size();
  std::vector<std::int32_t> newest(stages);
  std::vector<std::map<std::int32_t, std::int32_t>> taken(stages);  // by stage and micro-batch under way
  peaks.versions.assign(stages, 1);
  for (const std::vector<Step>& steps : schedule.ranks) {
    for (const Step& step : steps) {
      const std::size_t stage = at(step.stage);
      if (step.pass == Pass::kForward) taken[stage][step.micro_batch] = step.version;
      if (has_weight_gradient(step)) taken[stage].erase(step.micro_batch);
      if (step.pass == Pass::kUpdate) ++newest[stage];
      std::set<std::int32_t> distinct = {newest[stage]};
      for (const auto& [micro_batch, version] : taken[stage]) distinct.insert(version);
      peaks.versions[stage] = std::max(peaks.versions[stage], static_cast<std::int32_t>(distinct.size()));
    }
  }
}

std::string text(const Step& step) {
  static constexpr const char* kNames[] = {"forward",  "backward", "input gradient", "weight gradient", "update",
                                           "eviction", "load"};
  return std::string(kNames[static_cast<int>(step.pass)]) + " of stage " + std::to_string(step.stage) +
         ", micro-batch " + std::to_string(step.micro_batch);
}

[[noreturn]] void fail(const std::string& why) {
  throw Error(ErrorKind::kInternal, "the schedule is not sound: " + why);
}

// Follows the ranks' steps, and knows what has been done for each micro-batch at each stage.
class Checker {
 public:
  explicit Checker(const Pipeline& pipeline)
      : pipeline_(pipeline),
        progress_(pipeline.stages.size() * at(pipeline.micro_batches)),
        updates_(pipeline.stages.size()) {}

  void follow(const Step& step, std::size_t rank) {
    if (step.stage < 0 || at(step.stage) >= pipeline_.stages.size() || step.micro_batch < 0 ||
        step.micro_batch >= pipeline_.micro_batches) {
      fail(text(step) + " is of no stage or micro-batch of the pipeline");
    }
    Progress& progress = progress_[at(step.stage) * at(pipeline_.micro_batches) + at(step.micro_batch)];
    if (progress.done == 0) progress.rank = rank;
    const auto& [needs, does] = kRules[static_cast<int>(step.pass)];
    if ((progress.done & does) != 0) fail(text(step) + " stands twice");
    if ((progress.done & needs) != needs || progress.rank != rank) fail(text(step) + " comes before what it needs");
    progress.done |= does;
    follow_moves(step, progress);
    follow_versions(step);
  }

  void end() const {
    for (std::size_t i = 0; i < progress_.size(); ++i) {
      const std::size_t stage = i / at(pipeline_.micro_batches);
      if ((progress_[i].done & kAll) != kAll) {
        fail("stage " + std::to_string(stage) + " does not do all passes of micro-batch " +
             std::to_string(i % at(pipeline_.micro_batches)));
      }
    }
    for (std::size_t stage = 0; stage < updates_.size(); ++stage) {
      if (!updates_[stage].ends.empty() && updates_[stage].gradients > 0) {
        fail("no update of stage " + std::to_string(stage) + " takes its last gradients");
      }
      if (updates_[stage].ends != updates_[0].ends) {
        fail("stage " + std::to_string(stage) + " updates after other micro-batches than stage 0");
      }
    }
  }

 private:
  enum Done : int { kForward = 1, kInput = 2, kWeight = 4, kAll = 7 };
  struct Rule {
    int needs, does;
  };
  static constexpr Rule kRules[] = {{0, kForward},      {kForward, kInput | kWeight},
                                    {kForward, kInput}, {kForward | kInput, kWeight},
                                    {kAll, 0},          {kForward, 0},
                                    {kForward, 0}};
  struct Progress {
    int done = 0;
    std::size_t rank = 0;
    std::int32_t peer = -1;  // where what it keeps has been moved
  };
  struct Updates {
    std::vector<std::int32_t> ends;  // the last micro-batch of each
    std::int32_t gradients = 0;      // that no update has taken
  };

  void follow_moves(const Step& step, Progress& progress) const {
    if (step.pass == Pass::kLoad) {
      if (step.peer < 0 || progress.peer != step.peer) fail(text(step) + " is from where nothing was moved");
      progress.peer = -1;
      return;
    }
    if (progress.peer >= 0) fail(text(step) + " finds moved away what it needs");
    if (step.pass != Pass::kEvict) return;
    if (step.peer < 0 || at(step.peer) >= pipeline_.room.size()) fail(text(step) + " is to no rank of the pipeline");
    progress.peer = step.peer;
  }

  void follow_versions(const Step& step) {
    Updates& updates = updates_[at(step.stage)];
    const auto done = static_cast<std::int32_t>(updates.ends.size());
    if (step.pass == Pass::kForward && (step.version < 0 || step.version > done)) {
      fail(text(step) + " takes the weights after update " + std::to_string(step.version) + " of " +
           std::to_string(done));
    }
    if (has_weight_gradient(step)) ++updates.gradients;
    if (step.pass != Pass::kUpdate) return;
    const std::int32_t begin = done == 0 ? 0 : updates.ends.back() + 1;
    if (updates.gradients != step.micro_batch + 1 - begin) {
      fail(text(step) + " takes the gradients of others than the micro-batches up to that one");
    }
    updates.ends.push_back(step.micro_batch);
    updates.gradients = 0;
  }

  const Pipeline& pipeline_;
  std::vector<Progress> progress_;  // by stage and micro-batch
  std::vector<Updates> updates_;    // by stage
};

}  // namespace

Played play(const Schedule& schedule, const Pipeline& pipeline) { return Player(schedule, pipeline).run(); }

Peaks peaks(const Schedule& schedule, const Pipeline& pipeline, const Played& played) {
  Peaks peaks;
  count_kept(schedule, pipeline, played, peaks);
  count_versions(schedule, pipeline, peaks);
  return peaks;
}

void check(const Schedule& schedule, const Pipeline& pipeline) {
  Checker checker(pipeline);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const Step& step : schedule.ranks[rank]) checker.follow(step, rank);
  }
  checker.end();
  const Played played = play(schedule, pipeline);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::size_t ran = played.steps[rank].size();
    if (ran < schedule.ranks[rank].size()) fail(text(schedule.ranks[rank][ran]) + " waits in a circle");
  }
}

}  // namespace motley

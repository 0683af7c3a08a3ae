#include "compiler/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <stdexcept>

#include "base/error.h"
#include "base/file.h"
#include "compiler/schedule/kinds.h"
#include "compiler/schedule/play.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Le;
using testing::Not;

// A chain of equal stages on ranks of their own; `stages` over fewer `ranks`: dealt out in turns.
Pipeline chain(int stages, int micro_batches, double forward = 1, double input_gradient = 1, double weight_gradient = 1,
               int ranks = 0) {
  Pipeline pipeline;
  pipeline.micro_batches = micro_batches;
  if (ranks == 0) ranks = stages;
  pipeline.room.assign(ranks, Bytes(1 << 30));
  for (int s = 0; s < stages; ++s) {
    pipeline.stages.push_back({.rank = s % ranks,
                               .forward = Seconds(forward),
                               .input_gradient = Seconds(input_gradient),
                               .weight_gradient = Seconds(weight_gradient),
                               .kept = Bytes(1)});
    if (s + 1 < stages) pipeline.stages[s].next = {s + 1};
  }
  return pipeline;
}

// Two stages per rank, the first with the last.
Pipeline v_shape(int ranks, int micro_batches, double pass = 1) {
  Pipeline pipeline = chain(2 * ranks, micro_batches, pass, pass, pass, ranks);
  for (int s = ranks; s < 2 * ranks; ++s) pipeline.stages[s].rank = 2 * ranks - 1 - s;
  return pipeline;
}

// 0 - 1 and 2 - 3 side by side, before 4.
Pipeline two_branches() {
  Pipeline pipeline = chain(5, 8);
  pipeline.stages[1].next = {4};
  return pipeline;
}

Schedule made(std::string_view name, const Pipeline& pipeline) {
  const auto result = make_schedule(name, pipeline);
  const auto* reason = std::get_if<NotSchedulable>(&result);
  if (reason != nullptr) throw std::runtime_error(reason->reason);
  return std::get<Schedule>(result);
}
struct Outcome : Played, Peaks {};
Outcome played(std::string_view name, const Pipeline& pipeline) {
  const Schedule schedule = made(name, pipeline);
  check(schedule, pipeline);
  const Played played = play(schedule, pipeline);
  return {played, peaks(schedule, pipeline, played)};
}
double length(std::string_view name, const Pipeline& pipeline) { return played(name, pipeline).length.value; }

// From the first step of a rank to the end of its last.
double span(const Played& all, std::size_t rank) {
  return (all.steps[rank].back().end - all.steps[rank].front().start).value;
}

// p stages, m micro-batches of f forward and b backward: (m + p - 1)(f + b), all m kept on every stage (Huang et al.,
// NeurIPS 2019).
TEST(ScheduleTest, GPipe) {
  const Outcome small = played("gpipe", chain(4, 8));
  EXPECT_EQ(small.length, Seconds(11 * 3));
  EXPECT_THAT(small.kept, ElementsAre(8, 8, 8, 8));
  EXPECT_EQ(length("gpipe", chain(8, 16)), 23 * 3);
  EXPECT_EQ(length("gpipe", chain(4, 8, 1, 2, 1)), 11 * 4);  // forward once more before each backward pass
}

// As long as GPipe, but stage i keeps p - i (Narayanan et al., ICML 2021).
TEST(ScheduleTest, OneForwardOneBackward) {
  const Outcome all = played("1f1b", chain(4, 8));
  EXPECT_EQ(all.length, Seconds(33));
  EXPECT_THAT(all.kept, ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(all.kept_bytes, ElementsAre(Bytes(4), Bytes(3), Bytes(2), Bytes(1)));
  EXPECT_EQ(length("1f1b", chain(8, 24)), 93);
}

// Each way a link takes as long as a stage's whole work of 3, so a micro-batch and its gradient are on it while two
// others begin: 1 + 2 more under way per link. With p - s each would be waited for.
TEST(ScheduleTest, OneForwardOneBackwardCoversSlowLinks) {
  Pipeline pipeline = chain(4, 40);
  for (PipelineStage& stage : pipeline.stages) stage.transfer = Seconds(3);
  const Outcome all = played("1f1b", pipeline);
  EXPECT_THAT(all.kept, ElementsAre(10, 7, 4, 1));
  EXPECT_EQ(all.length, Seconds(3 * 40 + 3 * 9));  // the last stage never waits; 3 hops to it, forth and back
  pipeline.stages[0].transfer = Seconds(0);
  pipeline.stages[2].transfer = Seconds(0.03);  // 0.02 of a period there and back: not worth the memory
  EXPECT_THAT(played("1f1b", pipeline).kept, ElementsAre(6, 5, 2, 1));
}

// Where memory holds fewer micro-batches than that, no other depths that it holds are faster.
TEST(ScheduleTest, OneForwardOneBackwardMakesTheBestOfItsRoom) {
  std::mt19937 random(3);
  const auto draw = [&](double least, double most) {
    return Seconds(std::uniform_real_distribution<>(least, most)(random));
  };
  for (int i = 0; i < 100; ++i) {
    Pipeline pipeline = chain(3, 8);
    for (PipelineStage& stage : pipeline.stages) {
      stage.forward = draw(0.5, 2);
      stage.input_gradient = draw(0.5, 2);
      stage.weight_gradient = draw(0.5, 2);
      stage.transfer = draw(0, 2);
    }
    for (Bytes& room : pipeline.room) room = Bytes(1 + static_cast<std::int64_t>(random() % 3));
    const auto room = [&](int rank) { return static_cast<std::int32_t>(pipeline.room[rank].value); };
    Seconds best(1e9);
    for (std::int32_t a = 1; a <= room(0); ++a) {
      for (std::int32_t b = 1; b <= std::min(a, room(1)); ++b) {
        for (std::int32_t c = 1; c <= std::min(b, room(2)); ++c) {
          best = std::min(best, play(in_turns(pipeline, {a, b, c}), pipeline).length);
        }
      }
    }
    const Outcome all = played("1f1b", pipeline);
    EXPECT_EQ(all.length, best) << i;
    for (int rank = 0; rank < 3; ++rank) EXPECT_LE(all.kept_bytes[rank], pipeline.room[rank]) << i;
  }
}

// p - s on stage s (Narayanan et al., ICML 2021), however slow the links and small the room.
TEST(ScheduleTest, PipedreamFlushKeepsItsDepth) {
  Pipeline pipeline = chain(4, 40);
  for (PipelineStage& stage : pipeline.stages) stage.transfer = Seconds(3);
  for (Bytes& room : pipeline.room) room = Bytes(1);
  EXPECT_THAT(played("pipedream-flush", pipeline).kept, ElementsAre(4, 3, 2, 1));
  EXPECT_EQ(length("pipedream-flush", chain(4, 8)), 33);
}

// m(f + b) + (p - 1)(f + b)/v, and (1 + (p - 1)/(pv)) times 1F1B's activations on rank 0 (Narayanan et al., SC 2021). A
// chunk takes 1/v of a stage.
TEST(ScheduleTest, Interleaved) {
  const auto chunks = [](int p, int m, int v) { return chain(p * v, m, 1.0 / v, 1.0 / v, 1.0 / v, p); };
  const Outcome two = played("interleaved-1f1b", chunks(4, 8, 2));
  EXPECT_NEAR(two.length.value, 28.5, 1e-9);
  EXPECT_THAT(two.kept, ElementsAre(11, 9, 7, 5));
  const Outcome four = played("interleaved-1f1b", chunks(4, 8, 4));
  EXPECT_NEAR(four.length.value, 26.25, 1e-9);
  EXPECT_THAT(four.kept, ElementsAre(19, 17, 15, 13));
  EXPECT_NEAR(length("interleaved-1f1b", chunks(8, 16, 2)), 58.5, 1e-9);
  // As many micro-batches as there are ranks: all forward passes first.
  EXPECT_THAT(played("interleaved-1f1b", chunks(4, 4, 2)).kept, ElementsAre(8, 8, 8, 8));
  // A last group that is not whole takes no longer than a whole one would, and no less than the same without it.
  for (int p = 2; p <= 6; ++p) {
    for (int m = 2 * p; m <= 4 * p; ++m) {
      const double whole = (m + p - 1) / p * p, less = m / p * p;
      EXPECT_LE(length("interleaved-1f1b", chunks(p, m, 3)), 3 * whole + (p - 1) + 1e-9) << p << " ranks " << m;
      EXPECT_GE(length("interleaved-1f1b", chunks(p, m, 3)), 3 * less + (p - 1) - 1e-9) << p << " ranks " << m;
    }
  }
}

// Bubbles of (p - 1)(F + B - W) and (p - 1)(F + B - 2W) (Qi et al., ICLR 2024): a third of 1F1B's, and none.
TEST(ScheduleTest, ZeroBubble) {
  const Outcome h1 = played("zb-h1", chain(4, 8));
  EXPECT_EQ(h1.length, Seconds(27));
  EXPECT_THAT(h1.kept, ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(h1.kept_bytes, ElementsAre(Bytes(4), Bytes(4), Bytes(4), Bytes(4)));  // until the weight gradient
  EXPECT_EQ(length("zb-h1", chain(8, 24)), 79);
  const Outcome h2 = played("zb-h2", chain(4, 8));
  EXPECT_EQ(h2.length, Seconds(27));
  EXPECT_THAT(h2.kept, ElementsAre(7, 5, 3, 1));
  EXPECT_THAT(h2.kept_bytes, ElementsAre(Bytes(7), Bytes(7), Bytes(7), Bytes(7)));
  for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(span(h2, rank), 24);
  const Outcome long_h2 = played("zb-h2", chain(8, 24));
  for (std::size_t rank = 0; rank < 8; ++rank) EXPECT_EQ(span(long_h2, rank), 72);
  EXPECT_EQ(length("zb-h1", chain(4, 8, 10, 12, 8)), 8 * 30 + 3 * 14);
  // GPT of 1.5 billion parameters on 8 stages with 24 micro-batches, as profiled by the authors (table 9), in ms.
  EXPECT_NEAR(length("1f1b", chain(8, 24, 18.522, 18.086, 9.337)), 1424.3, 0.1);
  EXPECT_NEAR(length("zb-h1", chain(8, 24, 18.522, 18.086, 9.337)), 1293.6, 0.1);
}

// Weight gradients in the bubble never make an iteration longer, however few micro-batches there are.
TEST(ScheduleTest, ZeroBubbleHelpsAtAnySize) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 18; ++m) {
      for (double weights : {0.5, 1.0}) {
        const Pipeline pipeline = chain(p, m, 1, 1, weights);
        EXPECT_LE(length("zb-h1", pipeline), length("1f1b", pipeline)) << p << " stages " << m;
        EXPECT_LE(length("zb-h2", pipeline), length("zb-h1", pipeline)) << p << " stages " << m;
      }
    }
  }
}

// No bubble on any rank, with as many activations as 1F1B: 2p chunks of half a stage.
TEST(ScheduleTest, ZeroBubbleV) {
  const Outcome all = played("zb-v", v_shape(4, 8));
  EXPECT_EQ(all.length, Seconds(51));
  EXPECT_THAT(all.kept, ElementsAre(8, 8, 8, 8));
  for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(span(all, rank), 48);
  const Outcome large = played("zb-v", v_shape(8, 24));
  for (std::size_t rank = 0; rank < 8; ++rank) EXPECT_EQ(span(large, rank), 144);
}

// 2N + D - 2 with equal passes; 5D - 4 for N = D when a backward pass takes two (Li, Hoefler, SC 2021). Joining units
// leaves bubbles inside.
TEST(ScheduleTest, Chimera) {
  const Outcome equal = played("chimera", chain(4, 4, 1, 0.5, 0.5));
  EXPECT_EQ(equal.length, Seconds(10));
  EXPECT_EQ(length("chimera", chain(4, 8, 1, 0.5, 0.5)), 18);
  EXPECT_THAT(played("chimera", chain(4, 8, 1, 0.5, 0.5)).kept, ElementsAre(3, 4, 4, 3));
  EXPECT_EQ(length("chimera", chain(4, 4)), 16);
  EXPECT_EQ(length("chimera", chain(8, 8)), 36);
  EXPECT_EQ(length("chimera", chain(4, 8)), 30);
  EXPECT_EQ(length("chimera", chain(4, 12)), 44);
  EXPECT_EQ(length("chimera", chain(4, 16)), 58);
  EXPECT_EQ(length("chimera", chain(8, 32)), 126);
  EXPECT_EQ(length("chimera", chain(6, 6)), 5 * 6 - 4);
  EXPECT_EQ(length("chimera", chain(16, 16)), 5 * 16 - 4);
  // An odd number of stages: one slot is lost, half of 1F1B's bubble of 2(D - 1) remains.
  for (int stages : {3, 5, 7}) {
    EXPECT_EQ(length("chimera", chain(stages, stages + 1, 1, 0.5, 0.5)), 2 * (stages + 1) + stages - 1);
  }
}

// 1F1B's time and order with no stage above ceil((p + 2)/2) micro-batches (Kim et al., ICML 2023).
TEST(ScheduleTest, BPipe) {
  const Outcome all = played("bpipe", chain(4, 8));
  EXPECT_EQ(all.length, Seconds(33));
  EXPECT_THAT(all.kept, ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(played("bpipe", chain(8, 24)).kept, ElementsAre(5, 5, 5, 5, 4, 4, 4, 4));
  EXPECT_THAT(played("bpipe", chain(16, 64)).kept, Each(Le(9)));
  EXPECT_THAT(played("bpipe", chain(5, 13)).kept, Each(Le(4)));
  // A micro-batch comes back a pass before its backward pass, and one evicted makes place for it.
  const auto steps = made("bpipe", chain(5, 7)).ranks[0];
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].pass != Pass::kLoad) continue;
    EXPECT_EQ(steps[i].peer, 4);
    EXPECT_EQ(steps[i + 2], (Step{Pass::kBackward, 0, steps[i].micro_batch}));
  }
}

// No flush: after warm-up the last stage always works, a stage keeps p - s versions, and a micro-batch's gradient is
// p - 1 - s updates late (Narayanan et al., SOSP 2019).
TEST(ScheduleTest, PipeDream) {
  for (int p : {4, 8}) {
    const int m = 5 * p;
    const Pipeline pipeline = chain(p, m);
    const Outcome all = played("pipedream", pipeline);
    EXPECT_EQ(span(all, p - 1), 3 * m);
    const Schedule schedule = made("pipedream", pipeline);
    for (int s = 0; s < p; ++s) {
      EXPECT_EQ(all.versions[s], p - s);
      EXPECT_EQ(all.kept[s], p - s);
      for (const Step& step : schedule.ranks[s]) {
        if (step.pass != Pass::kForward) continue;
        EXPECT_EQ(step.version, std::max(0, step.micro_batch - (p - 1 - s)));  // update i is of micro-batch i
      }
    }
  }
}

// Batches of p micro-batches or more: every stage updates once per batch, keeps two versions, and a batch's weights
// lack the update of the batch before it alone (Narayanan et al., ICML 2021). No flush: the last stage always works.
TEST(ScheduleTest, PipeDream2BW) {
  const Pipeline pipeline = chain(4, 26);  // 6 batches of 5, 5, 4, 4, 4, 4
  const Outcome all = played("pipedream-2bw", pipeline);
  EXPECT_THAT(all.versions, ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(all.kept, ElementsAre(4, 3, 2, 1));
  EXPECT_EQ(span(all, 3), 3 * 26);
  for (const std::vector<Step>& steps : made("pipedream-2bw", pipeline).ranks) {
    std::vector<std::int32_t> ends, versions;
    for (const Step& step : steps) {
      if (step.pass == Pass::kUpdate) ends.push_back(step.micro_batch);
      if (step.pass == Pass::kForward) versions.push_back(step.version);
    }
    EXPECT_THAT(ends, ElementsAre(4, 9, 13, 17, 21, 25));
    EXPECT_THAT(versions, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4));
  }
  // In the steady state 8 micro-batches take 8(f + b).
  const Schedule even = made("pipedream-2bw", chain(4, 24));
  const Outcome steady = played("pipedream-2bw", chain(4, 24));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    std::vector<double> updates;
    for (std::size_t i = 0; i < even.ranks[rank].size(); ++i) {
      if (even.ranks[rank][i].pass == Pass::kUpdate) updates.push_back(steady.steps[rank][i].end.value);
    }
    EXPECT_EQ(updates[4] - updates[2], 24);
  }
}

// Two branches of two stages and a joint head: (m + d - 1)(f + b) with d = 3 stages on the longest way, where a chain
// of five has (m + 4)(f + b) (Jeon et al., 2024).
TEST(ScheduleTest, GraphPipe) {
  const Pipeline pipeline = two_branches();
  const Outcome all = played("graphpipe", pipeline);
  EXPECT_EQ(all.length, Seconds(30));
  EXPECT_THAT(all.kept, ElementsAre(3, 2, 3, 2, 1));
  const Outcome line = played("1f1b", chain(5, 8));
  EXPECT_EQ(line.length, Seconds(36));
  EXPECT_THAT(played("1f1b", pipeline).kept, ElementsAre(5, 4, 3, 2, 1));  // takes the branches for a chain
  EXPECT_THAT(line.kept, ElementsAre(5, 4, 3, 2, 1));
}

TEST(ScheduleTest, SaysWhatDoesNotSuitASchedule) {
  const auto reason = [](std::string_view name, const Pipeline& pipeline) {
    const auto result = make_schedule(name, pipeline);
    const auto* refused = std::get_if<NotSchedulable>(&result);
    return refused == nullptr ? std::string("it was made") : refused->reason;
  };
  for (const char* name :
       {"1f1b", "pipedream-flush", "zb-h1", "zb-h2", "chimera", "bpipe", "pipedream", "pipedream-2bw", "graphpipe"}) {
    EXPECT_THAT(reason(name, chain(4, 4, 1, 1, 1, 2)), HasSubstr("give every stage devices of its own"));
  }
  EXPECT_THAT(reason("interleaved-1f1b", v_shape(2, 4)), HasSubstr("put stage 2 on the devices of stage 0"));
  EXPECT_THAT(reason("interleaved-1f1b", chain(5, 4, 1, 1, 1, 2)), HasSubstr("make 4 or 6"));
  EXPECT_THAT(reason("zb-v", chain(4, 4, 1, 1, 1, 2)), HasSubstr("put stage 2 on the devices of stage 1"));
  EXPECT_THAT(reason("zb-v", chain(3, 4, 1, 1, 1, 2)), HasSubstr("for 2 sets make 4 stages"));
  Pipeline together = v_shape(2, 4);
  together.stages[1].rank = 0;
  for (const char* name : {"zb-v", "interleaved-1f1b"}) {
    EXPECT_THAT(reason(name, together), HasSubstr("give stage 1 devices that no stage before it has"));
  }
  EXPECT_THAT(support::error_of([] { make_schedule("1fib", chain(1, 1)); }, ErrorKind::kInvalidInput),
              HasSubstr("did you mean 1f1b"));
}

TEST(ScheduleTest, ChecksWhatIsWrong) {
  const auto refused = [](std::string_view name, const std::function<void(Schedule&)>& change,
                          const Pipeline& pipeline = chain(2, 2)) {
    Schedule schedule = made(name, pipeline);
    change(schedule);
    return support::error_of([&] { check(schedule, pipeline); }, ErrorKind::kInternal);
  };
  EXPECT_THAT(refused("1f1b", [](Schedule& s) { s.ranks[1].pop_back(); }), HasSubstr("all passes of micro-batch 1"));
  EXPECT_THAT(refused("1f1b", [](Schedule& s) { s.ranks[1].push_back(s.ranks[1].back()); }),
              HasSubstr("backward of stage 1, micro-batch 1 stands twice"));
  EXPECT_THAT(refused("1f1b", [](Schedule& s) { std::swap(s.ranks[1][0], s.ranks[1][1]); }),
              HasSubstr("before what it needs"));
  EXPECT_THAT(refused("1f1b", [](Schedule& s) { std::swap(s.ranks[0].back(), s.ranks[1].back()); }),
              HasSubstr("before what it needs"));  // on another rank than its forward pass
  EXPECT_THAT(refused("zb-h1", [](Schedule& s) { std::swap(s.ranks[0][2], s.ranks[0][3]); }),
              HasSubstr("weight gradient of stage 0, micro-batch 0 comes before what it needs"));
  // Stage 0 waits for micro-batch 0's gradient; stage 1, before it makes that, for micro-batch 1.
  const auto circle = [](Schedule& s) {
    s.ranks[0] = {{Pass::kForward, 0, 0}, {Pass::kBackward, 0, 0}, {Pass::kForward, 0, 1}, {Pass::kBackward, 0, 1}};
    s.ranks[1] = {{Pass::kForward, 1, 0}, {Pass::kForward, 1, 1}, {Pass::kBackward, 1, 0}, {Pass::kBackward, 1, 1}};
  };
  EXPECT_THAT(refused("1f1b", circle), HasSubstr("waits in a circle"));
  EXPECT_THAT(refused("1f1b", circle, chain(2, 2, 0, 0, 0)),
              HasSubstr("waits in a circle"));  // passes that take no time
  const Step evict{Pass::kEvict, 0, 0, 0, 1}, load{Pass::kLoad, 0, 0, 0, 1};
  const auto after_first = [&](std::vector<Step> steps) {
    return [=](Schedule& s) { s.ranks[0].insert(s.ranks[0].begin() + 1, steps.begin(), steps.end()); };
  };
  EXPECT_THAT(refused("1f1b", after_first({evict})), HasSubstr("finds moved away what it needs"));
  EXPECT_THAT(refused("1f1b", after_first({load})), HasSubstr("from where nothing was moved"));
  EXPECT_THAT(refused("1f1b", after_first({evict, evict, load})), HasSubstr("finds moved away"));
  EXPECT_THAT(refused("pipedream", [](Schedule& s) { s.ranks[1][3].version = 2; }),
              HasSubstr("takes the weights after update 2 of 1"));
  EXPECT_THAT(refused("pipedream", [](Schedule& s) { s.ranks[1].pop_back(); }),
              HasSubstr("no update of stage 1 takes its last gradients"));
  EXPECT_THAT(refused("pipedream",
                      [](Schedule& s) {
                        std::erase_if(s.ranks[1], [](const Step& step) {
                          return step.pass == Pass::kUpdate && step.micro_batch == 0;
                        });
                        s.ranks[1][2].version = 0;
                      }),
              HasSubstr("stage 1 updates after other micro-batches than stage 0"));
  EXPECT_THAT(refused("pipedream", [](Schedule& s) { s.ranks[1].back().micro_batch = 0; }),
              HasSubstr("takes the gradients of others than the micro-batches up to that one"));
}

// A line per rank and a character per second: digits for forward passes, letters for backward ones or input gradients,
// capitals for weight gradients, dots for bubbles.
std::string drawn(std::string_view name, const Pipeline& pipeline) {
  const Schedule schedule = made(name, pipeline);
  const Played played = play(schedule, pipeline);
  std::string text;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    std::string line(std::lround(played.length.value), '.');
    for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const Step& step = schedule.ranks[rank][i];
      const char first = step.pass == Pass::kForward ? '1' : step.pass == Pass::kWeightGradient ? 'A' : 'a';
      const auto [start, end] = played.steps[rank][i];
      for (auto at = std::lround(start.value); at < std::lround(end.value); ++at) {
        line[at] = static_cast<char>(first + step.micro_batch);
      }
    }
    text += "    " + line + "\n";
  }
  return text;
}

TEST(ScheduleTest, AreDrawnInTheDocs) {
  const std::string docs = read_file("docs/schedules.md");
  const Pipeline plain = chain(4, 8);
  for (const std::string& name : schedule_names()) {
    const Pipeline pipeline = name == "interleaved-1f1b" ? chain(8, 8, 1, 1, 1, 4)
                              : name == "zb-v"           ? v_shape(4, 8)
                              : name == "graphpipe"      ? two_branches()
                                                         : plain;
    EXPECT_THAT(docs, HasSubstr(drawn(name, pipeline))) << name;
  }
}

// Every schedule, on 1 to 6 ranks and 1 to 13 micro-batches, of stages that take unlike times, as a chain and as a
// graph: no two ranks wait for each other, and nothing is done twice or left out.
TEST(ScheduleTest, EverySizeRunsToItsEnd) {
  std::mt19937 random(1);
  const auto draw = [&](double most) { return Seconds(std::uniform_real_distribution<>(0, most)(random)); };
  for (const std::string& name : schedule_names()) {
    for (int ranks = 1; ranks <= 6; ++ranks) {
      for (int m = 1; m <= 13; ++m) {
        const int chunks = name == "interleaved-1f1b" ? 1 + static_cast<int>(random() % 3) : 1;
        Pipeline pipeline = name == "zb-v" ? v_shape(ranks, m) : chain(ranks * chunks, m, 1, 1, 1, ranks);
        for (PipelineStage& stage : pipeline.stages) {
          stage.forward = draw(2);
          stage.input_gradient = draw(2);
          stage.weight_gradient = draw(2);
          stage.transfer = draw(3);
          stage.kept = Bytes(1 + static_cast<std::int64_t>(random() % 5));
        }
        for (Bytes& room : pipeline.room) room = Bytes(static_cast<std::int64_t>(random() % 30));
        ASSERT_NO_THROW(check(made(name, pipeline), pipeline)) << name << " " << ranks << " ranks " << m;
        const auto stages = static_cast<std::int32_t>(pipeline.stages.size());
        for (std::int32_t s = 0; s < stages; ++s) {
          std::vector<std::int32_t>& next = pipeline.stages[s].next;
          next.clear();
          for (std::int32_t t = s + 1; t < stages; ++t) {
            if (random() % 3 == 0) next.push_back(t);
          }
        }
        ASSERT_NO_THROW(check(made(name, pipeline), pipeline)) << name << " " << ranks << " ranks " << m << ", a graph";
      }
    }
  }
}

}  // namespace
}  // namespace motley

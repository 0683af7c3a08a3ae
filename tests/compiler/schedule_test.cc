#include "compiler/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <stdexcept>

#include "base/error.h"
#include "compiler/schedule/kinds.h"
#include "compiler/schedule/play.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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

Schedule made(std::string_view name, const Pipeline& pipeline) {
  const auto result = make_schedule(name, pipeline);
  const auto* reason = std::get_if<NotSchedulable>(&result);
  if (reason != nullptr) throw std::runtime_error(reason->reason);
  return std::get<Schedule>(result);
}
Played played(std::string_view name, const Pipeline& pipeline) {
  const Schedule schedule = made(name, pipeline);
  check(schedule, pipeline);
  return play(schedule, pipeline);
}
double length(std::string_view name, const Pipeline& pipeline) { return played(name, pipeline).length.value; }

// From the first step of a rank to the end of its last.
double span(const Played& all, std::size_t rank) {
  return (all.steps[rank].back().end - all.steps[rank].front().start).value;
}

// p stages, m micro-batches of f forward and b backward: (m + p - 1)(f + b), all m kept on every stage (Huang et al.,
// NeurIPS 2019).
TEST(ScheduleTest, GPipe) {
  const Played small = played("gpipe", chain(4, 8));
  EXPECT_EQ(small.length, Seconds(11 * 3));
  EXPECT_THAT(small.kept, ElementsAre(8, 8, 8, 8));
  EXPECT_EQ(length("gpipe", chain(8, 16)), 23 * 3);
}

// As long as GPipe, but stage i keeps p - i (Narayanan et al., ICML 2021).
TEST(ScheduleTest, OneForwardOneBackward) {
  const Played all = played("1f1b", chain(4, 8));
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
  const Played all = played("1f1b", pipeline);
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
    const Played all = played("1f1b", pipeline);
    EXPECT_EQ(all.length, best) << i;
    for (int rank = 0; rank < 3; ++rank) EXPECT_LE(all.kept_bytes[rank], pipeline.room[rank]) << i;
  }
}

// m(f + b) + (p - 1)(f + b)/v, and (1 + (p - 1)/(pv)) times 1F1B's activations on rank 0 (Narayanan et al., SC 2021). A
// chunk takes 1/v of a stage.
TEST(ScheduleTest, Interleaved) {
  const auto chunks = [](int p, int m, int v) { return chain(p * v, m, 1.0 / v, 1.0 / v, 1.0 / v, p); };
  const Played two = played("interleaved-1f1b", chunks(4, 8, 2));
  EXPECT_NEAR(two.length.value, 28.5, 1e-9);
  EXPECT_THAT(two.kept, ElementsAre(11, 9, 7, 5));
  const Played four = played("interleaved-1f1b", chunks(4, 8, 4));
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
  const Played h1 = played("zb-h1", chain(4, 8));
  EXPECT_EQ(h1.length, Seconds(27));
  EXPECT_THAT(h1.kept, ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(h1.kept_bytes, ElementsAre(Bytes(4), Bytes(4), Bytes(4), Bytes(4)));  // until the weight gradient
  EXPECT_EQ(length("zb-h1", chain(8, 24)), 79);
  const Played h2 = played("zb-h2", chain(4, 8));
  EXPECT_EQ(h2.length, Seconds(27));
  EXPECT_THAT(h2.kept, ElementsAre(7, 5, 3, 1));
  EXPECT_THAT(h2.kept_bytes, ElementsAre(Bytes(7), Bytes(7), Bytes(7), Bytes(7)));
  for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(span(h2, rank), 24);
  const Played long_h2 = played("zb-h2", chain(8, 24));
  for (std::size_t rank = 0; rank < 8; ++rank) EXPECT_EQ(span(long_h2, rank), 72);
  EXPECT_EQ(length("zb-h1", chain(4, 8, 10, 12, 8)), 8 * 30 + 3 * 14);
  // GPT of 1.5 billion parameters on 8 stages with 24 micro-batches, as profiled by the authors (table 9), in ms.
  EXPECT_NEAR(length("1f1b", chain(8, 24, 18.522, 18.086, 9.337)), 1424.3, 0.1);
  EXPECT_NEAR(length("zb-h1", chain(8, 24, 18.522, 18.086, 9.337)), 1293.6, 0.1);
}

// No bubble on any rank, with as many activations as 1F1B: 2p chunks of half a stage.
TEST(ScheduleTest, ZeroBubbleV) {
  const Played all = played("zb-v", v_shape(4, 8));
  EXPECT_EQ(all.length, Seconds(51));
  EXPECT_THAT(all.kept, ElementsAre(8, 8, 8, 8));
  for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(span(all, rank), 48);
  const Played large = played("zb-v", v_shape(8, 24));
  for (std::size_t rank = 0; rank < 8; ++rank) EXPECT_EQ(span(large, rank), 144);
}

// 2N + D - 2 with equal passes; 5D - 4 for N = D when a backward pass takes two (Li, Hoefler, SC 2021). Joining units
// leaves bubbles inside.
TEST(ScheduleTest, Chimera) {
  const Played equal = played("chimera", chain(4, 4, 1, 0.5, 0.5));
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

// Two branches of two stages and a joint head: (m + d - 1)(f + b) with d = 3 stages on the longest way, where a chain
// of five has (m + 4)(f + b) (Jeon et al., 2024).
TEST(ScheduleTest, GraphPipe) {
  Pipeline pipeline = chain(5, 8);
  pipeline.stages[0].next = {1};
  pipeline.stages[1].next = {4};
  pipeline.stages[2].next = {3};
  pipeline.stages[3].next = {4};
  const Played all = played("graphpipe", pipeline);
  EXPECT_EQ(all.length, Seconds(30));
  EXPECT_THAT(all.kept, ElementsAre(3, 2, 3, 2, 1));
  const Played line = played("1f1b", chain(5, 8));
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
  for (const char* name : {"1f1b", "zb-h1", "zb-h2", "chimera", "graphpipe"}) {
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
  const Pipeline pipeline = chain(2, 2);
  const auto refused = [&](const std::function<void(Schedule&)>& change) {
    Schedule schedule = made("1f1b", pipeline);
    change(schedule);
    return support::error_of([&] { check(schedule, pipeline); }, ErrorKind::kInternal);
  };
  EXPECT_THAT(refused([](Schedule& s) { s.ranks[1].pop_back(); }), HasSubstr("all passes of micro-batch 1"));
  EXPECT_THAT(refused([](Schedule& s) { s.ranks[1].push_back(s.ranks[1].back()); }), HasSubstr("stands twice"));
  EXPECT_THAT(refused([](Schedule& s) { std::swap(s.ranks[1][0], s.ranks[1][1]); }), HasSubstr("before what it needs"));
  // Stage 0 waits for micro-batch 0's gradient; stage 1, before it makes that, for micro-batch 1.
  EXPECT_THAT(
      refused([](Schedule& s) {
        s.ranks[0] = {{Pass::kForward, 0, 0}, {Pass::kBackward, 0, 0}, {Pass::kForward, 0, 1}, {Pass::kBackward, 0, 1}};
        s.ranks[1] = {{Pass::kForward, 1, 0}, {Pass::kForward, 1, 1}, {Pass::kBackward, 1, 0}, {Pass::kBackward, 1, 1}};
      }),
      HasSubstr("waits in a circle"));
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

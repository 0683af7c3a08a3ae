#include "simulator/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/simulator/hand_built.h"

namespace motley {
namespace {

using ::testing::ElementsAre;

class TraceTest : public ::testing::Test {
 protected:
  TraceTest() : h_(star({1, 1})) {
    const ValueId a = h_.value(0, "hidden", 4);
    h_.compute(0, h_.op({2}), {}, {a});
    h_.transfer(0, a, 1);
    result_ = h_.run();
    predicted_ = {"predicted", result_.events, result_.memory_samples};
  }
  std::string trace(const std::vector<Timeline>& timelines) const {
    return trace_json(h_.graph, h_.cluster, h_.deployment, timelines);
  }
  static std::vector<nlohmann::json> of_phase(const std::string& text, const std::string& phase) {
    std::vector<nlohmann::json> events;
    const nlohmann::json trace = nlohmann::json::parse(text);
    for (const nlohmann::json& event : trace["traceEvents"]) {
      if (event["ph"] == phase) events.push_back(event);
    }
    return events;
  }

  HandBuilt h_;
  SimulationResult result_;
  Timeline predicted_;
};

TEST_F(TraceTest, EveryInstructionIsASliceInMicroseconds) {
  const auto slices = of_phase(trace({predicted_}), "X");
  ASSERT_EQ(slices.size(), 3U);
  EXPECT_EQ(slices[0]["name"], "op0");
  EXPECT_EQ(slices[0]["dur"], 2e6);
  EXPECT_EQ(slices[2]["name"], "send hidden to n1/0");
  EXPECT_EQ(slices[2]["ts"], 2e6);  // 4 B at 1 B/s, once op0 has ended
  EXPECT_EQ(slices[2]["dur"], 4e6);
  EXPECT_EQ(slices[2]["args"]["bytes"], 4);
}

TEST_F(TraceTest, AnArrowJoinsASendWithItsReceive) {
  const std::string text = trace({predicted_});
  const auto tails = of_phase(text, "s"), heads = of_phase(text, "f");
  ASSERT_EQ(tails.size(), 1U);
  ASSERT_EQ(heads.size(), 1U);
  EXPECT_EQ(tails[0]["id"], heads[0]["id"]);
  EXPECT_NE(tails[0]["pid"], heads[0]["pid"]);
}

TEST_F(TraceTest, MemoryIsACounter) {
  const auto counters = of_phase(trace({predicted_}), "C");
  ASSERT_FALSE(counters.empty());
  EXPECT_EQ(counters.back()["args"]["bytes"], 4);
}

TEST_F(TraceTest, PredictedAndMeasuredStandSideBySide) {
  Timeline measured = predicted_;
  measured.label = "measured";
  std::vector<std::string> names;
  std::set<int> processes;
  for (const nlohmann::json& event : of_phase(trace({predicted_, measured}), "M")) {
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
    processes.insert(event["pid"].get<int>());
  }
  EXPECT_THAT(names, ElementsAre("predicted n0/0", "predicted n1/0", "measured n0/0", "measured n1/0"));
  EXPECT_EQ(processes.size(), 4U);
}

TEST_F(TraceTest, RefusesATimelineOfAnotherPlan) {
  predicted_.events.push_back({0, 17, Seconds(0), Seconds(1)});
  EXPECT_THROW(trace({predicted_}), Error);
}

}  // namespace
}  // namespace motley

#include "simulator/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "compiler/serialize.h"
#include "graph/serialize.h"
#include "tests/simulator/drawn.h"
#include "tests/simulator/hand_built.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

class TraceFileTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  std::string trace() const {
    return trace_json(
        drawn_.graph, drawn_.cluster, drawn_.deployment,
        {{"predicted", result_.events, result_.memory_samples}, {"measured", result_.events, {}, Seconds(0.125)}});
  }
  const Drawn drawn_{GetParam()};
  const SimulationResult result_ = drawn_.run();
};

TEST_P(TraceFileTest, ReadsBackWhatRanOnWhat) {
  const TraceFile file = parse_trace(trace(), "run.json");
  EXPECT_EQ(serialize(file.graph), serialize(drawn_.graph));
  EXPECT_EQ(serialize(file.deployment), serialize(drawn_.deployment));
  EXPECT_EQ(to_yaml(file.cluster), to_yaml(drawn_.cluster));
  ASSERT_EQ(file.timelines.size(), 2U);
  EXPECT_EQ(file.timelines[1].label, "measured");
  EXPECT_EQ(file.timelines[1].iteration, Seconds(0.125));
  for (const Timeline& timeline : file.timelines) {
    ASSERT_EQ(timeline.events.size(), result_.events.size());
    for (std::size_t i = 0; i < result_.events.size(); ++i) {
      EXPECT_EQ(timeline.events[i].device, result_.events[i].device);
      EXPECT_EQ(timeline.events[i].instruction, result_.events[i].instruction);
      EXPECT_NEAR(timeline.events[i].start.value, result_.events[i].start.value, 0.51e-9);
      EXPECT_NEAR(timeline.events[i].end.value, result_.events[i].end.value, 0.51e-9);
    }
  }
  EXPECT_EQ(
      trace_json(file.graph, file.cluster, file.deployment, {file.timelines[1]}),
      trace_json(drawn_.graph, drawn_.cluster, drawn_.deployment, {{"measured", result_.events, {}, Seconds(0.125)}}));
}

INSTANTIATE_TEST_SUITE_P(Random, TraceFileTest, ::testing::Range(0U, 5U));

TEST_F(TraceTest, RefusesWhatIsNoTraceOfItsOwn) {
  const auto message = [](const std::string& text) {
    return support::error_of([&] { parse_trace(text, "run.json"); }, ErrorKind::kInvalidInput);
  };
  EXPECT_THAT(message(R"({"traceEvents": []})"), HasSubstr("run.json: no motley trace"));
  EXPECT_THAT(message("{\"traceEv"), HasSubstr("run.json: "));
  nlohmann::json json = nlohmann::json::parse(trace({predicted_}));
  json["motley"]["deployment"] = "AAAA";
  EXPECT_THAT(message(json.dump()), HasSubstr("run.json: "));
  json["motley"]["version"] = 99;
  EXPECT_THAT(message(json.dump()), HasSubstr("version 99"));
}

}  // namespace
}  // namespace motley

#include "cli/trained.h"

#include <gtest/gtest.h>

namespace motley {
namespace {

class TrainedTest : public testing::Test {
 protected:
  void iteration(double seconds, double loss) {
    proto::JobEvent event;
    event.mutable_metrics()->set_iteration(iterations_++);
    event.mutable_metrics()->set_seconds(seconds);
    event.mutable_metrics()->set_loss(loss);
    trained_.add(event);
  }
  Trained trained_;
  std::int64_t iterations_ = 0;
};

TEST_F(TrainedTest, MedianLeavesTwoWarmUpIterationsOut) {
  for (const double seconds : {9.0, 8.0, 1.0, 3.0, 2.0}) iteration(seconds, 0);
  EXPECT_EQ(trained_.measured_seconds(), 2.0);  // of 1, 2, 3
}

TEST_F(TrainedTest, FewIterationsAllCount) {
  EXPECT_EQ(trained_.measured_seconds(), 0);
  for (const double seconds : {9.0, 1.0, 2.0}) iteration(seconds, 0);
  EXPECT_EQ(trained_.measured_seconds(), 2.0);
}

TEST_F(TrainedTest, JsonHasPredictionAndMeasurement) {
  proto::JobEvent event;
  proto::PlanFound& plan = *event.mutable_plan();
  plan.mutable_judged()->set_name("cp-ar");
  plan.mutable_judged()->set_iteration_seconds(0.5);
  auto& memory = *plan.mutable_judged()->add_memory();
  memory.set_device("big/0");
  memory.set_peak_bytes(100);
  plan.set_lower_bound_seconds(0.25);
  trained_.add(event);
  iteration(0.625, 3.5);
  const nlohmann::json json = trained_.to_json(Graph{});
  EXPECT_EQ(json["strategy"], "cp-ar");
  EXPECT_EQ(json["predicted_seconds"], 0.5);
  EXPECT_EQ(json["measured_seconds"], 0.625);
  EXPECT_EQ(json["lower_bound_seconds"], 0.25);
  EXPECT_EQ(json["losses"], nlohmann::json({3.5}));
  EXPECT_EQ(json["predicted_peak_memory_bytes"]["big/0"], 100);
  // 0.5 against 0.625 is 20 % too little; alone, it is compared with itself.
  const std::string table = run_table({trained_});
  EXPECT_NE(table.find("-20.0 %"), std::string::npos) << table;
  EXPECT_NE(table.find("1.00"), std::string::npos) << table;
}

TEST_F(TrainedTest, MemoryIsToldPredictedAgainstMeasured) {
  proto::JobEvent plan;
  plan.mutable_plan()->mutable_judged()->set_name("cp-ar");
  for (const char* device : {"big/0", "small/0"}) {
    auto& memory = *plan.mutable_plan()->mutable_judged()->add_memory();
    memory.set_device(device);
    memory.set_peak_bytes(900 << 20);
    memory.set_capacity_bytes(std::int64_t{2} << 30);
  }
  trained_.add(plan);
  proto::JobEvent measured;
  measured.mutable_worker()->set_device("big/0");
  measured.mutable_worker()->mutable_memory()->set_device_peak(1000 << 20);
  trained_.add(measured);
  // 900 of 1000 MiB is 10 % too little.
  EXPECT_EQ(run_memory_table({trained_}),
            "strategy  peak memory of  predicted  measured    error        of\n"
            "cp-ar     big/0             900 MiB  1000 MiB  -10.0 %  2.00 GiB\n"
            "cp-ar     small/0           900 MiB         -        -  2.00 GiB\n");
}

}  // namespace
}  // namespace motley

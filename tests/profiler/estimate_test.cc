#include "profiler/estimate.h"

#include <gtest/gtest.h>

#include "tests/profiler/test_graph.h"

namespace motley {
namespace {

// 1 GFLOP/s, 4 GB/s, a launch of 1 ms: efficiencies of 0.75 and 0.8 make that 0.75 GFLOP/s and 3.2 GB/s.
DeviceKind slow_device() {
  DeviceKind kind;
  kind.fp32 = FlopsPerSecond(1e9);
  kind.bf16 = FlopsPerSecond(10e9);
  kind.memory_bandwidth = BytesPerSecond(4e9);
  kind.launch = Seconds(1e-3);
  return kind;
}

class EstimateTest : public testing::Test {
 protected:
  OpId op(const std::string& name) const {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (graph_.ops[i].name == name) return static_cast<OpId>(i);
    }
    throw std::out_of_range(name);
  }
  double seconds(const std::string& name, std::int64_t batch) const {
    return roofline(graph_, op(name), slow_device(), batch).value;
  }

  Graph graph_ = make_mlp(2, 1000);
};

TEST_F(EstimateTest, ProductsAreBoundByArithmetic) {
  // 2 * 300 * 1000 * 1000 = 0.6 GFLOP; half a launch to fill the units; over 0.75.
  EXPECT_NEAR(seconds("layer1.mm", 300), 1e-3 + (0.6 + 0.5e-3) / 0.75, 1e-9);
}

TEST_F(EstimateTest, BackwardLaunchesTwice) {
  EXPECT_NEAR(seconds("layer1.mm.dx", 300), 2e-3 + (0.6 + 0.5e-3) / 0.75, 1e-9);
  EXPECT_NEAR(seconds("layer1.mm.dw", 300), 2e-3 + (0.6 + 0.5e-3) / 0.75, 1e-9);
}

TEST_F(EstimateTest, ElementwiseOpsAreBoundByMemory) {
  // relu reads and writes 1000 * 1000 * 4 bytes each: 8 MB at 3.2 GB/s; its 1 MFLOP takes 1.3 ms.
  EXPECT_NEAR(seconds("layer1.relu", 1000), 1e-3 + 8e6 / 3.2e9, 1e-9);
}

TEST_F(EstimateTest, TensorCoresServeProductsOfTheirDtype) {
  for (Tensor& tensor : graph_.tensors) tensor.dtype = DType::kBFloat16;
  EXPECT_NEAR(seconds("layer1.mm", 300), 1e-3 + (0.06 + 0.5e-3) / 0.75, 1e-9);
}

TEST_F(EstimateTest, ViewsCostHalfALaunch) {
  graph_.ops[op("layer1.relu")].is_view = true;
  EXPECT_DOUBLE_EQ(seconds("layer1.relu", 1000), 0.5e-3);
}

TEST_F(EstimateTest, CalibrationIsTheMedianOfItsFamily) {
  Calibration calibration;
  EXPECT_DOUBLE_EQ(calibration.ratio(1), 1);
  for (const double measured : {1.0, 2.0, 9.0}) calibration.add(1, Seconds(measured), Seconds(1));
  calibration.add(2, Seconds(4), Seconds(1));
  EXPECT_DOUBLE_EQ(calibration.ratio(1), 2);
  EXPECT_DOUBLE_EQ(calibration.ratio(2), 4);
  EXPECT_DOUBLE_EQ(calibration.ratio(3), 3) << "the median of 1, 2, 4, 9";
}

TEST_F(EstimateTest, CalibratedEstimatesAreTold) {
  Calibration calibration;
  calibration.add(family_of(graph_, op("layer0.relu")), Seconds(2), Seconds(1));
  const OpCost cost = estimate(graph_, op("layer1.relu"), slow_device(), 1000, calibration);
  EXPECT_NEAR(cost.time.value, 2 * (1e-3 + 8e6 / 3.2e9), 1e-9);
  EXPECT_NEAR(cost.spread.value, cost.time.value / 3, 1e-12);
  EXPECT_FALSE(cost.measured);
}

}  // namespace
}  // namespace motley

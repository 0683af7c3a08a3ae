#include "profiler/catalogue.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace motley {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TEST(Catalogue, HasTheCardsPeopleHave) {
  for (const char* name :
       {"GTX-1080-Ti", "P100", "P100-12GB", "T4", "V100-16GB", "V100-32GB", "RTX-2080-Ti", "RTX-3090", "RTX-4090",
        "A10", "L4", "L40S", "A100-40GB", "A100-80GB", "H100", "H200", "B200", "cpu"}) {
    const auto kind = find_kind(name);
    ASSERT_TRUE(kind) << name;
    EXPECT_GT(kind->fp32.value, 0) << name;
    EXPECT_GT(kind->memory_bandwidth.value, 0) << name;
    EXPECT_FALSE(kind->source.empty()) << name;
  }
}

TEST(Catalogue, FiguresAreTheDataSheets) {
  const DeviceKind a100 = *find_kind("A100-80GB");
  EXPECT_DOUBLE_EQ(a100.peak(DType::kBFloat16).value, 312e12);
  EXPECT_DOUBLE_EQ(a100.peak(DType::kFloat32).value, 19.5e12);
  EXPECT_DOUBLE_EQ(a100.memory_bandwidth.value, 2039e9);
  EXPECT_EQ(a100.memory.value, 80 * kGiB);
  EXPECT_DOUBLE_EQ(a100.nvlink.value, 300e9);  // 600 GB/s both ways
}

TEST(Catalogue, DtypeWithoutUnitsRunsAtSinglePrecision) {
  EXPECT_DOUBLE_EQ(find_kind("V100-16GB")->peak(DType::kBFloat16).value, 15.7e12);
  EXPECT_DOUBLE_EQ(find_kind("T4")->peak(DType::kInt64).value, 8.1e12);
}

TEST(Catalogue, FactorSlowsADevice) {
  const DeviceKind half = *find_kind("T4@0.5");
  EXPECT_DOUBLE_EQ(half.fp32.value, 8.1e12 / 2);
  EXPECT_DOUBLE_EQ(half.launch.value, find_kind("T4")->launch.value * 2);
  EXPECT_EQ(half.memory.value, 16 * kGiB);
  EXPECT_EQ(join_kind({"cpu", 0.25}), "cpu@0.25");
  EXPECT_EQ(join_kind({"cpu", 1}), "cpu");
  for (const char* name : {"T4@0", "T4@1.5", "T4@half", "T4@", "T5@0.5"}) EXPECT_FALSE(find_kind(name)) << name;
}

TEST(Catalogue, NearMissesAreSuggested) {
  EXPECT_EQ(catalogue_defaults("v100 16gb").suggestion, "V100-16GB");
  EXPECT_EQ(catalogue_defaults("RTX3090").suggestion, "RTX-3090");
  EXPECT_EQ(catalogue_defaults("abacus").suggestion, "");
  EXPECT_EQ(catalogue_defaults("T4").memory.value, 16 * kGiB);
}

TEST(Catalogue, ReadsDriversNames) {
  EXPECT_EQ(kind_of_model("NVIDIA A100-SXM4-80GB", Bytes(79 * kGiB)), "A100-80GB");
  EXPECT_EQ(kind_of_model("NVIDIA A100-PCIE-40GB", Bytes(39 * kGiB)), "A100-40GB");
  EXPECT_EQ(kind_of_model("Tesla V100-SXM2-16GB", Bytes(16 * kGiB)), "V100-16GB");
  EXPECT_EQ(kind_of_model("Tesla P100-PCIE-12GB", Bytes(12 * kGiB)), "P100-12GB");
  EXPECT_EQ(kind_of_model("Tesla P100-PCIE-16GB", Bytes(16 * kGiB)), "P100");
  EXPECT_EQ(kind_of_model("NVIDIA A10", Bytes(22 * kGiB)), "A10");
  EXPECT_EQ(kind_of_model("NVIDIA L40S", Bytes(45 * kGiB)), "L40S");
  EXPECT_EQ(kind_of_model("NVIDIA GeForce GTX 1080 Ti", Bytes(11 * kGiB)), "GTX-1080-Ti");
  EXPECT_EQ(kind_of_model("NVIDIA GeForce RTX 3090 Ti", Bytes(24 * kGiB)), "NVIDIA-GeForce-RTX-3090-Ti");
  EXPECT_EQ(kind_of_model("NVIDIA H200", Bytes(140 * kGiB)), "H200");
}

TEST(Catalogue, ServesTheClusterFile) {
  const Cluster cluster =
      parse_cluster("nodes: [{name: a, devices: {kind: V100-16GB, count: 2}}]", "c", catalogue_defaults);
  EXPECT_DOUBLE_EQ(cluster.bandwidth(0, 1).value, 150e9);
  EXPECT_THROW(parse_cluster("nodes: [{name: a, devices: {kind: V100}}]", "c", catalogue_defaults), Error);
}

}  // namespace
}  // namespace motley

#include "agent/data.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A model of one input "x" of shape (B, 2) and one "y" of shape (B), int64.
class DatasetTest : public testing::Test {
 protected:
  DatasetTest() {
    graph_.tensors = {
        {.name = "x", .dtype = DType::kFloat32, .shape = {BatchExpr::batch(), 2}, .role = TensorRole::kInput},
        {.name = "y", .dtype = DType::kInt64, .shape = {BatchExpr::batch()}, .role = TensorRole::kInput}};
    graph_.inputs = {0, 1};
  }
  // x[i] = (i, i + 0.5), y[i] = i, for 10 samples, then `more`.
  void save(const std::string& more = "") {
    run_python(R"(import sys, os, numpy as np
os.chdir(sys.argv[1])
x = np.stack([np.arange(10), np.arange(10) + 0.5], 1).astype(np.float32)
y = np.arange(10)
np.save("x.npy", x)
np.save("y.npy", y)
)" + more,
               folder_.path().string());
  }
  Dataset open(std::int64_t batch, std::uint64_t seed = 1) { return Dataset(folder_.path(), graph_, batch, seed); }
  std::string error_of(std::int64_t batch) {
    return support::error_of([&] { open(batch); });
  }
  static std::vector<std::int64_t> labels(Dataset& data, std::int64_t iteration, std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> result(static_cast<std::size_t>(end - begin));
    data.read(1, iteration, begin, end, std::as_writable_bytes(std::span(result)));
    return result;
  }

  TemporaryFolder folder_;
  Graph graph_;
};

TEST_F(DatasetTest, InputsStayTogether) {
  save();
  Dataset data = open(4);
  std::array<float, 8> x{};
  data.read(0, 1, 0, 4, std::as_writable_bytes(std::span(x)));
  const auto y = labels(data, 1, 0, 4);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(x[2 * i], static_cast<float>(y[i]));
    EXPECT_EQ(x[2 * i + 1], static_cast<float>(y[i]) + 0.5F);
  }
}

TEST_F(DatasetTest, RangesOfABatchMakeTheBatch) {
  save();
  Dataset data = open(5);
  auto parts = labels(data, 3, 0, 2);
  const auto second = labels(data, 3, 2, 5);
  parts.insert(parts.end(), second.begin(), second.end());
  EXPECT_EQ(parts, labels(data, 3, 0, 5));
}

TEST_F(DatasetTest, AnEpochVisitsEachSampleOnceAndDropsTheRest) {
  save();
  Dataset data = open(3);  // 10 samples: three batches
  EXPECT_EQ(data.batches_per_epoch(), 3);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 3; ++i) {
    for (const std::int64_t label : labels(data, i, 0, 3)) seen.insert(label);
  }
  EXPECT_EQ(seen.size(), 9U);
  EXPECT_NE(labels(data, 0, 0, 3), labels(data, 3, 0, 3));  // the next epoch has another order
}

TEST_F(DatasetTest, TheOrderIsTheSeeds) {
  EXPECT_EQ(sample_order(100, 1, 2), sample_order(100, 1, 2));
  EXPECT_NE(sample_order(100, 1, 2), sample_order(100, 1, 3));
  EXPECT_NE(sample_order(100, 1, 2), sample_order(100, 2, 2));
  EXPECT_THAT(sample_order(1, 1, 0), ElementsAre(0));
}

TEST_F(DatasetTest, SaysWhatDoesNotFit) {
  EXPECT_THAT(error_of(1), HasSubstr("has no array for the model's input 'x': put x.npy or x.safetensors there"));
  save();
  EXPECT_THAT(error_of(11), HasSubstr("has 10 samples, fewer than one batch of 11"));
  save("np.save(\"y.npy\", y[:9])");
  EXPECT_THAT(error_of(2), HasSubstr("input 'x' has 10 samples, input 'y' has 9"));
  save("np.save(\"y.npy\", y.astype(np.int32))");
  EXPECT_THAT(error_of(2), HasSubstr("y.npy holds i32, the model's input 'y' is i64"));
  save("np.save(\"x.npy\", x[:, :1])");
  EXPECT_THAT(error_of(2), HasSubstr("x.npy has shape (10, 1), the model's input 'x' needs (B, 2)"));
}

TEST_F(DatasetTest, SaysWhatIsWrongWithAFile) {
  save("np.save(\"x.npy\", np.asfortranarray(x))");
  EXPECT_THAT(error_of(2), HasSubstr("Fortran order"));
  save("np.save(\"x.npy\", x.astype(\">f4\"))");
  EXPECT_THAT(error_of(2), HasSubstr("big endian"));
  save("open(\"x.npy\", \"r+b\").truncate(150)");
  EXPECT_THAT(error_of(2), HasSubstr("needs 80"));
  save("open(\"x.npy\", \"wb\").write(b\"PK\")");
  EXPECT_THAT(error_of(2), HasSubstr("x.npy: not a .npy file"));
}

TEST_F(DatasetTest, TakesVersion2AndSafetensors) {
  save(R"(
with open("x.npy", "wb") as f:
    np.lib.format.write_array(f, x, version=(2, 0))
os.remove("y.npy")
from safetensors.numpy import save_file
save_file({"y": y}, "y.safetensors"))");
  Dataset data = open(10);
  auto y = labels(data, 0, 0, 10);
  std::sort(y.begin(), y.end());
  EXPECT_THAT(y, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

// Pages of this process that are backed by files.
std::int64_t file_pages() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0, resident = 0, shared = 0;
  statm >> total >> resident >> shared;
  return shared;
}

TEST_F(DatasetTest, WhatWasReadDoesNotStayInTheProcess) {
  constexpr std::int64_t kSamples = 4 << 20;  // of 8 B in x and in y: 64 MiB
  run_python(R"(import sys, os, numpy as np
os.chdir(sys.argv[1])
np.save("x.npy", np.ones((4 << 20, 2), np.float32))
np.save("y.npy", np.ones(4 << 20, np.int64))
)",
             folder_.path().string());
  Dataset data = open(kSamples);
  const std::int64_t before = file_pages();
  labels(data, 0, 0, kSamples);
  EXPECT_LT(file_pages() - before, 256);  // of the 8,192 pages of y
}

TEST_F(DatasetTest, AFileThatBecomesShorterIsTold) {
  save();
  Dataset data = open(10);
  std::filesystem::resize_file(folder_ / "y.npy", 130);  // no data behind the header
  const std::string message = support::error_of([&] { labels(data, 0, 0, 10); }, ErrorKind::kUnavailable);
  EXPECT_THAT(message, HasSubstr("y.npy: cannot be read (it has become shorter)"));
}

}  // namespace
}  // namespace motley

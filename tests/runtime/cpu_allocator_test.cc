#include "runtime/cpu_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/control_group.h"
#include "runtime/executor.h"
#include "tests/runtime/one_op.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using testing::HasSubstr;

class CpuAllocatorTest : public testing::TestWithParam<std::int64_t> {
 protected:
  CpuAllocatorTest() : executor_(Executor::open("cpu", graph_)) {}
  TensorHandle tensor_of(std::int64_t bytes) {
    return executor_->from_host(make_host_tensor(DType::kUInt8, {bytes}).view());
  }

  Graph graph_;
  std::unique_ptr<Executor> executor_;
};

TEST_P(CpuAllocatorTest, CountsTheBytesThatWereAskedFor) {
  const Bytes before = executor_->memory().allocated;
  executor_->reset_peak_memory();
  TensorHandle tensor = tensor_of(GetParam());
  EXPECT_EQ(executor_->memory().allocated, before + Bytes(GetParam()));
  tensor.reset();
  EXPECT_EQ(executor_->memory().allocated, before);
  EXPECT_EQ(executor_->memory().peak, before + Bytes(GetParam()));
}

TEST_P(CpuAllocatorTest, HandsABlockOutAgain) {
  TensorHandle tensor = tensor_of(GetParam());
  const std::byte* block = data_pointer(tensor);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U);
  tensor.reset();
  EXPECT_EQ(data_pointer(tensor_of(GetParam())), block);
}

TEST_P(CpuAllocatorTest, LivingTensorsDoNotOverlap) {
  const TensorHandle a = tensor_of(GetParam());
  const TensorHandle b = tensor_of(GetParam());
  EXPECT_GE(std::abs(data_pointer(a) - data_pointer(b)), GetParam());
}

// What was given back makes room. The host's copy of a tensor counts as well.
TEST(CpuMemoryLimitTest, AllocationsBeyondItFail) {
  const Graph none;
  const std::unique_ptr<Executor> executor = Executor::open("cpu", none);
  const auto tensor_of = [&](std::int64_t bytes) {
    return executor->from_host(make_host_tensor(DType::kUInt8, {bytes}).view());
  };
  executor->release_cached_memory();
  limit_cpu_memory(process_memory().own + Bytes(16 << 20));
  EXPECT_THAT(support::error_of([&] { tensor_of(64 << 20); }, ErrorKind::kUnavailable), HasSubstr("memory"));
  limit_cpu_memory(Bytes(std::numeric_limits<std::int64_t>::max()));
  tensor_of(64 << 20);                                       // given back at once, and kept
  limit_cpu_memory(process_memory().own + Bytes(80 << 20));  // 65 for the copy, 65 more, 64 less
  EXPECT_NO_THROW(tensor_of(65 << 20));
  limit_cpu_memory(Bytes(std::numeric_limits<std::int64_t>::max()));
}

INSTANTIATE_TEST_SUITE_P(Sizes, CpuAllocatorTest,
                         testing::Values(1, 63, 64, 65, 127, 128, 129, 4096, 5000, (1 << 20) - 1, (3 << 20) + 1));

}  // namespace
}  // namespace motley

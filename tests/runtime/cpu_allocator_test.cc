#include <gtest/gtest.h>

#include "runtime/executor.h"
#include "tests/runtime/one_op.h"

namespace motley {
namespace {

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

INSTANTIATE_TEST_SUITE_P(Sizes, CpuAllocatorTest,
                         testing::Values(1, 63, 64, 65, 127, 128, 129, 4096, 5000, (1 << 20) - 1, (3 << 20) + 1));

}  // namespace
}  // namespace motley

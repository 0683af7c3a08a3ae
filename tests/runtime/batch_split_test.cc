#include <gmock/gmock.h>

#include "runtime/executor.h"
#include "tests/runtime/one_op.h"

namespace motley {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

class BatchSplitTest : public testing::Test {
 protected:
  BatchSplitTest() : executor_(Executor::open("cpu", graph_)) {}
  // 0, 1, 2, ... in a tensor of these sizes.
  TensorHandle count(const std::vector<std::int64_t>& sizes) {
    std::vector<float> values(static_cast<std::size_t>(element_count(sizes)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    return executor_->from_host(floats(sizes, values).view());
  }
  std::vector<float> values(const TensorHandle& tensor) { return values_of(*executor_, tensor); }

  Graph graph_;
  std::unique_ptr<Executor> executor_;
};

constexpr BatchLayout split(std::int32_t dim, std::int64_t outer = 1) {
  return {BatchLayout::Kind::kSplit, dim, outer};
}

TEST_F(BatchSplitTest, SamplesOfTheFirstDimension) {
  const TensorHandle cut = executor_->slice(count({3, 2}), split(0), 1, 3, 3);
  EXPECT_THAT(sizes_of(cut), ElementsAre(2, 2));
  EXPECT_THAT(values(cut), ElementsAre(2, 3, 4, 5));
}

TEST_F(BatchSplitTest, SamplesOfALaterDimension) {
  const TensorHandle cut = executor_->slice(count({2, 3}), split(1), 0, 2, 3);
  EXPECT_THAT(sizes_of(cut), ElementsAre(2, 2));
  EXPECT_THAT(values(cut), ElementsAre(0, 1, 3, 4));
}

TEST_F(BatchSplitTest, SamplesInTheMiddleOfADimension) {
  // outer 2, B 3, inner 2: element o * 6 + b * 2 + i. Sample 1 is 2, 3 and 8, 9.
  const TensorHandle cut = executor_->slice(count({12}), split(0, 2), 1, 2, 3);
  EXPECT_THAT(sizes_of(cut), ElementsAre(4));
  EXPECT_THAT(values(cut), ElementsAre(2, 3, 8, 9));
}

TEST_F(BatchSplitTest, ASliceIsATensorOfItsOwn) {
  const TensorHandle whole = count({2, 2});
  EXPECT_NE(data_pointer(executor_->slice(whole, split(0), 0, 1, 2)), data_pointer(whole));
}

class BatchSplitLayouts : public BatchSplitTest, public testing::WithParamInterface<BatchLayout> {};

TEST_P(BatchSplitLayouts, PartsOfUnequalSizesJoinToTheWhole) {
  const TensorHandle whole = count({10, 10, 10});  // B 5: outer * inner is 2
  const std::vector<TensorHandle> parts = {executor_->slice(whole, GetParam(), 0, 1, 5),
                                           executor_->slice(whole, GetParam(), 1, 5, 5)};
  const std::vector<std::int64_t> batches = {1, 4};
  const TensorHandle joined = executor_->concat(parts, GetParam(), batches);
  EXPECT_THAT(sizes_of(joined), ElementsAre(10, 10, 10));
  EXPECT_THAT(values(joined), ElementsAreArray(values(whole)));
}
INSTANTIATE_TEST_SUITE_P(Dimensions, BatchSplitLayouts,
                         testing::Values(split(0), split(1), split(2), split(0, 2), split(1, 2), split(2, 2)));

}  // namespace
}  // namespace motley

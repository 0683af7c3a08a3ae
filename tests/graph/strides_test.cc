#include "graph/strides.h"

#include <gtest/gtest.h>

namespace motley {
namespace {

const BatchExpr kB = BatchExpr::batch();

TEST(Strides, DenseOnesMultiplyUp) {
  EXPECT_EQ(dense_strides({kB, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_EQ(dense_strides({3, kB}), (Shape{kB, 1}));
  EXPECT_TRUE(is_dense({1, kB}, {77, 1}));  // a dimension of 1 has any stride
  EXPECT_FALSE(is_dense({kB, 3}, {1, kB}));
}

TEST(Strides, DenseTensorsAreViewedAsAnything) {
  EXPECT_TRUE(can_view({kB, 3, 4}, {12, 4, 1}, {kB * 12}));
  EXPECT_TRUE(can_view({kB * 3, 4}, {4, 1}, {kB, 3, 2, 2}));
}

TEST(Strides, TransposedDimensionsDoNotJoin) {
  EXPECT_FALSE(can_view({kB, 4, 3}, {12, 1, 4}, {kB, 12}));
  EXPECT_TRUE(can_view({kB, 4, 3}, {12, 1, 4}, {kB, 2, 2, 3}));  // 4 alone may be cut
}

TEST(Strides, ExpandedDimensionsJoinAmongThemselvesAlone) {
  EXPECT_TRUE(can_view({kB, 5, 2}, {0, 0, 1}, {kB * 5, 2}));
  EXPECT_FALSE(can_view({kB, 5, 2}, {0, 2, 1}, {kB * 5, 2}));
}

}  // namespace
}  // namespace motley

#include "runtime/dispatch_check.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/runtime/one_op.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using testing::HasSubstr;

const BatchExpr kBatch = BatchExpr::batch();

class DispatchCheckTest : public testing::Test {
 protected:
  // The message of the refusal, empty when the graph passes.
  static std::string refusal(const OneOp& op) {
    const std::unique_ptr<Executor> executor = Executor::open("cpu", op.graph);
    return support::error_of([&] { check_dispatch(op.graph, *executor); }, ErrorKind::kUnsupported);
  }
  // PyTorch has no derivative of the Hurwitz zeta function for its first argument.
  static OneOp zeta(TensorRole role) {
    return OneOp("aten::special_zeta.default", {{"self", InputRef{0}}, {"other", InputRef{1}}},
                 {{{kBatch}, role}, {{kBatch}, TensorRole::kInput}}, {{kBatch}});
  }
};

TEST_F(DispatchCheckTest, AnOrdinaryOpPasses) {
  EXPECT_EQ(refusal(OneOp("aten::relu.default", {{"self", InputRef{0}}}, {{{kBatch}}}, {{kBatch}})), "no error");
}

TEST_F(DispatchCheckTest, AnUnknownOperatorIsNamedWithItsLine) {
  const std::string message = refusal(OneOp("mine::op.default", {{"self", InputRef{0}}}, {{{kBatch}}}, {{kBatch}}));
  EXPECT_THAT(message, HasSubstr("mine::op.default"));
  EXPECT_THAT(message, HasSubstr("model.py:7 in forward"));
}

TEST_F(DispatchCheckTest, AnArgumentThatTheSchemaLacksIsNamed) {
  const OneOp op("aten::relu.default", {{"self", InputRef{0}}, {"slope", 0.1}}, {{{kBatch}}}, {{kBatch}});
  EXPECT_THAT(refusal(op), HasSubstr("'slope'"));
}

TEST_F(DispatchCheckTest, AnArgumentOfTheWrongTypeIsNamed) {
  const OneOp op("aten::relu.default", {{"self", std::string("x")}}, {{{kBatch}}}, {{kBatch}});
  EXPECT_THAT(refusal(op), HasSubstr("'self' of aten::relu.default should be Tensor"));
}

TEST_F(DispatchCheckTest, AMissingArgumentIsNamed) {
  const OneOp op("aten::softmax.int", {{"self", InputRef{0}}}, {{{kBatch}}}, {{kBatch}});
  EXPECT_THAT(refusal(op), HasSubstr("'dim' of aten::softmax.int is missing"));
}

TEST_F(DispatchCheckTest, AnOpWithoutABackwardIsRefused) {
  EXPECT_THAT(refusal(zeta(TensorRole::kActivation)),
              HasSubstr("the backward of op 'op' (model.py:7 in forward) on (Float[2]) does not exist"));
}

TEST_F(DispatchCheckTest, AnOpWithoutABackwardPassesWhereNoneIsAsked) {
  EXPECT_EQ(refusal(zeta(TensorRole::kInput)), "no error");
}

}  // namespace
}  // namespace motley

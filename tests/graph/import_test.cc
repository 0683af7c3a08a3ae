#include "graph/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/op_traits.h"
#include "tests/graph/programs.h"
#include "tests/support/error_of.h"

namespace motley {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class ImportTest : public ::testing::Test {
 protected:
  void import(const std::string& name) { graph_ = import_pt2(Pt2File::open(program(name))); }

  const Tensor& tensor(const std::string& name) const {
    for (const Tensor& tensor : graph_.tensors) {
      if (tensor.name == name) return tensor;
    }
    throw std::out_of_range(name);
  }

  const Op& op(const std::string& target, std::size_t which = 0) const {
    for (const Op& op : graph_.ops) {
      if (op.target == target && which-- == 0) return op;
    }
    throw std::out_of_range(target);
  }

  std::vector<std::string> targets() const {
    std::vector<std::string> names;
    for (const Op& op : graph_.ops) names.push_back(op.target);
    return names;
  }

  std::vector<std::string> names(const std::vector<TensorId>& ids) const {
    std::vector<std::string> names;
    for (TensorId id : ids) names.push_back(id == kNone ? "-" : graph_.tensors.at(static_cast<std::size_t>(id)).name);
    return names;
  }

  std::vector<std::string> state() const {
    std::vector<std::string> names;
    for (const Tensor& tensor : graph_.tensors) {
      if (tensor.producer == kNone && tensor.role != TensorRole::kInput) names.push_back(tensor.name);
    }
    return names;
  }

  Graph graph_;
};

TEST_F(ImportTest, ShapesAreExpressionsOfTheBatch) {
  import("classifier");
  EXPECT_EQ(tensor("x").shape, (Shape{BatchExpr::batch(), 2}));
  EXPECT_EQ(tensor("linear").shape, (Shape{BatchExpr::batch(), 3}));
  EXPECT_EQ(graph_.min_batch, 1);
  EXPECT_EQ(graph_.max_batch, 64);
}

TEST_F(ImportTest, NamesInputsStateAndLoss) {
  import("classifier");
  EXPECT_THAT(names(graph_.inputs), ElementsAre("x", "y"));
  EXPECT_EQ(tensor("y").dtype, DType::kInt64);
  EXPECT_THAT(state(), ElementsAre("linear.weight", "linear.bias"));
  EXPECT_EQ(names({graph_.loss}), (std::vector<std::string>{"cross_entropy_loss"}));
  EXPECT_EQ(graph_.name, "classifier");
}

TEST_F(ImportTest, ArgumentsStandByName) {
  import("classifier");
  const Op& linear = op("aten::linear.default");
  EXPECT_THAT(names(linear.inputs), ElementsAre("x", "linear.weight", "linear.bias"));
  EXPECT_EQ(linear.arguments[1].name, "weight");
  EXPECT_EQ(linear.arguments[1].value, ArgumentValue(InputRef{1}));
}

TEST_F(ImportTest, OpsRememberTheUsersLineAndModule) {
  import("classifier");
  EXPECT_THAT(op("aten::linear.default").source, HasSubstr("export_programs.py:"));
  EXPECT_THAT(op("aten::linear.default").source, HasSubstr(" in forward"));
  EXPECT_EQ(op("aten::linear.default").module, "linear");
}

TEST_F(ImportTest, StrippedProgramIsTheSameGraph) {
  import("stripped");
  const std::vector<std::string> stripped = targets();
  import("classifier");
  EXPECT_EQ(targets(), stripped);
}

TEST_F(ImportTest, TiedWeightsAreOneTensor) {
  import("stored");
  EXPECT_THAT(state(), UnorderedElementsAre("turned", "part", "linear.weight", "linear.bias", "halves", "constant"));
  EXPECT_EQ(op("aten::linear.default", 0).inputs[1], op("aten::linear.default", 2).inputs[1]);
}

TEST_F(ImportTest, InPlaceOpsBecomeFunctional) {
  import("in_place");
  for (const Op& op : graph_.ops) {
    EXPECT_FALSE(is_in_place(op.target)) << op.target;
    EXPECT_THAT(op.writes, IsEmpty());
  }
}

TEST_F(ImportTest, ViewsSeeWhatIsWrittenLater) {
  import("in_place");
  // before = h.view(-1) is summed after relu_ and h[:, 0] = 0, so it is a view of what the latter made.
  const Op& scatter = op("aten::select_scatter.default");
  const Op& view = op("aten::reshape.default");
  EXPECT_EQ(view.inputs, scatter.outputs);
  EXPECT_EQ(op("aten::sum.default").inputs, view.outputs);
  EXPECT_EQ(op("aten::mean.default").inputs, scatter.outputs);
}

TEST_F(ImportTest, TrainingNormWritesItsBuffers) {
  import("norm");
  EXPECT_THAT(names(op("aten::batch_norm.default").writes), ElementsAre("norm.running_mean", "norm.running_var"));
  const Op& count = op("aten::add_.Tensor");
  EXPECT_THAT(names(count.writes), ElementsAre("norm.num_batches_tracked"));
  EXPECT_THAT(names(count.outputs), ElementsAre("-"));
  EXPECT_EQ(*find_argument(op("aten::batch_norm.default").arguments, "cudnn_enabled"), ArgumentValue(true));
}

TEST_F(ImportTest, FunctionalNormWritesTheSame) {
  import("functional_norm");
  EXPECT_THAT(names(op("aten::batch_norm.default").writes), ElementsAre("norm.running_mean", "norm.running_var"));
  EXPECT_THAT(names(op("aten::copy_.default").writes), ElementsAre("norm.num_batches_tracked"));
}

TEST_F(ImportTest, WritingPartOfABufferWritesTheBuffer) {
  import("state");
  const Op& write = op("aten::copy_.default");
  EXPECT_THAT(names(write.writes), ElementsAre("table"));
  EXPECT_EQ(write.inputs[1], op("aten::select_scatter.default").outputs[0]);
  EXPECT_THAT(names(op("aten::sum.dim_IntList").inputs), ElementsAre("table"));
}

TEST_F(ImportTest, WhatChangesNothingIsGone) {
  import("needless");
  EXPECT_THAT(targets(), ElementsAre("aten::linear.default", "aten::sum.dim_IntList", "aten::mean.default"));
}

TEST_F(ImportTest, MarksRandomOps) {
  import("random");
  EXPECT_TRUE(op("aten::dropout.default").random);
  EXPECT_TRUE(op("aten::scaled_dot_product_attention.default").random);
  EXPECT_FALSE(op("aten::linear.default").random);
}

TEST_F(ImportTest, MarksViewsAndWhoseStorageTheyShare) {
  import("views");
  const Op& chunk = op("aten::chunk.default");
  EXPECT_TRUE(chunk.is_view);
  for (TensorId part : chunk.outputs) {
    EXPECT_THAT(names({graph_.tensors.at(static_cast<std::size_t>(part)).alias_of}), ElementsAre("linear"));
  }
  EXPECT_EQ(names({tensor("t_1").alias_of}), (std::vector<std::string>{"cat"}));  // a view of a view
}

TEST_F(ImportTest, ReshapeIsAViewWhenStridesAllow) {
  import("views");
  EXPECT_FALSE(op("aten::reshape.default", 0).is_view);  // of a transposed matrix
  EXPECT_TRUE(op("aten::reshape.default", 1).is_view);   // of the same turned back
}

TEST_F(ImportTest, GradientsFollowParametersUpToDetach) {
  import("no_gradient");
  EXPECT_TRUE(tensor("linear.weight").requires_gradient);
  EXPECT_FALSE(tensor("x").requires_gradient);
  EXPECT_TRUE(tensor("linear").requires_gradient);
  EXPECT_FALSE(tensor("exp").requires_gradient);  // under torch.no_grad
  EXPECT_FALSE(tensor("detach").requires_gradient);
}

TEST_F(ImportTest, SizesArePolynomials) {
  import("sizes");
  const BatchExpr b = BatchExpr::batch();
  EXPECT_EQ(tensor("linear").shape, (Shape{b * b, 3}));
  EXPECT_EQ(tensor("arange").shape, (Shape{b * 2 + 1}));
}

struct BadProgram {
  const char* name;
  ErrorKind kind;
  std::vector<const char*> says;
};

class BadImport : public ::testing::TestWithParam<BadProgram> {};

TEST_P(BadImport, ErrorNamesFileAndNodeAndWhatToDo) {
  const Pt2File file = Pt2File::open(program(GetParam().name));
  const std::string message = support::error_of([&] { import_pt2(file); }, GetParam().kind);
  EXPECT_THAT(message, HasSubstr(file.path().string()));
  for (const char* part : GetParam().says) EXPECT_THAT(message, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadImport,
    ::testing::Values(BadProgram{"fixed", ErrorKind::kInvalidInput, {"batch size is fixed", "torch.export.Dim"}},
                      BadProgram{"two_sizes", ErrorKind::kInvalidInput, {"2 symbolic sizes", "dimension 1 of x"}},
                      BadProgram{"per_sample", ErrorKind::kInvalidInput, {"mean, has 1 dimensions", "a scalar"}},
                      BadProgram{"counts", ErrorKind::kInvalidInput, {"argmax", "i64"}},
                      BadProgram{"halves", ErrorKind::kUnsupported, {"node ones", "export_programs.py:", "FloorDiv"}},
                      BadProgram{"branches", ErrorKind::kUnsupported, {"node cond", "control flow"}},
                      BadProgram{
                          "writes_parameter", ErrorKind::kUnsupported, {"node clamp_", "parameter linear.weight"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace motley

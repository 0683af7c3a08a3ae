#include "graph/batch_analysis.h"

#include <gtest/gtest.h>

#include "graph/loss_rewrite.h"
#include "tests/support/forward_graph.h"

namespace motley {
namespace {

using support::ForwardGraph;
using support::kB;
using Kind = BatchLayout::Kind;

BatchLayout split(std::int32_t dim, std::int64_t outer = 1) { return {Kind::kSplit, dim, outer}; }

class BatchAnalysisTest : public testing::Test, protected ForwardGraph {
 protected:
  void analyze() {
    graph.finish();
    analyze_batch(graph);
  }
  const Op& op_named(const std::string& name) {
    for (const Op& op : graph.ops) {
      if (op.name == name) return op;
    }
    return graph.ops.at(graph.ops.size());
  }
};

TEST_F(BatchAnalysisTest, FollowsTheBatchThroughViews) {
  const TensorId x = input("x", {kB, 3, 4});
  const TensorId flat = view("flat", "aten::view.default", {}, x, {BatchExpr::batch(12)});
  const TensorId turned =
      view("turned", "aten::transpose.int", {{"dim0", BatchExpr(0)}, {"dim1", BatchExpr(1)}}, x, {3, kB, 4});
  const TensorId inside = simple("inside", "aten::reshape.default", {turned}, {BatchExpr::batch(3), 4});
  const TensorId back = view("back", "aten::view.default", {}, inside, {3, kB, 4});
  analyze();
  EXPECT_EQ(layout(flat), split(0));
  EXPECT_EQ(layout(turned), split(1));
  EXPECT_EQ(layout(inside), split(0, 3));  // three runs over all samples, one after the other
  EXPECT_EQ(layout(back), split(1));
}

TEST_F(BatchAnalysisTest, CutsBlocksOfTheBatchApart) {
  const TensorId x = input("x", {kB, 4});
  const TensorId both =
      op("both", "aten::cat.default", {{"tensors", std::vector<InputRef>{{0}, {1}}}}, {x, x}, {BatchExpr::batch(2), 4});
  const auto halves = several("halves", "aten::chunk.default", {{"self", InputRef{0}}, {"chunks", BatchExpr(2)}},
                              {both}, {{{kB, 4}, DType::kFloat32}, {{kB, 4}, DType::kFloat32}});
  const TensorId one =
      op("one", "aten::select.int", {{"self", InputRef{0}}, {"dim", BatchExpr(0)}, {"index", BatchExpr(0)}}, {x}, {4});
  analyze();
  EXPECT_EQ(layout(both), split(0, 2));
  EXPECT_EQ(layout(halves[0]), split(0));
  EXPECT_EQ(layout(halves[1]), split(0));
  EXPECT_EQ(layout(one).kind, Kind::kMixed);  // the first sample is on one replica alone
}

TEST_F(BatchAnalysisTest, CutsBagsOfOneSizeApart) {
  const auto bag = [&](const std::string& name, std::int64_t size, std::int64_t step, bool weighted) {
    const TensorId table = parameter(name + ".table", {10, 8});
    const TensorId indices = input(name + ".indices", {BatchExpr::batch(size)}, DType::kInt64);
    const TensorId begins = op(name + ".begins", "aten::arange.start_step",
                               {{"start", BatchExpr(0)}, {"end", BatchExpr::batch(size)}, {"step", BatchExpr(step)}},
                               {}, {kB}, DType::kInt64);
    std::vector<Argument> arguments = {{"weight", InputRef{0}}, {"indices", InputRef{1}}, {"offsets", InputRef{2}}};
    std::vector<TensorId> inputs = {table, indices, begins};
    if (weighted) {
      arguments.push_back({"per_sample_weights", InputRef{3}});
      inputs.push_back(input(name + ".weights", {BatchExpr::batch(size)}));
    }
    return several(name, "aten::embedding_bag.padding_idx", arguments, inputs,
                   {{{kB, 8}, DType::kFloat32}, {{kB}, DType::kInt64}});
  };
  const auto pairs = bag("pairs", 2, 2, false);
  const auto weighted = bag("weighted", 3, 3, true);
  const auto uneven = bag("uneven", 3, 2, false);  // the last bags are longer
  analyze();
  EXPECT_EQ(layout(pairs[0]), split(0));
  EXPECT_EQ(layout(pairs[1]).kind, Kind::kMixed);
  EXPECT_EQ(layout(weighted[0]), split(0));
  EXPECT_EQ(layout(uneven[0]).kind, Kind::kMixed);
}

TEST_F(BatchAnalysisTest, WritesIntoSlices) {
  const TensorId x = input("x", {2, kB, 4});
  const TensorId y = input("y", {kB, 4});
  const std::vector<Argument> at = {
      {"self", InputRef{0}}, {"src", InputRef{1}}, {"dim", BatchExpr(0)}, {"index", BatchExpr(1)}};
  const TensorId written = op("written", "aten::select_scatter.default", at, {x, y}, {2, kB, 4});
  const TensorId first = op("first", "aten::select_scatter.default", at, {y, constant("c", {4})}, {kB, 4});
  analyze();
  EXPECT_EQ(layout(written), split(1));
  EXPECT_EQ(layout(first).kind, Kind::kMixed);  // the second sample is on one replica alone
}

TEST_F(BatchAnalysisTest, TellsSumsFromMeans) {
  const TensorId x = input("x", {kB, 4});
  const TensorId mean = simple("mean", "aten::mean.default", {x}, {});
  const TensorId sum = simple("sum", "aten::sum.default", {x}, {});
  const TensorId scaled =
      op("scaled", "aten::div.Tensor", {{"self", InputRef{0}}, {"other", BatchExpr::batch(4)}}, {sum}, {});
  const TensorId shifted =
      op("shifted", "aten::add.Tensor", {{"self", InputRef{0}}, {"other", BatchExpr(1)}}, {mean}, {});
  const TensorId total = simple("total", "aten::add.Tensor", {sum, sum}, {});
  analyze();
  EXPECT_EQ(layout(mean).kind, Kind::kPartialMean);
  EXPECT_EQ(layout(sum).kind, Kind::kPartialSum);
  EXPECT_EQ(layout(scaled).kind, Kind::kPartialMean);
  EXPECT_EQ(layout(shifted).kind, Kind::kPartialMean);
  EXPECT_EQ(layout(total).kind, Kind::kPartialSum);
}

TEST_F(BatchAnalysisTest, CompletesPartialsBeforeNonLinearUse) {
  const TensorId x = input("x", {kB, 4});
  const TensorId mean =
      op("mean", "aten::mean.dim", {{"self", InputRef{0}}, {"dim", std::vector<BatchExpr>{0}}}, {x}, {4});
  const TensorId centred = simple("centred", "aten::sub.Tensor", {x, mean}, {kB, 4});
  const TensorId root = simple("root", "aten::sqrt.default", {mean}, {4});
  const TensorId product = simple("product", "aten::mul.Tensor", {mean, mean}, {4});
  analyze();
  EXPECT_EQ(layout(centred), split(0));
  EXPECT_EQ(op_named("centred").completes, std::vector<std::int32_t>{1});
  EXPECT_EQ(layout(root).kind, Kind::kIndependent);
  EXPECT_EQ(op_named("root").completes, std::vector<std::int32_t>{0});
  EXPECT_EQ(layout(product).kind, Kind::kPartialMean);  // whole times partial
  EXPECT_EQ(op_named("product").completes, std::vector<std::int32_t>{1});
}

TEST_F(BatchAnalysisTest, SumsOverTheBatchInProducts) {
  const TensorId x = input("x", {kB, 4});
  const TensorId y = input("y", {kB, 5});
  const TensorId turned = view("turned", "aten::t.default", {}, x, {4, kB});
  const TensorId gram =
      op("gram", "aten::mm.default", {{"self", InputRef{0}}, {"mat2", InputRef{1}}}, {turned, y}, {4, 5});
  const TensorId pairs =
      op("pairs", "aten::mm.default", {{"self", InputRef{0}}, {"mat2", InputRef{1}}}, {x, turned}, {kB, kB});
  analyze();
  EXPECT_EQ(layout(gram).kind, Kind::kPartialSum);
  EXPECT_EQ(layout(pairs).kind, Kind::kMixed);  // every sample with every other
}

TEST_F(BatchAnalysisTest, IndexesSamplesByTheirCount) {
  const TensorId x = input("x", {kB, 7, 4});
  const TensorId last = input("last", {kB}, DType::kInt64);
  const TensorId count = op("count", "aten::arange.default", {{"end", kB}}, {}, {kB}, DType::kInt64);
  const TensorId rows =
      op("rows", "aten::index.Tensor", {{"self", InputRef{0}}, {"indices", std::vector<InputRef>{{1}, {2}}}},
         {x, count, last}, {kB, 4});
  const TensorId shuffled = op("shuffled", "aten::index.Tensor",
                               {{"self", InputRef{0}}, {"indices", std::vector<InputRef>{{1}}}}, {x, last}, {kB, 7, 4});
  const TensorId value = simple("value", "aten::mul.Tensor", {count, last}, {kB}, DType::kInt64);
  analyze();
  EXPECT_EQ(layout(rows), split(0));
  EXPECT_EQ(layout(count).kind, Kind::kMixed);     // a replica counts from 0
  EXPECT_EQ(layout(shuffled).kind, Kind::kMixed);  // names samples of other replicas
  EXPECT_EQ(layout(value).kind, Kind::kMixed);
}

// Mixture of experts: rows sorted by expert, and put back by the inverse order.
TEST_F(BatchAnalysisTest, RowsPutBackAfterSortingAreSplitAgain) {
  const BatchExpr rows = BatchExpr::batch(6);
  const TensorId x = input("x", {rows, 4});
  const TensorId expert = input("expert", {rows}, DType::kInt64);
  const auto sorted = several("sort", "aten::sort.default", {{"self", InputRef{0}}}, {expert},
                              {{{rows}, DType::kInt64}, {{rows}, DType::kInt64}});
  const std::vector<Argument> by_row = {{"self", InputRef{0}}, {"indices", std::vector<InputRef>{{1}}}};
  const TensorId moved = op("moved", "aten::index.Tensor", by_row, {x, sorted[1]}, {rows, 4});
  const TensorId work = simple("work", "aten::relu.default", {moved}, {rows, 4});
  const TensorId count = op("count", "aten::arange.default", {{"end", rows}}, {}, {rows}, DType::kInt64);
  const TensorId empty = simple("empty", "aten::empty_like.default", {sorted[1]}, {rows}, DType::kInt64);
  const TensorId inverse = op("inverse", "aten::index_put.default",
                              {{"self", InputRef{0}}, {"indices", std::vector<InputRef>{{1}}}, {"values", InputRef{2}}},
                              {empty, sorted[1], count}, {rows}, DType::kInt64);
  const TensorId back = op("back", "aten::index.Tensor", by_row, {work, inverse}, {rows, 4});
  const TensorId again = op("again", "aten::index.Tensor", by_row, {x, inverse}, {rows, 4});
  analyze();
  EXPECT_EQ(layout(moved).kind, Kind::kMixed);
  EXPECT_EQ(layout(work).kind, Kind::kMixed);
  EXPECT_EQ(layout(back), split(0));
  EXPECT_EQ(layout(again).kind, Kind::kMixed);  // the inverse of an order that x is not in
}

TEST_F(BatchAnalysisTest, MakesMeansOverTargetsExact) {
  const TensorId x = input("x", {kB, 4});
  const TensorId y = input("y", {kB}, DType::kInt64);
  const TensorId loss =
      op("ce", "aten::cross_entropy_loss.default", {{"self", InputRef{0}}, {"target", InputRef{1}}}, {x, y}, {});
  graph.loss = loss;
  graph.finish();
  rewrite_mean_losses(graph);
  analyze_batch(graph);
  EXPECT_EQ(layout(loss).kind, Kind::kPartialSum);
  EXPECT_EQ(graph.ops[graph.tensors[loss].producer].name, "ce.mean");
  EXPECT_EQ(op_named("ce.mean").completes, std::vector<std::int32_t>{1});
  EXPECT_EQ(graph.tensors[op_named("ce.mean").inputs[1]].name, "ce.count");
}

TEST_F(BatchAnalysisTest, WeighsTargetsByClass) {
  const TensorId x = input("x", {kB, 4});
  const TensorId y = input("y", {kB}, DType::kInt64);
  const TensorId weight = constant("weight", {4});
  graph.loss = op("nll", "aten::nll_loss_nd.default",
                  {{"self", InputRef{0}}, {"target", InputRef{1}}, {"weight", InputRef{2}}}, {x, y, weight}, {});
  graph.finish();
  rewrite_mean_losses(graph);
  analyze_batch(graph);
  EXPECT_EQ(layout(graph.loss).kind, Kind::kPartialSum);
  EXPECT_EQ(op_named("nll.weights").target, "aten::take.default");
  EXPECT_EQ(op_named("nll").arguments.back().name, "reduction");
}

TEST_F(BatchAnalysisTest, DoesNotGuessAboutUnknownOps) {
  const TensorId x = input("x", {kB, 4});
  const TensorId turned = view("turned", "aten::t.default", {}, x, {4, kB});
  const TensorId a = op("a", "custom::layer.default", {{"x", InputRef{0}}}, {x}, {kB, 9});
  const TensorId b = op("b", "custom::layer.default", {{"x", InputRef{0}}}, {turned}, {4, kB});
  analyze();
  EXPECT_EQ(layout(a), split(0));
  EXPECT_EQ(layout(b).kind, Kind::kMixed);
}

}  // namespace
}  // namespace motley

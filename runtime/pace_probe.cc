#include "runtime/pace_probe.h"

#include "base/statistics.h"

namespace motley {
namespace {

constexpr std::int64_t kFactor = 128;
constexpr std::int64_t kRows = 256;
constexpr int kRepeats = 5;
enum : TensorId { kFactorTensor, kProductTensor, kRowsTensor, kPassTensor };
enum : OpId { kProduct, kPass };

Tensor square(const char* name, std::int64_t size, OpId producer) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = {size, size};
  tensor.producer = producer;
  return tensor;
}

Graph two_ops() {
  Graph graph;
  graph.tensors = {square("factor", kFactor, kNone), square("product", kFactor, kProduct), square("rows", kRows, kNone),
                   square("pass", kRows, kPass)};
  graph.ops = {{.name = "product",
                .target = "aten::mm.default",
                .arguments = {{"self", InputRef{0}}, {"mat2", InputRef{1}}},
                .inputs = {kFactorTensor, kFactorTensor},
                .outputs = {kProductTensor}},
               {.name = "pass",
                .target = "aten::_softmax.default",
                .arguments = {{"self", InputRef{0}}, {"dim", BatchExpr(1)}, {"half_to_float", false}},
                .inputs = {kRowsTensor},
                .outputs = {kPassTensor}}};
  graph.finish();
  return graph;
}

}  // namespace

PaceProbe::PaceProbe(const std::string& device, int threads)
    : graph_(two_ops()),
      executor_(Executor::open(device, graph_, {threads, 0})),
      stopwatch_(Stopwatch::make(*executor_, threads)),
      factor_(executor_->fill(kFactorTensor, 1, 1e-3)),
      rows_(executor_->fill(kRowsTensor, 1, 1e-3)) {}

Pace PaceProbe::measure() { return {time(kProduct, {factor_, factor_}), time(kPass, {rows_})}; }

Seconds PaceProbe::time(OpId op, const std::vector<TensorHandle>& inputs) {
  executor_->run(op, 1, inputs);  // whatever ran before has taken the caches
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    stopwatch_->start();
    executor_->run(op, 1, inputs);
    seconds.push_back(stopwatch_->stop().value);
  }
  return Seconds(median(seconds));
}

}  // namespace motley

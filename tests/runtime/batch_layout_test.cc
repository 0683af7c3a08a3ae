// What graph/batch_analysis.h and graph/autodiff.h claim, in numbers: a model's training graph runs on a whole batch
// and on two replicas that share it unequally, and every tensor of the whole is put together from the replicas' as its
// layout says, gradients of parameters at the end.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "graph/pt2_file.h"
#include "graph/training_graph.h"
#include "runtime/executor.h"

namespace motley {
namespace {

using Kind = BatchLayout::Kind;

struct Case {
  const char* model;
  std::vector<std::int64_t> shares;
  // Batch norm takes its statistics from the replica's samples; with the same samples on both they are the whole's.
  bool same_samples;
};

class BatchLayoutTest : public testing::TestWithParam<Case> {
 protected:
  BatchLayoutTest()
      : path_(std::string(std::getenv("MOTLEY_TEST_MODELS")) + "/" + GetParam().model + ".pt2"),
        graph_(load_training_graph(path_, {})),
        executor_(Executor::open("cpu", graph_)),
        values_(3, std::vector<TensorHandle>(graph_.tensors.size())) {
    batches_ = {0};
    for (std::int64_t share : GetParam().shares) {
      batches_.push_back(share);
      batches_[0] += share;
    }
  }

  // Runs 0 is the whole batch; 1 and 2 are the replicas.
  void run() {
    load_state();
    make_inputs();
    seed();
    for (std::size_t id = 0; id < graph_.ops.size() && !HasFailure(); ++id) {
      if (graph_.ops[id].kind == OpKind::kUpdate) break;
      run_op(static_cast<OpId>(id));
    }
  }

 private:
  void load_state() {
    const Pt2File file = Pt2File::open(path_);
    for (std::size_t id = 0; id < graph_.tensors.size(); ++id) {
      const Tensor& tensor = graph_.tensors[id];
      const bool state = tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kBuffer ||
                         tensor.role == TensorRole::kConstant;
      if (!state) continue;
      HostTensor host = make_host_tensor(tensor.dtype, sizes(id, 1));
      const std::string bytes = file.read(tensor.name);
      ASSERT_EQ(bytes.size(), host.bytes.size()) << tensor.name;
      std::transform(bytes.begin(), bytes.end(), host.bytes.begin(), [](char each) { return std::byte(each); });
      for (auto& run : values_) run[id] = executor_->from_host(host.view());
    }
  }

  std::vector<std::int64_t> sizes(std::size_t id, std::int64_t batch) const {
    std::vector<std::int64_t> result;
    for (const BatchExpr& size : graph_.tensors[id].shape) result.push_back(size.at(batch));
    return result;
  }

  // Class and token numbers below 10, some of the labels ignored; other data from a normal distribution.
  void make_inputs() {
    std::mt19937 random(7);
    for (TensorId id : graph_.inputs) {
      const Tensor& tensor = graph_.tensors[id];
      HostTensor host = make_host_tensor(tensor.dtype, sizes(id, batches_[0]));
      if (tensor.dtype == DType::kInt64) {
        for (std::int64_t& value : elements<std::int64_t>(host)) {
          value = static_cast<std::int64_t>(random() % 10);
          if (tensor.name == "labels" && host.sizes.size() > 1 && value < 2) value = -100;
        }
      } else {
        std::normal_distribution<float> normal;
        for (float& value : elements<float>(host)) value = normal(random);
      }
      if (GetParam().same_samples) {
        const std::size_t half = host.bytes.size() / 2;
        std::copy_n(host.bytes.begin(), half, host.bytes.begin() + static_cast<std::ptrdiff_t>(half));
      }
      values_[0][id] = executor_->from_host(host.view());
      std::int64_t begin = 0;
      for (std::size_t replica = 1; replica < batches_.size(); ++replica) {
        const std::int64_t end = begin + batches_[replica];
        values_[replica][id] = executor_->slice(values_[0][id], tensor.layout, begin, end, batches_[0]);
        begin = end;
      }
    }
  }

  void seed() {
    for (std::size_t id = 0; id < graph_.tensors.size(); ++id) {
      const Tensor& tensor = graph_.tensors[id];
      if (tensor.role != TensorRole::kGradient || tensor.producer != kNone) continue;
      const bool mean = graph_.tensors[graph_.loss].layout.kind == Kind::kPartialMean;
      for (std::size_t run = 0; run < batches_.size(); ++run) {
        const double share = static_cast<double>(batches_[run]) / static_cast<double>(batches_[0]);
        values_[run][id] = executor_->fill(static_cast<TensorId>(id), batches_[run], mean ? share : 1);
      }
    }
  }

  // The whole tensor as the replicas' parts give it; null where no layout says how.
  TensorHandle joined(TensorId id) {
    const BatchLayout& layout = graph_.tensors[id].layout;
    const std::vector<TensorHandle> parts = {values_[1][id], values_[2][id]};
    switch (layout.kind) {
      case Kind::kSplit:
        return executor_->concat(parts, layout, std::span(batches_).subspan(1));
      case Kind::kIndependent:
        return parts[1];
      case Kind::kPartialSum:
        return executor_->sum(parts);
      case Kind::kPartialMean: {
        std::vector<TensorHandle> weighted;
        for (std::size_t i = 0; i < parts.size(); ++i) {
          const TensorHandle copy = executor_->sum({parts[i], executor_->fill(id, batches_[i + 1], 0)});
          executor_->scale_in_place(copy, static_cast<double>(batches_[i + 1]) / static_cast<double>(batches_[0]));
          weighted.push_back(copy);
        }
        return executor_->sum(weighted);
      }
      case Kind::kMixed:
        return nullptr;
    }
    return nullptr;
  }

  void run_op(OpId id) {
    const Op& op = graph_.ops[id];
    for (std::size_t run = 0; run < batches_.size(); ++run) {
      std::vector<TensorHandle> inputs;
      for (std::size_t place = 0; place < op.inputs.size(); ++place) {
        const bool completed = std::find(op.completes.begin(), op.completes.end(), place) != op.completes.end();
        inputs.push_back(completed && run > 0 ? joined(op.inputs[place]) : values_[run][op.inputs[place]]);
      }
      const auto outputs = executor_->run(id, batches_[run], inputs, {.micro_batch = static_cast<std::int32_t>(run)});
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (op.outputs[i] != kNone) values_[run][op.outputs[i]] = outputs[i];
      }
    }
    if (op.target.starts_with("aten::empty")) return;
    for (TensorId output : op.outputs) {
      if (output != kNone) compare(op, output);
    }
  }

  void compare(const Op& op, TensorId id) {
    const TensorHandle whole = joined(id);
    if (whole == nullptr) return;
    const std::vector<double> expected = numbers(values_[0][id]);
    const std::vector<double> actual = numbers(whole);
    ASSERT_EQ(expected.size(), actual.size()) << op.name;
    double largest = 0;
    double difference = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == actual[i]) continue;  // infinities of masks
      largest = std::max(largest, std::abs(expected[i]));
      difference = std::max(difference, std::abs(expected[i] - actual[i]));
    }
    EXPECT_LE(difference, 1e-3 * largest + 1e-5) << op.name << " " << op.target << ": " << graph_.tensors[id].name;
    ++compared_;
  }

  std::vector<double> numbers(const TensorHandle& tensor) {
    HostTensor host = executor_->to_host(tensor);
    std::vector<double> result;
    const auto take = [&](auto span) { result.assign(span.begin(), span.end()); };
    switch (host.dtype) {
      case DType::kFloat32:
        take(elements<float>(host));
        break;
      case DType::kInt64:
        take(elements<std::int64_t>(host));
        break;
      case DType::kInt32:
        take(elements<std::int32_t>(host));
        break;
      case DType::kBool:
        take(elements<std::uint8_t>(host));
        break;
      default:
        ADD_FAILURE() << to_string(host.dtype);
    }
    return result;
  }

  std::string path_;
  Graph graph_;
  std::unique_ptr<Executor> executor_;
  std::vector<std::int64_t> batches_;
  std::vector<std::vector<TensorHandle>> values_;  // by run and tensor

 protected:
  int compared_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Models, BatchLayoutTest,
                         testing::Values(Case{"gpt2", {1, 3}, false}, Case{"bert", {1, 3}, false},
                                         Case{"llama", {1, 3}, false}, Case{"moe", {1, 3}, false},
                                         Case{"vit", {1, 3}, false}, Case{"swin", {1, 3}, false},
                                         Case{"t5", {1, 3}, false}, Case{"translation", {1, 3}, false},
                                         Case{"xlnet", {1, 3}, false}, Case{"recommender", {1, 3}, false},
                                         Case{"vgg", {1, 3}, false}, Case{"resnet", {2, 2}, true},
                                         Case{"mobilenet", {2, 2}, true}, Case{"nasnet", {2, 2}, true}),
                         [](const auto& info) { return std::string(info.param.model); });

TEST_P(BatchLayoutTest, TheWholeIsMadeOfTheReplicasParts) {
  run();
  EXPECT_GT(compared_, 40);
}

}  // namespace
}  // namespace motley

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "bench/one_device.h"
#include "graph/training_graph.h"
#include "runtime/dispatch_check.h"

namespace motley {
namespace {

// Loss, gradients and buffers of the test models (tests/models) against PyTorch's, in float32.
class ExamplesTest : public testing::TestWithParam<std::string> {
 protected:
  static std::string file(const std::string& suffix) {
    const char* folder = std::getenv("MOTLEY_TEST_MODELS");
    return std::string(folder == nullptr ? "build/release/tests/models" : folder) + "/" + GetParam() + suffix;
  }
  // The distance of two tensors relative to the size of the second.
  double distance(const TensorHandle& ours, const NamedTensor& theirs) {
    const HostTensor host = executor_->to_host(ours);
    EXPECT_EQ(host.sizes, theirs.shape) << theirs.name;
    const auto a = elements<float>(host);
    const auto* b = reinterpret_cast<const float*>(theirs.bytes.data());
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      size += b[i] * b[i];
    }
    return size == 0 ? std::sqrt(difference) : std::sqrt(difference / size);
  }
  // The whole gradient of each parameter, as its update takes it.
  std::vector<TensorId> gradients() const {
    std::vector<TensorId> found;
    for (const Op& op : graph_.ops) {
      if (op.kind == OpKind::kUpdate) found.push_back(op.inputs[1]);
    }
    return found;
  }

  // PyTorch's gradient of a parameter, which may bear another of the names that share it.
  static const NamedTensor* gradient_of(const std::string& parameter, const Pt2File& model,
                                        const SafetensorsFile& answer) {
    for (const auto& [name, tensor] : model.tensors()) {
      const NamedTensor* found = answer.find("gradient." + name);
      if (found != nullptr && tensor.same_storage(model.tensors().at(parameter))) return found;
    }
    return nullptr;
  }

  Graph graph_ = load_training_graph(file(".pt2"), {});
  std::unique_ptr<Executor> executor_ = Executor::open("cpu", graph_);
};

TEST_P(ExamplesTest, LossGradientsAndBuffersEqualPyTorchs) {
  const Pt2File model = Pt2File::open(file(".pt2"));
  const SafetensorsFile answer(file(".safetensors"));
  OneDevice device(graph_, *executor_, answer.find("input." + graph_.tensors[graph_.inputs[0]].name)->shape[0],
                   gradients());
  load_state(graph_, model, *executor_, device);
  load_inputs(graph_, answer, *executor_, device);
  device.iterate();
  EXPECT_LT(distance(device.value(graph_.loss), *answer.find("loss")), 1e-5);
  for (TensorId gradient : gradients()) {
    const std::string& parameter = graph_.tensors[graph_.tensors[gradient].gradient_of].name;
    const NamedTensor* theirs = gradient_of(parameter, model, answer);
    ASSERT_NE(theirs, nullptr) << parameter;
    EXPECT_LT(distance(device.value(gradient), *theirs), 1e-5) << parameter;
  }
  for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors.size()); ++id) {
    const Tensor& tensor = graph_.tensors[id];
    if (tensor.role != TensorRole::kBuffer || tensor.dtype != DType::kFloat32) continue;
    EXPECT_LT(distance(device.value(id), *answer.find("buffer." + tensor.name)), 1e-5) << tensor.name;
  }
}

TEST_P(ExamplesTest, PassTheDispatchCheck) { check_dispatch(graph_, *executor_); }

INSTANTIATE_TEST_SUITE_P(Models, ExamplesTest,
                         testing::Values("gpt2", "bert", "llama", "moe", "resnet", "vgg", "mobilenet", "inception",
                                         "nasnet", "vit", "swin", "t5", "translation", "xlnet", "recommender",
                                         "in_place"),
                         [](const auto& model) { return model.param; });

}  // namespace
}  // namespace motley

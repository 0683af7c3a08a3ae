#include "agent/checkpoint.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "graph/training_graph.h"
#include "tests/support/error_of.h"
#include "tests/support/forward_graph.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

using testing::HasSubstr;

// Of loss = mean(linear(x)), trained by SGD with momentum: a parameter and its state.
class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    support::ForwardGraph forward;
    const TensorId x = forward.input("x", {support::kB, 4});
    const TensorId weight = forward.parameter("weight", {4, 4});
    const TensorId y = forward.linear("y", x, weight, kNone, {support::kB, 4});
    forward.graph.loss = forward.op("loss", "aten::mean.default", {{"self", InputRef{0}}}, {y}, {});
    TrainingOptions options;
    options.optimizer.momentum = 0.9;
    graph_ = make_training_graph(forward.graph, options);
  }
  NamedTensor tensor(const std::string& name, std::vector<std::int64_t> shape = {4, 4},
                     DType dtype = DType::kFloat32) const {
    std::size_t bytes = static_cast<std::size_t>(size_of(dtype).value);
    for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
    return {name, dtype, std::move(shape), std::span(zeros_).first(bytes)};
  }
  std::string error_of(const std::vector<NamedTensor>& tensors) {
    write_safetensors(path(), tensors, {{"format", "motley-checkpoint-1"}, {"iteration", "7"}});
    return error();
  }
  std::string error() {
    const std::string message = support::error_of([&] { check_checkpoint(path(), graph_); });
    EXPECT_THAT(message, HasSubstr(path().string()));
    return message;
  }
  std::filesystem::path path() const { return folder_ / "checkpoint"; }

  TemporaryFolder folder_;
  Graph graph_;
  std::vector<std::byte> zeros_{1000};
  const std::string state_ = "optimizer.weight.momentum_buffer";
};

TEST_F(CheckpointTest, TellsItsIteration) {
  write_safetensors(path(), {tensor("weight"), tensor(state_)},
                    {{"format", "motley-checkpoint-1"}, {"iteration", "7"}});
  EXPECT_EQ(check_checkpoint(path(), graph_), 7);
}

TEST_F(CheckpointTest, NamesTheTensorThatDoesNotFit) {
  EXPECT_THAT(error_of({tensor(state_)}), HasSubstr("there is no 'weight' in it: it is of another model"));
  EXPECT_THAT(error_of({tensor("weight")}), HasSubstr("there is no '" + state_ + "' in it: it holds weights alone"));
  EXPECT_THAT(error_of({tensor("weight"), tensor(state_), tensor("other")}),
              HasSubstr("'other' in it is not of this training"));
  EXPECT_THAT(error_of({tensor("weight", {4, 8}), tensor(state_)}),
              HasSubstr("'weight' is f32 [4, 8] there, but f32 [4, 4] in the model"));
  EXPECT_THAT(error_of({tensor("weight", {4, 4}, DType::kFloat64), tensor(state_)}),
              HasSubstr("'weight' is f64 [4, 4] there, but f32 [4, 4] in the model"));
}

TEST_F(CheckpointTest, RefusesWhatIsNoWholeCheckpoint) {
  EXPECT_THAT(error(), HasSubstr("cannot be read (No such file"));
  std::filesystem::create_directory(path());
  EXPECT_THAT(error(), HasSubstr("cannot be read (Is a directory)"));
  std::filesystem::remove(path());
  for (const Metadata& metadata :
       {Metadata{}, Metadata{{"format", "pt"}, {"iteration", "7"}}, Metadata{{"format", "motley-checkpoint-1"}},
        Metadata{{"format", "motley-checkpoint-1"}, {"iteration", "-7"}},
        Metadata{{"format", "motley-checkpoint-1"}, {"iteration", "99999999999999999999"}}}) {
    write_safetensors(path(), {tensor("weight"), tensor(state_)}, metadata);
    EXPECT_THAT(error(), HasSubstr("not a checkpoint of motley"));
  }
  write_safetensors(path(), {tensor("weight"), tensor(state_)},
                    {{"format", "motley-checkpoint-1"}, {"iteration", "7"}});
  const auto whole = std::filesystem::file_size(path());
  for (const std::uintmax_t size : {whole - 1, whole / 2, std::uintmax_t{4}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(path(), size);
    EXPECT_THAT(error(), HasSubstr("not a whole safetensors file")) << size;
  }
}

}  // namespace
}  // namespace motley

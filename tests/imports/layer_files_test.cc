#include "imports/layer_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

class LayerFilesTest : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& text) const {
    write_file_atomically(folder_ / name, text);
    return folder_ / name;
  }
  std::string pipedream_refusal(const std::string& text) const {
    return support::error_of([&] { read_pipedream(file("m.txt", text)); }, ErrorKind::kInvalidInput);
  }

  TemporaryFolder folder_;
};

std::vector<std::string> names(const ImportedModel& model) {
  std::vector<std::string> names;
  for (const Layer& layer : model.layers) names.push_back(layer.name);
  return names;
}

// The second line's layer needs the third's; its output is three tensors. The time of the input is that of loading
// data.
TEST_F(LayerFilesTest, ReadsPipedreamsGraph) {
  const ImportedModel model = read_pipedream(
      file("m.txt",
           "n1 -- Input -- forward_compute_time=17.972, backward_compute_time=0.000, activation_size=0.0, "
           "parameter_size=0.000\n"
           "n2 -- Conv2d(3, 8, kernel_size=(3, 3)) -- forward_compute_time=1.5, backward_compute_time=2.5, "
           "activation_size=[100.0; 20.0; 4.0], parameter_size=896.000\n"
           "n3 -- ReLU -- forward_compute_time=0.25, backward_compute_time=0.5, activation_size=64, parameter_size=0\n"
           "\tn1 -- n2\n\tn1 -- n3\n\tn3 -- n2\n"));
  EXPECT_EQ(model.name, "m");
  EXPECT_THAT(names(model), ElementsAre("n3", "n2"));
  EXPECT_THAT(model.layers[0].inputs, IsEmpty());
  const Layer& last = model.layers[1];
  EXPECT_THAT(last.inputs, ElementsAre(0));
  EXPECT_EQ(last.parameters, Bytes(896));
  EXPECT_EQ(last.output, Bytes(124));
  ASSERT_THAT(model.costs[1].times, SizeIs(1));
  EXPECT_EQ(model.costs[1].times[0].forward, Seconds(0.0015));
  EXPECT_EQ(model.costs[1].times[0].backward, Seconds(0.0025));
  EXPECT_EQ(graph_of_layers(model.name, model.layers).groups.size(), 2U);
}

TEST_F(LayerFilesTest, PipedreamsErrorsNameTheLine) {
  const std::string node =
      "n1 -- ReLU -- forward_compute_time=1, backward_compute_time=1, activation_size=1, parameter_size=0\n";
  EXPECT_THAT(pipedream_refusal(""), HasSubstr("m.txt: has no layer"));
  EXPECT_THAT(pipedream_refusal("n1 -- ReLU\n"), HasSubstr("m.txt:1: should be \"ID -- LAYER"));
  EXPECT_THAT(pipedream_refusal(node + node), HasSubstr("m.txt:2: node n1 stands twice"));
  EXPECT_THAT(pipedream_refusal(node + "\tn1 -- n9\n"), HasSubstr("m.txt:2: there is no node n9"));
  EXPECT_THAT(pipedream_refusal(node + "\tn1 -- n1\n"), HasSubstr("node n1 feeds itself"));
  EXPECT_THAT(pipedream_refusal("n1 -- ReLU -- forward_compute_time=-1, backward_compute_time=1, activation_size=1, "
                                "parameter_size=0\n"),
              HasSubstr("m.txt:1: forward_compute_time should be a number"));
  EXPECT_THAT(pipedream_refusal("n1 -- ReLU -- forward_compute_time=1, backward_compute_time=1, parameter_size=0\n"),
              HasSubstr("has no activation_size"));
  EXPECT_THAT(support::error_of([&] { read_pipedream(folder_ / "none.txt"); }, ErrorKind::kNotFound),
              HasSubstr("none.txt"));
}

TEST_F(LayerFilesTest, ReadsPipersGraph) {
  const auto path = file("p.json", R"({"nodes": [
    {"id": 7, "name": "block", "TMPCs": {"2": [
      {"id": "activation recomp", "timePerSample": 4, "parameterSize": 0, "memoryUsageA": 1},
      {"id": "vanilla", "timePerSample": 3, "parameterSize": 40, "memoryUsageA": 100}]}},
    {"id": 3, "name": "in", "TMPCs": {"2": [
      {"id": "vanilla", "timePerSample": 0, "parameterSize": 0, "memoryUsageA": 8}]}}],
    "edges": [{"sourceId": 3, "destId": 7, "communicationCost": 8}]})");
  const ImportedModel model = read_piper(path, 2);
  EXPECT_THAT(names(model), ElementsAre("in.3", "block.7"));
  EXPECT_THAT(model.layers[1].inputs, ElementsAre(0));
  EXPECT_EQ(model.layers[0].output, Bytes(8));
  EXPECT_EQ(model.costs[0].memory.kept, Bytes(0));  // it keeps its output alone
  EXPECT_EQ(model.costs[1].memory.kept, Bytes(100));
  EXPECT_EQ(model.layers[1].parameters, Bytes(40));
  EXPECT_DOUBLE_EQ(model.costs[1].times[0].forward.value, 1);
  EXPECT_DOUBLE_EQ(model.costs[1].times[0].backward.value, 2);
  EXPECT_THAT(support::error_of([&] { read_piper(path, 4); }, ErrorKind::kInvalidInput),
              HasSubstr("p.json: /nodes/0/TMPCs: has no \"4\"; there is 2"));
}

TEST_F(LayerFilesTest, ReadsMetissFolder) {
  const auto profile = [](double milliseconds, double memory = 0) {
    return R"({"model": {"model_name": "GPT", "parameters": {"parameters_per_layer_bytes": [80, 160]}},
      "execution_time": {"optimizer_time_ms": 4, "layer_compute_total_ms": [3, )" +
           std::to_string(milliseconds) + R"(]}, "execution_memory": {"layer_memory_total_mb": [7, )" +
           std::to_string(memory) + "]}}";
  };
  file("DeviceType.A100_tp2_bs4.json", profile(12, 16));
  file("DeviceType.A100_tp2_bs1.json", profile(6, 10));
  file("DeviceType.A100_tp1_bs1.json", profile(9));
  file("DeviceType.V100_tp2_bs1.json", profile(20));
  const ImportedModel model = read_metis(folder_.path(), "A100", 2, Bytes(64));
  EXPECT_EQ(model.name, "GPT");
  ASSERT_THAT(model.layers, SizeIs(2));
  EXPECT_EQ(model.layers[1].parameters, Bytes(80));
  EXPECT_THAT(model.layers[1].inputs, ElementsAre(0));
  EXPECT_EQ(model.layers[1].output, Bytes(64));
  ASSERT_THAT(model.costs[1].times, SizeIs(2));
  EXPECT_EQ(model.costs[1].times[0].samples, 1);
  EXPECT_NEAR(model.costs[1].times[0].forward.value, 2e-3, 1e-12);
  EXPECT_NEAR(model.costs[1].times[1].backward.value, 8e-3, 1e-12);
  EXPECT_NEAR(model.costs[1].times[1].update.value, 2e-3, 1e-12);
  // 6 MiB more for three samples more, the output among them.
  EXPECT_EQ(model.costs[1].memory.kept, Bytes((2 << 20) - 64));
  EXPECT_EQ(model.costs[0].memory.kept, Bytes(0));
  EXPECT_THAT(metis_profiles(folder_.path()),
              ElementsAre(Pair("A100", ElementsAre(1, 2)), Pair("V100", ElementsAre(2))));
  EXPECT_THAT(support::error_of([&] { read_metis(folder_.path(), "T4", 1, Bytes(1)); }, ErrorKind::kNotFound),
              HasSubstr("DeviceType.T4_tp1_bs*.json: there is no such file"));
}

}  // namespace
}  // namespace motley

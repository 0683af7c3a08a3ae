// Training graphs of models from public libraries (tests/models/export_all.py).

#include "graph/training_graph.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "graph/op_knowledge.h"
#include "graph/serialize.h"
#include "graph/summary.h"
#include "tests/graph/graph_equality.h"

namespace motley {
namespace {

using Kind = BatchLayout::Kind;

std::string path_of(const std::string& model) {
  const char* folder = std::getenv("MOTLEY_TEST_MODELS");
  return std::string(folder == nullptr ? "build/release/tests/models" : folder) + "/" + model + ".pt2";
}

Graph load(const std::string& model, std::int32_t max_groups = 200) {
  OptimizerOptions momentum;
  momentum.momentum = 0.9;
  return load_training_graph(path_of(model), {momentum, max_groups});
}

const Op* find(const Graph& graph, const std::string& name) {
  const auto found = std::find_if(graph.ops.begin(), graph.ops.end(), [&](const Op& op) { return op.name == name; });
  return found == graph.ops.end() ? nullptr : &*found;
}

class TrainingGraphTest : public testing::TestWithParam<const char*> {
 protected:
  Graph graph_ = load(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Models, TrainingGraphTest,
                         testing::Values("gpt2", "bert", "llama", "moe", "resnet", "vgg", "mobilenet", "nasnet", "vit",
                                         "swin", "t5", "translation", "xlnet", "full-gpt2", "full-bert",
                                         "full-resnet50", "full-vgg19", "full-inception"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(TrainingGraphTest, EveryOpIsKnown) {
  for (const Op& op : graph_.ops) {
    if (op.kind == OpKind::kForward) {
      EXPECT_TRUE(facts_of(op.target).known) << op.target;
    }
  }
}

TEST_P(TrainingGraphTest, TheLossIsASumOverTheReplicas) {
  EXPECT_EQ(graph_.tensors[graph_.loss].layout.kind, Kind::kPartialSum);
}

// Whatever the batch reaches can be cut, but for counts of samples and rows sorted by expert.
TEST_P(TrainingGraphTest, LittleIsMixed) {
  const bool experts = std::string(GetParam()) == "moe";
  for (const Tensor& tensor : graph_.tensors) {
    if (tensor.role != TensorRole::kActivation || tensor.layout.kind != Kind::kMixed) continue;
    EXPECT_TRUE(
        tensor.dtype == DType::kInt64 ||
        (experts && find(graph_, graph_.ops[tensor.producer].name)->module.find("experts") != std::string::npos))
        << tensor.name;
  }
}

// One that takes no gradient, such as a table of positions, is not.
TEST_P(TrainingGraphTest, EveryParameterIsUpdatedOnceByItsOwner) {
  std::vector<int> updates(graph_.tensors.size(), 0);
  for (const Op& op : graph_.ops) {
    if (op.kind != OpKind::kUpdate) continue;
    ++updates[op.inputs[0]];
    EXPECT_THAT(graph_.groups[op.group].parameters, testing::Contains(op.inputs[0]));
  }
  for (std::size_t id = 0; id < graph_.tensors.size(); ++id) {
    if (graph_.tensors[id].role == TensorRole::kParameter) {
      EXPECT_EQ(updates[id], graph_.tensors[id].requires_gradient ? 1 : 0) << graph_.tensors[id].name;
    }
  }
}

TEST_P(TrainingGraphTest, GroupsAreBoundedAndInTopologicalOrder) {
  for (std::int32_t bound : {1, 5, 200}) {
    const Graph graph = load(GetParam(), bound);
    EXPECT_LE(graph.groups.size(), static_cast<std::size_t>(bound));
    for (const Op& op : graph.ops) {
      for (TensorId input : op.inputs) {
        const OpId maker = graph.tensors[input].producer;
        const bool forward = op.kind == OpKind::kForward && maker != kNone;
        if (forward) {
          EXPECT_LE(graph.ops[maker].group, op.group) << op.name;
        }
        if (forward && graph.tensors[input].layout.kind > Kind::kSplit) {
          EXPECT_EQ(graph.ops[maker].group, op.group) << op.name;
        }
      }
    }
  }
}

TEST_P(TrainingGraphTest, ComesBackFromItsSerializedForm) {
  expect_equal(deserialize_graph(serialize(graph_), "test"), graph_);
}

TEST_P(TrainingGraphTest, IsTheSameEveryTime) { EXPECT_EQ(load(GetParam()).fingerprint, graph_.fingerprint); }

struct Published {
  const char* model;
  std::int64_t parameters;
  double multiply_adds;  // of one sample's forward, in products and convolutions
};

class PublishedModelTest : public testing::TestWithParam<Published> {};

// Parameters and multiply-adds as torchvision's model pages and the papers give them. GPT-2 small: 12 layers of
// 12 * 768^2 weights, the output layer's 768 * 50257, and attention's 2 * 128 * 768 per token and layer, for 128
// tokens. BERT-base likewise, with a dense layer of 768^2 before its 768 * 30522 outputs.
INSTANTIATE_TEST_SUITE_P(
    Models, PublishedModelTest,
    testing::Values(Published{"full-resnet50", 25557032, 4.09e9}, Published{"full-vgg19", 143667240, 19.63e9},
                    Published{"full-inception", 27161264, 5.71e9},
                    Published{"full-gpt2", 124439808, 128.0 * (12 * (12.0 * 768 * 768 + 2 * 128 * 768) + 768 * 50257)},
                    Published{"full-bert", 109514298,
                              128.0 * (12 * (12.0 * 768 * 768 + 2 * 128 * 768) + 768 * 768 + 768 * 30522)}),
    [](const auto& info) {
      std::string name = info.param.model;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST_P(PublishedModelTest, HasThePublishedParametersAndWork) {
  const GraphSummary summary = summarize(load(GetParam().model), 1);
  EXPECT_EQ(summary.parameters, GetParam().parameters);
  EXPECT_EQ(summary.optimizer_states, Bytes(4 * GetParam().parameters));
  // Elementwise ops and norms come on top: under 3 %.
  EXPECT_GE(summary.forward.value, 0.999 * 2 * GetParam().multiply_adds);
  EXPECT_LE(summary.forward.value, 1.03 * 2 * GetParam().multiply_adds);
  // Two products backward for each forward, but for the first layer's input.
  EXPECT_NEAR(summary.backward.value / summary.forward.value, 2, 0.1);
}

TEST(TiedWeights, AreOneParameterWithASummedGradient) {
  const Graph graph = load("gpt2");
  std::vector<std::size_t> parts;
  for (const Op& op : graph.ops) {
    const bool of_parameter = op.kind == OpKind::kGradientSum &&
                              graph.tensors[graph.tensors[op.outputs[0]].gradient_of].role == TensorRole::kParameter;
    if (of_parameter) parts.push_back(op.inputs.size());
  }
  EXPECT_THAT(parts, testing::ElementsAre(2));  // the embedding and the output layer
}

TEST(Groups, OfGpt2AreItsModules) {
  const Graph graph = load("full-gpt2");
  std::vector<std::string> names;
  for (const OpGroup& group : graph.groups) names.push_back(group.name);
  EXPECT_THAT(names, testing::IsSupersetOf(
                         {"model.transformer.h.0.attn.c_attn", "model.transformer.h.11.mlp.c_fc", "model.lm_head"}));
}

}  // namespace
}  // namespace motley

#include <gtest/gtest.h>

#include <cstdlib>

#include "graph/training_graph.h"
#include "profiler/signature.h"

namespace motley {
namespace {

std::size_t distinct(const std::string& model) {
  const char* folder = std::getenv("MOTLEY_TEST_MODELS");
  if (folder == nullptr) throw std::runtime_error("run by ctest, which says where the models are");
  return signatures_of(load_training_graph(std::string(folder) + "/" + model, {})).distinct.size();
}

TEST(ModelSignatures, DepthOfGpt2AddsNone) {
  EXPECT_EQ(distinct("full-gpt2.pt2"), distinct("full-gpt2-two-layers.pt2"));
}

}  // namespace
}  // namespace motley

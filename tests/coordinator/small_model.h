#pragma once

#include "graph/graph.h"
#include "graph/training_graph.h"
#include "tests/support/forward_graph.h"

namespace motley {

// loss = mean(linear(x)): one parameter, three ops.
inline Graph small_model() {
  support::ForwardGraph forward;
  const TensorId x = forward.input("x", {support::kB, 4});
  const TensorId weight = forward.parameter("weight", {4, 4});
  const TensorId y = forward.linear("y", x, weight, kNone, {support::kB, 4});
  forward.graph.loss = forward.op("loss", "aten::mean.default", {{"self", InputRef{0}}}, {y}, {});
  forward.graph.name = "small";
  return make_training_graph(forward.graph, {});
}

}  // namespace motley

#pragma once

// A small training graph built by hand, for tests of what takes a graph: an MLP of `layers` times linear + relu with
// the mean of the last layer as its loss, differentiated op by op as graph/ does it, SGD updates included.
//
// Layer i (from 0) has the ops "l<i>.linear" and "l<i>.relu" and, with `residual` and i odd, "l<i>.add", which adds the
// layer's input; the last layer's group also has "loss". Groups: one per layer, named "l<i>". Parameters: "l<i>.weight"
// [width, width] and "l<i>.bias" [width], float32. Input: "x" [B, width].
//
// With `shared`, a first group "shared" makes "shared.double" [width], twice the parameter "shared.weight", and each
// layer ends with "l<i>.shift", which adds it: a kIndependent activation that crosses groups. With `balance`, the loss
// is mean + mean^2, the square being of the whole mean (Op::completes), as in a loss that balances experts.

#include <cstdint>
#include <iosfwd>
#include <string_view>

#include "graph/graph.h"

namespace motley::support {

struct ChainOptions {
  int layers = 2;
  std::int64_t width = 4;
  bool residual = false;  // odd layers add their input to their output
  bool tied = false;      // the last layer uses the first layer's weight and bias
  bool shared = false;
  bool balance = false;
  double momentum = 0;  // above 0: one state per parameter, "NAME.momentum"
};
// For GoogleTest, which else prints the bytes, padding and all.
void PrintTo(const ChainOptions& options, std::ostream* out);
Graph chain_graph(const ChainOptions& options = {});

// Index of the op, tensor or group with that name; fails the program when there is none.
OpId op_named(const Graph& graph, std::string_view name);
TensorId tensor_named(const Graph& graph, std::string_view name);

}  // namespace motley::support

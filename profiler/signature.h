#pragma once

// Equal ops cost the same, so they are measured once: the signature of an op is all that its cost depends on but the
// device and the batch size. It holds the op's kind and target, its other arguments, dtype and shape of each tensor as
// an expression of B, how views lie in memory, and which inputs need gradients in which backward op. Names, places in
// the graph and values do not matter: the twelve layers of GPT-2 have the signatures of two.

#include <string>
#include <vector>

#include "graph/graph.h"

namespace motley {

struct Signature {
  std::string hash;   // 32 hex digits of SHA-256 of `text`; what is stored
  std::string text;   // "forward aten::relu.default(f32[B, 128]) -> f32[B, 128] dx[0]"
  std::string dtype;  // that the arithmetic is in: of the first floating output, else input, else "i64"
  bool depends_on_batch = true;
};

struct Signatures {
  std::vector<Signature> distinct;   // in the order of first appearance in the graph
  std::vector<std::int32_t> of_op;   // index into `distinct`, per op
  std::vector<OpId> representative;  // the first op of each
};

// Deterministic; linear in the size of the graph.
Signatures signatures_of(const Graph& graph);

}  // namespace motley

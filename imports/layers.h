#pragma once

// A model as others' profilers see it: whole layers, each with its sizes. It becomes a training graph of opaque ops,
// which the compiler and the simulator take as any other; such a graph cannot be run.

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace motley {

struct Layer {
  std::string name;                  // unique
  std::vector<std::int32_t> inputs;  // layers before it whose output it takes; none: it takes the batch itself
  Bytes parameters;                  // of the copy on one device
  Bytes output;                      // per sample
  std::int64_t states = 2;           // further copies of its parameters that the optimizer keeps: Adam's two moments
};

// Layer i becomes op group i with
//  - a forward op "NAME", of its inputs and its parameters;
//  - an input-gradient op "NAME.dx" if an input of its rests on parameters, and a weight-gradient op "NAME.dw" if it
//    has parameters; both need its inputs, so these are held for them;
//  - an update op "NAME.update".
// The outputs that no layer takes go into the op "loss", of the last layer's group. Bytes are rounded up to whole
// float32. Throws Error(kInvalidInput) naming the layer when an input does not stand before it.
Graph graph_of_layers(const std::string& name, const std::vector<Layer>& layers);

// The layer's group, or kNone for the ops that make the loss.
std::int32_t layer_of(const Graph& graph, OpId op);

}  // namespace motley

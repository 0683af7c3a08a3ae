#pragma once

// What a training graph holds and costs, for people and for `motley inspect`.

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace motley {

struct GroupSummary {
  std::string name;
  std::size_t ops = 0;          // forward ops
  std::int64_t parameters = 0;  // elements of those that it owns
  Flops flops;                  // per iteration, all kinds of ops
  Bytes saved;                  // kept from its forward for its backward
  Bytes output;                 // handed on to later groups
};

struct InputSummary {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::string> shape;  // sizes as text, the batch size as B
};

struct GraphSummary {
  std::string name;
  std::string fingerprint;
  std::int64_t batch = 0;
  std::vector<InputSummary> inputs;                  // in the order of the model's arguments
  std::map<std::string, std::size_t> ops_by_kind;    // "forward", "input gradient", ...
  std::map<std::string, std::size_t> ops_by_target;  // forward ops
  std::int64_t parameters = 0;                       // elements
  Flops forward;
  Flops backward;
  Flops update;
  Bytes weights;
  Bytes buffers;
  Bytes gradients;  // of parameters
  Bytes optimizer_states;
  Bytes saved;  // activations and statistics kept for the backward, at `batch`
  std::vector<GroupSummary> groups;
};

GraphSummary summarize(const Graph& graph, std::int64_t batch);

std::string to_text(const GraphSummary& summary);  // several lines, a table of the groups last
std::string to_json(const GraphSummary& summary);  // one object; FLOPs as numbers, bytes as integers

}  // namespace motley

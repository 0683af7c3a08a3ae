#pragma once

// In which order the distinct ops of a graph are run to be measured, and whose results stand in for those of the ops
// that are not run. Internal to motley::measure. Pure functions.

#include <vector>

#include "graph/graph.h"
#include "profiler/signature.h"

namespace motley {

// A forward op, an update, a sum; or all backward ops of one forward op, which is run before them.
struct MeasureStep {
  std::vector<OpId> ops;  // to be timed, in graph order
  OpId context = kNone;   // of backward ops: the forward op
  bool always = false;    // makes integers: run even if an equal op ran before
};

class MeasurePlan {
 public:
  MeasurePlan(const Graph& graph, const Signatures& signatures);

  // In graph order; what a step reads, earlier ones make.
  const std::vector<MeasureStep>& steps() const { return steps_; }
  // The tensor whose value stands in for this one: itself, or an output of an equal op.
  TensorId stand_in(TensorId tensor) const;
  // What a step reads, by stand_in: the inputs of its ops (of backward ops the gradients alone) and of its context.
  std::vector<TensorId> reads(const MeasureStep& step) const;

  // Of the steps, those that must run, or have their results filled in, so that `wanted` ones can run. What `filled`
  // ones read is not needed.
  std::vector<bool> needed(std::vector<bool> wanted, const std::vector<bool>& filled) const;

 private:
  void add(OpId op);
  void add_backward(OpId op);

  const Graph& graph_;
  const Signatures& signatures_;
  std::vector<std::vector<OpId>> backward_;  // by forward op
  std::vector<OpId> leader_;                 // by signature: the op that runs; kNone: none yet
  std::vector<OpId> stand_in_;               // by op
  std::vector<std::int32_t> step_of_;        // by op; kNone: not run
  std::vector<MeasureStep> steps_;
};

}  // namespace motley

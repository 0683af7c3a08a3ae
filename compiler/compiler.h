#pragma once

// A strategy becomes a deployment.

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "compiler/deployment.h"
#include "compiler/strategy.h"
#include "profiler/cost_model.h"

namespace motley {

// Why a strategy cannot be compiled at this batch size (a result, not an error): a batch smaller than a group's
// replicas, a group whose ops cannot be replicated.
struct NotCompilable {
  std::string reason;  // names the group and what to change
};

struct CompilerTables;

enum class Folding {
  kNone,
  // For simulation alone: where devices meet in all-reduces over all of them and nowhere else, those that cost the
  // same, have as much memory and as many samples, share one program (Program::twins), unless a collective would delay
  // their compute by unlike amounts. What is simulated stays the same; a cluster of thousands takes hardly longer than
  // one of a few.
  kTwins,
};

// Holds what many compilations of one graph on one cluster share: a search makes one of these and calls compile()
// thousands of times. Graph, cluster and costs must outlive it. Const functions are thread-safe.
class Compiler {
 public:
  Compiler(const Graph& graph, const Cluster& cluster, const CostModel& costs);
  ~Compiler();
  Compiler(Compiler&&) noexcept;
  Compiler& operator=(Compiler&&) noexcept;

  // Deterministic. Throws Error(kInvalidInput) when the strategy does not fit the graph or the cluster (number of
  // groups, unknown devices, weights not positive). Each program's order follows from one schedule of all devices: list
  // scheduling either by upward rank over compute and transfers (Topcuoglu, Hariri, Wu: HEFT, IEEE TPDS 2002, section
  // 4.1) or, when that gains nothing, in the graph's own order, which holds less memory.
  std::variant<Deployment, NotCompilable> compile(const Strategy& strategy, std::int64_t batch,
                                                  Folding folding = Folding::kNone) const;

 private:
  std::unique_ptr<const CompilerTables> tables_;
};

// The same, once.
std::variant<Deployment, NotCompilable> compile(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                                                const Strategy& strategy, std::int64_t batch);

}  // namespace motley

#pragma once

// What an op probably costs where nobody measured it. Pure functions; thread-safe.
//
// The roofline (Williams, Waterman, Patterson, CACM 52(4), 2009): an op takes at least its arithmetic at the device's
// peak for the dtype, and its bytes at the memory's bandwidth. Neither peak is reached, and small products keep few of
// the device's units busy, so
//
//     time = launch + max((flops / peak + ramp) / 0.75, bytes / (0.8 * bandwidth))
//
// where `ramp`, for matrix products, convolutions and attention alone, is the time in which a device fills its units:
// half a launch. A backward op launches twice. Views cost half a launch, and no memory.

#include <map>
#include <vector>

#include "graph/graph.h"
#include "profiler/catalogue.h"
#include "profiler/cost_model.h"

namespace motley {

inline constexpr double kArithmeticEfficiency = 0.75;
inline constexpr double kMemoryEfficiency = 0.8;
inline constexpr double kRamp = 0.5;  // in launches

Seconds roofline(const Graph& graph, OpId op, const DeviceKind& kind, std::int64_t batch);

// Whether its work is matrix products, convolutions, attention or recurrent cells, or their gradients.
bool is_product(const Graph& graph, OpId op);

// Ops whose estimates are wrong in the same way: by the kind of work and the direction.
using OpFamily = std::int32_t;
OpFamily family_of(const Graph& graph, OpId op);

// By how much a device differs from its roofline, learnt from what was measured on it.
class Calibration {
 public:
  void add(OpFamily family, Seconds measured, Seconds estimated);
  // The median of measured / estimated within the family; of all families together when there is none; else 1.
  double ratio(OpFamily family) const;
  bool empty() const { return ratios_.empty(); }

 private:
  std::map<OpFamily, std::vector<double>> ratios_;  // sorted
  std::vector<double> all_;                         // sorted
};

// The roofline times the calibration's ratio; kept bytes from autograd's formulas (graph/op_knowledge.h). Its spread is
// a third of its time, which is how far such estimates commonly are off.
OpCost estimate(const Graph& graph, OpId op, const DeviceKind& kind, std::int64_t batch,
                const Calibration& calibration);

}  // namespace motley

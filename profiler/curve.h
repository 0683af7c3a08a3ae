#pragma once

// The cost of an op over the batch size, from measured points. Between points linear; outside them by a fit. Kept bytes
// and workspace likewise. Immutable; thread-safe.
//
// The fit is least squares of time = fixed + slope * batch, both not negative, each point weighted by 1 / time^2 so
// that relative errors count alike; the lowest three points make the fit below them, the highest three the one above,
// since small batches are bound by launches and large ones by arithmetic. Beyond the last point its slope carries on
// from there; before the first, the line goes from the fit's fixed part (at batch 0) to the first point. So a curve is
// continuous, never negative, and rises wherever the points do.

#include <vector>

#include "profiler/profile.h"

namespace motley {

class Curve {
 public:
  Curve() = default;                               // no points: empty()
  explicit Curve(std::vector<CurvePoint> points);  // any order; of equal batches the last one counts

  bool empty() const { return points_.empty(); }
  const std::vector<CurvePoint>& points() const { return points_; }

  // MOTLEY_CHECK that it is not empty and batch >= 0. A measured batch gives the measured figures. `repeats` is 0.
  CurvePoint at(std::int64_t batch) const;

 private:
  std::vector<CurvePoint> points_;  // ascending
  CurvePoint origin_;               // the fit below, at batch 0
  double time_slope_ = 0;           // above the last point, per sample
  double kept_slope_ = 0;
  double workspace_slope_ = 0;
};

// A curve measured op by op, corrected by what real runs showed: at the batches that ran the times seen, at the others
// that were profiled the profile's times a factor. That is the quotient of the two at the batches that ran, between
// which it moves evenly with log(batch) and beyond which it stays. Neither curve is empty; memory is the profile's.
Curve corrected(const Curve& profile, const Curve& seen);

// A straight line through points (x, y), weighted by 1 / y^2, with intercept and slope not negative.
struct Line {
  double intercept = 0;
  double slope = 0;
};
Line fit_line(const std::vector<std::pair<double, double>>& points);

}  // namespace motley

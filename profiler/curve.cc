#include "profiler/curve.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace motley {
namespace {

using Points = std::vector<std::pair<double, double>>;
constexpr std::size_t kFitPoints = 3;

// The figure of points [begin, end) over the batch.
template <class Figure>
Line fit(const std::vector<CurvePoint>& points, std::size_t begin, std::size_t end, Figure figure) {
  Points xy;
  for (std::size_t i = begin; i < end; ++i) xy.emplace_back(points[i].batch, figure(points[i]));
  return fit_line(xy);
}

double seconds(const CurvePoint& point) { return point.time.value; }
double kept(const CurvePoint& point) { return static_cast<double>(point.kept.value); }
double workspace(const CurvePoint& point) { return static_cast<double>(point.workspace.value); }

double mix(double a, double b, double share) { return a + (b - a) * share; }
Bytes mix(Bytes a, Bytes b, double share) {
  return Bytes(std::llround(mix(static_cast<double>(a.value), static_cast<double>(b.value), share)));
}

CurvePoint between(const CurvePoint& a, const CurvePoint& b, std::int64_t batch) {
  const double share = static_cast<double>(batch - a.batch) / static_cast<double>(b.batch - a.batch);
  return {batch,
          Seconds(mix(a.time.value, b.time.value, share)),
          Seconds(mix(a.spread.value, b.spread.value, share)),
          mix(a.kept, b.kept, share),
          mix(a.workspace, b.workspace, share),
          0};
}

}  // namespace

Line fit_line(const Points& points) {
  // Normal equations of sum w (y - a - b x)^2. A bound that the free optimum breaks holds with equality at the best
  // point within, as the sum is convex; of the two one-parameter fits the better one is taken.
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  for (const auto& [x, y] : points) {
    const double weight = y > 0 ? 1 / (y * y) : 0;
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wy += weight * y;
    wxy += weight * x * y;
  }
  if (w == 0) return {};
  const double determinant = w * wxx - wx * wx;
  if (determinant > 1e-12 * w * wxx) {
    const Line line{(wxx * wy - wx * wxy) / determinant, (w * wxy - wx * wy) / determinant};
    if (line.intercept >= 0 && line.slope >= 0) return line;
    const Line flat{wy / w, 0};
    const Line proportional{0, wxy / wxx};
    const auto loss = [&](const Line& l) {
      return w * l.intercept * l.intercept + wxx * l.slope * l.slope - 2 * (l.intercept * wy + l.slope * wxy);
    };
    return loss(flat) <= loss(proportional) ? flat : proportional;
  }
  return {0, wxx > 0 ? wxy / wxx : 0};  // one batch size alone: in proportion to it
}

Curve::Curve(std::vector<CurvePoint> points) {
  std::stable_sort(points.begin(), points.end(),
                   [](const CurvePoint& a, const CurvePoint& b) { return a.batch < b.batch; });
  for (CurvePoint& point : points) {
    if (!points_.empty() && points_.back().batch == point.batch) points_.pop_back();
    points_.push_back(point);
  }
  if (points_.empty()) return;
  const std::size_t n = points_.size();
  const std::size_t low = std::min(n, kFitPoints);
  const CurvePoint& first = points_.front();
  origin_.time = Seconds(std::min(fit(points_, 0, low, seconds).intercept, first.time.value));
  origin_.spread = first.spread;
  origin_.kept = std::min(Bytes(std::llround(fit(points_, 0, low, kept).intercept)), first.kept);
  origin_.workspace = std::min(Bytes(std::llround(fit(points_, 0, low, workspace).intercept)), first.workspace);
  time_slope_ = fit(points_, n - low, n, seconds).slope;
  kept_slope_ = fit(points_, n - low, n, kept).slope;
  workspace_slope_ = fit(points_, n - low, n, workspace).slope;
}

CurvePoint Curve::at(std::int64_t batch) const {
  MOTLEY_CHECK(!points_.empty() && batch >= 0, "a cost curve at batch " + std::to_string(batch));
  const auto above = std::lower_bound(points_.begin(), points_.end(), batch,
                                      [](const CurvePoint& point, std::int64_t b) { return point.batch < b; });
  if (above == points_.end()) {
    CurvePoint result = points_.back();
    const auto more = static_cast<double>(batch - result.batch);
    const double factor = result.time.value > 0 ? 1 + time_slope_ * more / result.time.value : 1;
    result.batch = batch;
    result.time += Seconds(time_slope_ * more);
    result.spread = result.spread * factor;
    result.kept += Bytes(std::llround(kept_slope_ * more));
    result.workspace += Bytes(std::llround(workspace_slope_ * more));
    result.repeats = 0;
    return result;
  }
  if (above->batch == batch) {
    CurvePoint result = *above;
    result.repeats = 0;
    return result;
  }
  return between(above == points_.begin() ? origin_ : *(above - 1), *above, batch);
}

Curve corrected(const Curve& profile, const Curve& seen) {
  std::vector<std::pair<double, double>> quotients;  // by log(batch)
  for (const CurvePoint& point : seen.points()) {
    const double seconds = profile.at(point.batch).time.value;
    if (seconds > 0) {
      quotients.emplace_back(std::log(static_cast<double>(std::max<std::int64_t>(point.batch, 1))),
                             point.time.value / seconds);
    }
  }
  if (quotients.empty()) return profile;
  const auto quotient = [&](std::int64_t batch) {
    const double x = std::log(static_cast<double>(std::max<std::int64_t>(batch, 1)));
    if (x <= quotients.front().first) return quotients.front().second;
    if (x >= quotients.back().first) return quotients.back().second;
    const auto next = std::upper_bound(quotients.begin(), quotients.end(), std::pair(x, 0.0),
                                       [](const auto& a, const auto& b) { return a.first < b.first; });
    const auto before = next - 1;
    return mix(before->second, next->second, (x - before->first) / (next->first - before->first));
  };
  std::vector<CurvePoint> points = profile.points();
  for (const CurvePoint& point : seen.points()) {
    points.push_back(profile.at(point.batch));
    points.back().batch = point.batch;
  }
  for (CurvePoint& point : points) {
    const double factor = quotient(point.batch);
    point.time = point.time * factor;
    point.spread = point.spread * factor;
  }
  return Curve(points);
}

}  // namespace motley

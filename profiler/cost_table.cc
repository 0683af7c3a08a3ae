#include "profiler/cost_table.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/suggest.h"
#include "profiler/estimate.h"
#include "profiler/signature.h"

namespace motley {
namespace {

// Estimated curves have a point per power of two up to this batch, and go on in a straight line from there.
constexpr std::int64_t kLargestEstimate = 4096;

// Everything that was measured on one fingerprint of one kind, for one graph.
struct Measured {
  std::string kind;
  std::optional<Fingerprint> fingerprint;
  std::optional<DeviceCosts> device;
  std::optional<MessageCosts> messages;
  std::map<std::string, std::vector<CurvePoint>> points;  // by signature
  std::map<std::string, std::vector<CurvePoint>> seen;    // ... in real runs

  Curve curve(const std::string& signature) const {
    const Curve profile(points.at(signature));
    const auto ran = seen.find(signature);
    return ran == seen.end() ? profile : corrected(profile, Curve(ran->second));
  }
};

bool is_cpu(const std::string& kind) { return kind.starts_with("cpu"); }

// The catalogue's word, or for a kind of the user's own some device of its sort, which calibration then corrects.
DeviceKind nominal(const std::string& kind) {
  if (std::optional<DeviceKind> known = find_kind(kind)) return *known;
  const double factor = split_kind(kind).factor;
  return *find_kind(join_kind({is_cpu(kind) ? "cpu" : "T4", factor}));
}

DeviceCosts nominal_costs(const DeviceKind& kind) {
  // A pass reads what it writes.
  return {kind.launch, kind.memory_bandwidth * kMemoryEfficiency / 2, kind.context, {}};
}

}  // namespace

class CostTableBuilder {
 public:
  CostTableBuilder(const Graph& graph, const ProfileStore* store)
      : graph_(graph), store_(store), signatures_(signatures_of(graph)) {
    for (const Signature& signature : signatures_.distinct) hashes_.push_back(signature.hash);
  }

  const std::vector<std::int32_t>& signature_of() const { return signatures_.of_op; }

  CostTable::Table table(const Cluster& cluster, const Device& device, const std::optional<Fingerprint>& fingerprint) {
    const Measured own = measured(device.kind, fingerprint);
    if (!own.fingerprint && !find_kind(device.kind)) refuse(cluster, device);
    const std::vector<Measured> others = sources(device.kind, own.fingerprint.has_value());
    const DeviceKind kind = nominal(device.kind);
    Calibration calibration = calibrated(own, kind);
    for (const Measured& other : others) {
      if (calibration.empty()) calibration = calibrated(other, nominal(other.kind));
    }
    CostBasis basis;
    if (own.fingerprint) basis.fingerprint = own.fingerprint->device() + "; " + own.fingerprint->software();
    basis.signatures = static_cast<std::int32_t>(hashes_.size());
    CostTable::Table result;
    for (std::size_t i = 0; i < hashes_.size(); ++i) {
      const auto found = own.points.find(hashes_[i]);
      if (found != own.points.end()) {
        result.entries.push_back({own.curve(hashes_[i]), true});
        ++basis.measured;
      } else {
        result.entries.push_back({Curve(guessed(i, kind, others, calibration, basis)), false});
      }
    }
    result.device = own.device ? *own.device : guessed_costs(kind, others);
    result.allocator = is_cpu(device.kind) ? AllocatorKind::kCpu : AllocatorKind::kCuda;
    result.messages = own.messages ? *own.messages : guessed_messages(kind, others);
    result.basis = std::make_shared<const CostBasis>(basis);
    return result;
  }

 private:
  [[noreturn]] static void refuse(const Cluster& cluster, const Device& device) {
    std::vector<std::string> names;
    for (const DeviceKind& kind : device_kinds()) names.push_back(kind.name);
    throw Error(ErrorKind::kNotFound, (cluster.source.empty() ? "" : cluster.source + ": ") +
                                          "nothing is known of what " + device.name + " of kind " + device.kind +
                                          " costs" + did_you_mean(split_kind(device.kind).name, names) +
                                          ": profile it (motley profile), or take a kind of the device catalogue");
  }

  Measured measured(const std::string& kind, const std::optional<Fingerprint>& wanted) const {
    Measured result;
    result.kind = kind;
    if (store_ == nullptr) return result;
    std::vector<Profile> profiles = store_->profiles(kind, hashes_);
    result.fingerprint = wanted;
    for (const Profile& profile : profiles) {  // the most recent first
      if (!result.fingerprint && !profile.ops.empty()) result.fingerprint = profile.fingerprint;
    }
    const auto mine = [&](const Profile& profile) { return profile.fingerprint == result.fingerprint; };
    if (std::none_of(profiles.begin(), profiles.end(), mine)) {
      result.fingerprint.reset();
      return result;
    }
    // Of equal batches a curve takes the last: what was measured here wins over what was imported.
    std::stable_sort(profiles.begin(), profiles.end(), [](const Profile& a, const Profile& b) {
      return (a.origin == Origin::kImport) > (b.origin == Origin::kImport);
    });
    for (const Profile& profile : profiles) {
      if (!mine(profile)) continue;
      if (profile.device) result.device = profile.device;
      if (profile.messages) result.messages = profile.messages;
      for (const ProfiledOp& op : profile.ops) {
        std::vector<CurvePoint>& points =
            (profile.origin == Origin::kTimeline ? result.seen : result.points)[op.signature];
        points.insert(points.end(), op.points.begin(), op.points.end());
      }
    }
    // What was never profiled is known from its runs alone.
    for (const auto& [signature, points] : result.seen) result.points.try_emplace(signature, points);
    return result;
  }

  // Other kinds of the same sort (or another fingerprint of this kind) that know ops of this graph: the same card
  // first, then by how many they know.
  std::vector<Measured> sources(const std::string& kind, bool kind_is_known) const {
    std::vector<Measured> result;
    if (store_ == nullptr) return result;
    for (const std::string& other : store_->kinds()) {
      if ((other == kind && kind_is_known) || is_cpu(other) != is_cpu(kind)) continue;
      Measured data = measured(other, std::nullopt);
      if (!data.points.empty()) result.push_back(std::move(data));
    }
    const std::string card = split_kind(kind).name;
    const auto rank = [&](const Measured& data) {
      return std::pair(split_kind(data.kind).name == card, data.points.size());
    };
    std::stable_sort(result.begin(), result.end(),
                     [&](const Measured& a, const Measured& b) { return rank(a) > rank(b); });
    return result;
  }

  Calibration calibrated(const Measured& data, const DeviceKind& kind) const {
    Calibration calibration;
    for (std::size_t i = 0; i < hashes_.size(); ++i) {
      const auto found = data.points.find(hashes_[i]);
      if (found == data.points.end()) continue;
      const OpId op = signatures_.representative[i];
      for (const CurvePoint& point : found->second) {
        calibration.add(family_of(graph_, op), point.time,
                        roofline(graph_, op, kind, std::max<std::int64_t>(point.batch, 1)));
      }
    }
    return calibration;
  }

  std::vector<CurvePoint> guessed(std::size_t signature, const DeviceKind& kind, const std::vector<Measured>& others,
                                  const Calibration& calibration, CostBasis& basis) const {
    const OpId op = signatures_.representative[signature];
    for (const Measured& other : others) {
      const auto found = other.points.find(hashes_[signature]);
      if (found == other.points.end()) continue;
      std::vector<CurvePoint> points = found->second;
      const DeviceKind from = nominal(other.kind);
      for (CurvePoint& point : points) {
        const std::int64_t batch = std::max<std::int64_t>(point.batch, 1);
        const double quotient = roofline(graph_, op, kind, batch) / roofline(graph_, op, from, batch);
        point.time = point.time * quotient;
        point.spread = point.spread * quotient;
      }
      ++basis.scaled;
      if (basis.scaled_from.empty()) basis.scaled_from = other.kind;
      return points;
    }
    const std::int64_t most = graph_.max_batch > 0 ? std::min(graph_.max_batch, kLargestEstimate) : kLargestEstimate;
    std::vector<CurvePoint> points;
    const bool depends = signatures_.distinct[signature].depends_on_batch;
    for (std::int64_t batch = 1; batch == 1 || (depends && batch / 2 < most); batch *= 2) {
      const OpCost cost = estimate(graph_, op, kind, batch, calibration);
      points.push_back({depends ? batch : 0, cost.time, cost.spread, cost.kept, cost.workspace, 0});
    }
    return points;
  }

  DeviceCosts guessed_costs(const DeviceKind& kind, const std::vector<Measured>& others) const {
    const DeviceCosts here = nominal_costs(kind);
    for (const Measured& other : others) {
      if (!other.device) continue;
      const DeviceCosts there = nominal_costs(nominal(other.kind));
      const double slower = here.pass / there.pass;
      return {other.device->pass * slower, other.device->pass_rate * (here.pass_rate / there.pass_rate),
              other.device->context, other.device->dispatch * slower};
    }
    return here;
  }

  static MessageCosts guessed_messages(const DeviceKind& kind, const std::vector<Measured>& others) {
    for (const Measured& other : others) {
      if (!other.messages) continue;
      const double quotient = kind.message / nominal(other.kind).message;
      // A pause is what the other's control group makes, which this device may not have.
      return {.overhead = other.messages->overhead * quotient,
              .work = other.messages->work * quotient,
              .work_per_byte = other.messages->work_per_byte * quotient};
    }
    return {.overhead = kind.message};
  }

  const Graph& graph_;
  const ProfileStore* store_;
  Signatures signatures_;
  std::vector<std::string> hashes_;
};

CostTable::CostTable(const Graph& graph, const Cluster& cluster, const ProfileStore* store,
                     const CostTableOptions& options) {
  CostTableBuilder builder(graph, store);
  signature_of_ = builder.signature_of();
  std::map<std::pair<std::string, std::string>, std::int32_t> known;  // by kind and fingerprint
  for (const Device& device : cluster.devices) {
    std::optional<Fingerprint> fingerprint;
    const auto given = options.fingerprints.find(device.name);
    if (given != options.fingerprints.end()) fingerprint = given->second;
    const std::string key = fingerprint ? fingerprint->device() + ";" + fingerprint->software() : "";
    const auto [found, fresh] = known.try_emplace({device.kind, key}, static_cast<std::int32_t>(tables_.size()));
    if (fresh) tables_.push_back(builder.table(cluster, device, fingerprint));
    table_of_.push_back(found->second);
  }
}

OpCost CostTable::op(OpId op, DeviceIndex device, std::int64_t batch) const {
  const Entry& entry = tables_[table_of_[device]].entries[signature_of_[op]];
  const CurvePoint point = entry.curve.at(batch);
  const std::int64_t least = entry.curve.points().front().batch;
  const std::int64_t most = entry.curve.points().back().batch;
  const bool near = most == 0 || (2 * batch >= least && batch <= 2 * most);
  return {point.time, point.spread, point.kept, point.workspace, entry.measured && near};
}

Seconds CostTable::memory_pass(DeviceIndex device, Bytes bytes) const {
  const DeviceCosts& costs = tables_[table_of_[device]].device;
  return costs.pass + bytes / costs.pass_rate;
}

Seconds CostTable::dispatch(DeviceIndex device) const { return tables_[table_of_[device]].device.dispatch; }

MessageCosts CostTable::messages(DeviceIndex device) const { return tables_[table_of_[device]].messages; }

Bytes CostTable::context(DeviceIndex device) const { return tables_[table_of_[device]].device.context; }

AllocatorKind CostTable::allocator(DeviceIndex device) const { return tables_[table_of_[device]].allocator; }

}  // namespace motley

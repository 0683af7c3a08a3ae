#include "profiler/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/statistics.h"
#include "profiler/curve.h"
#include "profiler/estimate.h"
#include "profiler/measure_plan.h"
#include "profiler/signature.h"
#include "profiler/synthetic.h"
#include "runtime/executor.h"
#include "runtime/stopwatch.h"

namespace motley {
namespace {

Seconds wall_clock() {
  return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// The first run of an op takes its memory from the system, later ones find it cached, as all iterations after the first
// do. So a step is timed again at once, whatever the budget; a cheap one thrice.
constexpr Seconds kCheap{5e-3};
constexpr std::size_t kOfCheap = 3;

// How often a step that takes `time` is timed: often where that is cheap and single times scatter.
std::size_t repeats_for(Seconds time) {
  if (time < Seconds(1e-3)) return 15;
  if (time < Seconds(20e-3)) return 7;
  return time < Seconds(200e-3) ? 3 : 2;
}

struct Samples {
  std::vector<double> seconds;  // of the passes after the first, over SteadyPace::now()
  double first = 0;             // of the warm-up pass
  OpMemory memory;
};

struct OutOfMemory : Error {
  using Error::Error;
};

class Measurement {
 public:
  Measurement(const Graph& graph, const std::string& device, const MeasureOptions& options)
      : graph_(graph),
        options_(options),
        started_(wall_clock()),
        executor_(Executor::open(device, graph, {options.fingerprint.threads, 0})),
        stopwatch_(Stopwatch::make(*executor_, options.fingerprint.threads)),
        accelerator_(device != "cpu"),
        signatures_(signatures_of(graph)),
        plan_(graph, signatures_),
        curves_(signatures_.distinct.size()) {}

  Profile run() {
    Profile all;
    all.fingerprint = options_.fingerprint;
    measure_overhead();
    const std::vector<std::int64_t> batches = chosen_batches();
    progress_.budget = options_.budget;
    progress_.batches = static_cast<int>(batches.size());
    for (std::size_t i = 0; i < batches.size(); ++i) {
      progress_.batch = batches[i];
      progress_.batches_done = static_cast<int>(i);
      if (!fits(batches[i]) || first_pass(batches[i]) > left()) break;
      try {
        measure_batch(batches[i], allowance(batches, i));
      } catch (const OutOfMemory& error) {
        if (i == 0) throw;
        break;  // the device's memory is smaller than was thought
      }
      Profile piece = collected(batches[i]);
      if (options_.found) options_.found(piece);
      std::move(piece.ops.begin(), piece.ops.end(), std::back_inserter(all.ops));
    }
    return merged(std::move(all));
  }

 private:
  std::vector<std::int64_t> chosen_batches() const {
    std::vector<std::int64_t> batches =
        options_.batches.empty() ? profile_batches(options_.max_batch) : options_.batches;
    for (std::int64_t& batch : batches) {
      batch = std::max(batch, graph_.min_batch);
      if (graph_.max_batch > 0) batch = std::min(batch, graph_.max_batch);
    }
    std::sort(batches.begin(), batches.end());
    batches.erase(std::unique(batches.begin(), batches.end()), batches.end());
    return batches;
  }

  Seconds left() const { return std::max(options_.budget - (wall_clock() - started_), Seconds(0)); }

  // What running all steps once is expected to take.
  Seconds first_pass(std::int64_t batch) const {
    double seconds = 0;
    for (const MeasureStep& step : plan_.steps()) seconds += predicted(step, batch);
    return Seconds(seconds);
  }

  // Of what is left of the budget, shared by the batches to come as their sizes are.
  Seconds allowance(const std::vector<std::int64_t>& batches, std::size_t index) const {
    double to_come = 0;
    for (std::size_t i = index; i < batches.size(); ++i) to_come += static_cast<double>(batches[i]) + 1;
    return left() * ((static_cast<double>(batches[index]) + 1) / to_come);
  }

  void measure_overhead() {
    constexpr int kTries = 101;
    std::vector<double> empty;
    for (int i = 0; i < kTries; ++i) {
      stopwatch_->start();
      empty.push_back(stopwatch_->stop().value);
    }
    overhead_ = median(empty);
  }

  bool fits(std::int64_t batch) const {
    if (options_.memory.value == 0) return true;
    Bytes total;
    std::set<TensorId> counted;
    const auto count = [&](TensorId id) {
      if (id != kNone && graph_.tensors[id].alias_of == kNone && counted.insert(id).second) {
        total += graph_.tensors[id].bytes(batch);
      }
    };
    for (const MeasureStep& step : plan_.steps()) {
      for (const TensorId id : plan_.reads(step)) count(id);
      for (const OpId op : step.ops) {
        for (const TensorId id : graph_.ops[op].outputs) count(id);
      }
    }
    constexpr double kShare = 0.8;  // the rest is for what ops keep and need beside
    return static_cast<double>(total.value) < kShare * static_cast<double>(options_.memory.value);
  }

  std::int64_t point_of(OpId op, std::int64_t batch) const {
    return signatures_.distinct[signatures_.of_op[op]].depends_on_batch ? batch : 0;
  }
  bool is_known(OpId op, std::int64_t batch) const {
    const std::int32_t index = signatures_.of_op[op];
    const std::int64_t point = point_of(op, batch);
    if (point == 0 && !curves_[index].empty()) return true;  // measured beside a smaller batch
    return options_.known.contains({signatures_.distinct[index].hash, point});
  }

  void measure_batch(std::int64_t batch, Seconds allowed) {
    const Seconds begin = wall_clock();
    values_.clear();
    samples_.assign(signatures_.distinct.size(), {});
    const std::vector<MeasureStep>& steps = plan_.steps();
    std::vector<bool> wanted(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      wanted[i] = !steps[i].always &&
                  std::any_of(steps[i].ops.begin(), steps[i].ops.end(), [&](OpId op) { return !is_known(op, batch); });
    }
    const std::vector<bool> left_out = too_long(wanted, batch, allowed);
    for (std::size_t i = 0; i < steps.size(); ++i) wanted[i] = wanted[i] && !left_out[i];
    const std::vector<bool> needed = plan_.needed(wanted, left_out);
    progress_.signatures = static_cast<int>(std::count(wanted.begin(), wanted.end(), true));
    progress_.signatures_done = 0;

    executor_->measure_op_memory(true);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (!needed[i]) continue;
      if (left_out[i]) {
        fill_outputs(steps[i], batch);
        continue;
      }
      run_or_tell(steps[i], batch, true);
      executor_->measure_op_memory(false);
      for (std::size_t n = 0; wanted[i] && n < kOfCheap && (n == 0 || last_time(steps[i]) < kCheap); ++n) {
        run_or_tell(steps[i], batch, false);
      }
      executor_->measure_op_memory(true);
      progress_.signatures_done += wanted[i] ? 1 : 0;
      tell_progress();
    }
    executor_->measure_op_memory(false);
    executor_->clear_contexts();
    for (bool again = true; again;) {
      again = false;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        if (!wanted[i] || wall_clock() - begin > allowed) continue;
        const Samples& samples = samples_[signatures_.of_op[steps[i].ops.front()]];
        if (samples.seconds.size() >= repeats_for(last_time(steps[i]))) continue;
        run_or_tell(steps[i], batch, false);
        again = true;
        tell_progress();
      }
      executor_->clear_contexts();
    }
  }

  Seconds last_time(const MeasureStep& step) const {
    Seconds time;
    for (const OpId op : step.ops) {
      const Samples& samples = samples_[signatures_.of_op[op]];
      time += Seconds(samples.seconds.empty() ? samples.first : samples.seconds.back());
    }
    return time;
  }

  // The steps that would take the most, until the others are done within the time.
  std::vector<bool> too_long(const std::vector<bool>& wanted, std::int64_t batch, Seconds allowed) const {
    const std::vector<MeasureStep>& steps = plan_.steps();
    std::vector<bool> result(steps.size());
    std::vector<std::pair<double, std::size_t>> cost;
    double total = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (!wanted[i]) continue;
      double seconds = predicted(steps[i], batch);
      seconds *= static_cast<double>(1 + repeats_for(Seconds(seconds)));
      total += seconds;
      cost.emplace_back(seconds, i);
    }
    std::sort(cost.rbegin(), cost.rend());
    for (const auto& [seconds, i] : cost) {
      if (total <= allowed.value || seconds == 0) break;
      if (steps[i].always || makes_integers(steps[i])) continue;
      result[i] = true;
      total -= seconds;
    }
    return result;
  }

  bool makes_integers(const MeasureStep& step) const {
    for (const TensorId id : graph_.ops[step.ops.front()].outputs) {
      if (id != kNone && !is_floating(graph_.tensors[id].dtype)) return true;
    }
    return false;
  }

  // Of a single run.
  double predicted(const MeasureStep& step, std::int64_t batch) const {
    double seconds = step.context == kNone ? 0 : predicted(step.context, batch);
    for (const OpId op : step.ops) seconds += predicted(op, batch);
    return seconds;
  }

  // On this machine, from the smaller batches; 0: nothing is known.
  double predicted(OpId op, std::int64_t batch) const {
    const std::vector<CurvePoint>& points = curves_[signatures_.of_op[op]];
    return points.empty() ? 0 : Curve(points).at(point_of(op, batch)).time.value * options_.emulated_speed;
  }

  void fill_outputs(const MeasureStep& step, std::int64_t batch) {
    constexpr double kAny = 0.01;
    for (const OpId op : step.ops) {
      for (const TensorId id : graph_.ops[op].outputs) {
        if (id != kNone) values_[id] = executor_->fill(id, batch, kAny);
      }
    }
  }

  TensorHandle value(TensorId tensor, std::int64_t batch) {
    if (tensor == kNone) return nullptr;
    const TensorId id = plan_.stand_in(tensor);
    TensorHandle& handle = values_[id];
    if (handle != nullptr) return handle;
    if (graph_.tensors[id].role == TensorRole::kGradient) {
      handle = executor_->fill(id, batch, 1.0);  // the seed
      return handle;
    }
    MOTLEY_CHECK(graph_.tensors[id].producer == kNone, "tensor " + graph_.tensors[id].name + " was not made");
    std::optional<HostTensor> data;
    if (options_.input && graph_.tensors[id].role == TensorRole::kInput) data = options_.input(id, batch);
    if (!data) data = synthetic_value(graph_, id, batch);
    handle = executor_->from_host(data->view());
    return handle;
  }

  std::vector<TensorHandle> inputs_of(const Op& op, std::int64_t batch) {
    std::vector<TensorHandle> inputs(op.inputs.size());
    const std::size_t count = op.is_backward() ? op.gradient_outputs.size() : op.inputs.size();
    for (std::size_t i = 0; i < count; ++i) inputs[i] = value(op.inputs[i], batch);
    return inputs;
  }

  void run_or_tell(const MeasureStep& step, std::int64_t batch, bool first) {
    try {
      run(step, batch, first);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kUnavailable) throw OutOfMemory(error.kind(), error.what());
      throw;
    }
  }

  void run(const MeasureStep& step, std::int64_t batch, bool first) {
    if (step.context != kNone) executor_->run(step.context, batch, inputs_of(graph_.ops[step.context], batch));
    for (const OpId id : step.ops) {
      const Op& op = graph_.ops[id];
      std::vector<TensorHandle> inputs = inputs_of(op, batch);
      if (!first && op.kind != OpKind::kUpdate) {  // gives its memory to the repeat
        for (const TensorId output : op.outputs) values_.erase(output);
      }
      // In a real iteration the parts of a sum are handed over, and the first is added to in place.
      if (op.kind == OpKind::kGradientSum && inputs[0] != nullptr) inputs[0] = executor_->scale(inputs[0], 1.0);
      // An accelerator is busy with the one before while the next one is launched, as in a real iteration.
      if (accelerator_ && op.kind == OpKind::kForward && !first) executor_->run(id, batch, inputs);
      const double slower = options_.pace == nullptr ? 1 : factor(id, options_.pace->now());
      stopwatch_->start();
      const std::vector<TensorHandle> outputs = executor_->run(id, batch, std::move(inputs));
      const double seconds = std::max(stopwatch_->stop().value - overhead_, 0.0) / slower;
      Samples& samples = samples_[signatures_.of_op[id]];
      if (first) {
        samples.first = std::max(seconds, 1e-9);
        samples.memory = executor_->last_memory();
      } else {
        samples.seconds.push_back(seconds);
      }
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (op.outputs[i] != kNone && outputs[i] != nullptr) values_[op.outputs[i]] = outputs[i];
      }
    }
  }

  double factor(OpId op, const Slowdown& slower) const { return is_product(graph_, op) ? slower.product : slower.pass; }

  Profile collected(std::int64_t batch) {
    Profile piece;
    piece.fingerprint = options_.fingerprint;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      Samples& samples = samples_[i];
      const Signature& signature = signatures_.distinct[i];
      const OpId op = signatures_.representative[i];
      if (samples.first == 0 || is_known(op, batch)) continue;
      if (samples.seconds.empty()) samples.seconds = {samples.first};
      CurvePoint point;
      point.batch = signature.depends_on_batch ? batch : 0;
      const double middle = median(samples.seconds);
      point.repeats = static_cast<std::int32_t>(samples.seconds.size());
      for (double& seconds : samples.seconds) seconds = std::abs(seconds - middle);
      const double usual = options_.pace == nullptr ? 1 : factor(op, options_.pace->usual());
      point.time = Seconds(middle * usual / options_.emulated_speed);
      point.spread = Seconds(median(samples.seconds) * usual / options_.emulated_speed);
      if (graph_.ops[op].kind == OpKind::kForward) point.kept = samples.memory.kept;
      point.workspace = samples.memory.workspace;
      curves_[i].push_back(point);
      piece.ops.push_back({signature.hash, signature.text, signature.dtype, {point}});
    }
    return piece;
  }

  // One entry per signature.
  static Profile merged(Profile profile) {
    std::map<std::string, std::size_t> place;
    std::vector<ProfiledOp> ops;
    for (ProfiledOp& op : profile.ops) {
      const auto [found, fresh] = place.try_emplace(op.signature, ops.size());
      if (fresh) {
        ops.push_back(std::move(op));
      } else {
        std::vector<CurvePoint>& points = ops[found->second].points;
        points.insert(points.end(), op.points.begin(), op.points.end());
      }
    }
    profile.ops = std::move(ops);
    return profile;
  }

  void tell_progress() {
    progress_.elapsed = wall_clock() - started_;
    if (!options_.progress || progress_.elapsed - told_ < Seconds(0.1)) return;
    told_ = progress_.elapsed;
    options_.progress(progress_);
  }

  const Graph& graph_;
  const MeasureOptions& options_;
  Seconds started_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Stopwatch> stopwatch_;
  bool accelerator_;
  Signatures signatures_;
  MeasurePlan plan_;
  std::vector<std::vector<CurvePoint>> curves_;  // by signature: what was found so far
  std::vector<Samples> samples_;                 // by signature, at this batch size
  std::map<TensorId, TensorHandle> values_;
  double overhead_ = 0;  // of the stopwatch
  MeasureProgress progress_;
  Seconds told_;
};

}  // namespace

Profile measure(const Graph& graph, const std::string& device, const MeasureOptions& options) {
  return Measurement(graph, device, options).run();
}

}  // namespace motley

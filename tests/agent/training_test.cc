#include "agent/training.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "agent/checkpoint.h"
#include "base/error.h"
#include "base/file.h"
#include "compiler/compiler.h"
#include "compiler/schedule/schedule.h"
#include "graph/training_graph.h"
#include "runtime/gloo_communicator.h"
#include "runtime/safetensors.h"
#include "tests/support/error_of.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

// Every op takes a millisecond everywhere; only the order of programs follows from it.
class EvenCosts : public CostModel {
 public:
  OpCost op(OpId, DeviceIndex, std::int64_t) const override { return {.time = Seconds{1e-3}}; }
  Seconds memory_pass(DeviceIndex, Bytes) const override { return Seconds{1e-5}; }
  MessageCosts messages(DeviceIndex) const override { return {.overhead = Seconds(1e-5)}; }
  Bytes context(DeviceIndex) const override { return {}; }
};

// Devices a/0, b/0, ... on one switch; a worker of each is a thread of this process.
class TrainingTest : public testing::Test {
 protected:
  static constexpr int kSteps = 50;
  static constexpr std::int64_t kBatch = 8;

  void SetUp() override {
    const char* models = std::getenv("MOTLEY_TEST_MODELS");
    ASSERT_NE(models, nullptr) << "run by ctest";
    models_ = models;
  }
  void open(const std::string& model, OptimizerOptions::Kind kind, int max_groups = 20) {
    model_ = models_ / (model + ".pt2");
    TrainingOptions options;
    options.max_groups = max_groups;
    options.optimizer.kind = kind;
    const bool is_sgd = kind == OptimizerOptions::Kind::kSgd;
    options.optimizer.learning_rate = is_sgd ? 0.05 : 1e-3;
    options.optimizer.momentum = is_sgd ? 0.9 : 0;
    options.optimizer.weight_decay = is_sgd ? 0 : 0.01;
    graph_ = load_training_graph(model_.string(), options);
    // PyTorch trains once for all tests.
    static TemporaryFolder references;
    const std::string name = model + (is_sgd ? "-sgd" : "-adamw");
    data_ = references / (name + "-data");
    reference_ = references / name;
    if (std::filesystem::exists(reference_)) return;
    run_python_file("tests/agent/reference_training.py",
                    {model_.string(), data_.string(), std::to_string(kSteps), std::to_string(kBatch), "3",
                     is_sgd ? "sgd" : "adamw", reference_.string()});
  }
  Cluster cluster(std::size_t devices) const {
    std::string yaml = "nodes:\n";
    for (std::size_t i = 0; i < devices; ++i) {
      yaml += std::string("  - {name: ") + "abcdef"[i] + ", devices: [{kind: cpu, memory: 1GiB}]}\n";
    }
    yaml += "switches: [net]\nlinks:\n";
    for (std::size_t i = 0; i < devices; ++i) {
      yaml += std::string("  - {between: [") + "abcdef"[i] + ", net], bandwidth: 10Gbps, latency: 20us}\n";
    }
    return parse_cluster(yaml, "test", [](const std::string&) {
      return KindDefaults{Bytes{1 << 30}, BytesPerSecond{1e10}, Seconds{1e-6}};
    });
  }
  // Group g gets decision g modulo their number.
  Deployment deploy(std::size_t devices, const std::vector<GroupDecision>& decisions) {
    Strategy strategy{.name = "test", .bucket = Bytes{16 << 10}};
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) strategy.groups.push_back(decisions[g % decisions.size()]);
    return deploy(devices, strategy);
  }
  // Stages of consecutive groups, as many in each.
  Deployment deploy_pipeline(std::size_t devices, const std::vector<GroupDecision>& stages, std::int64_t micro_batches,
                             const std::string& schedule) {
    Strategy strategy{.name = "test", .micro_batches = micro_batches, .schedule = schedule};
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
      const std::size_t stage = g * stages.size() / graph_.groups.size();
      strategy.groups.push_back(stages[stage]);
      strategy.groups.back().stage = static_cast<std::int32_t>(stage);
    }
    return deploy(devices, strategy);
  }
  Deployment deploy(std::size_t devices, const Strategy& strategy, std::int64_t batch = kBatch) {
    auto result = compile(graph_, cluster(devices), EvenCosts(), strategy, batch);
    if (const auto* reason = std::get_if<NotCompilable>(&result)) throw std::runtime_error(reason->reason);
    return std::get<Deployment>(std::move(result));
  }

  struct Outcome {
    std::vector<double> losses;
    std::vector<std::filesystem::path> weights;      // parts
    std::vector<std::filesystem::path> checkpoints;  // parts
    std::size_t timeline_events = 0;
  };
  // Trains on threads; `change` may change the task of a rank.
  Outcome train(const Deployment& deployment, const std::function<void(int, proto::TrainTask&)>& change = {}) {
    Outcome outcome;
    outcome.losses.assign(kSteps, 0);
    std::mutex mutex;
    std::exception_ptr failure;
    const auto store = make_memory_store();
    const auto size = static_cast<int>(deployment.programs.size());
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] {
          try {
            proto::TrainTask task;
            for (const Program& program : deployment.programs) task.add_device_of_rank(program.device);
            task.set_device(task.device_of_rank(rank));
            task.set_model(model_.string());
            task.set_data(data_.string());
            task.set_seed(3);
            task.set_iterations(kSteps);
            task.set_save_weights(true);
            task.set_output(folder_.path().string());
            task.set_message_timeout_seconds(60);
            task.add_timeline_iterations(1);
            if (change) change(rank, task);
            proto::Meeting meeting;
            meeting.set_timeout_seconds(30);
            const auto executor = Executor::open("cpu", graph_);
            const auto communicator =
                make_gloo_communicator({.store = store, .rank = rank, .size = size, .timeout = Seconds{30}});
            run_training(task, graph_, deployment, *executor, *communicator, meeting, {}, [&](const auto& event) {
              const std::scoped_lock lock(mutex);
              if (event.has_metrics()) outcome.losses[event.metrics().iteration()] += event.metrics().loss();
              if (event.has_timeline()) outcome.timeline_events += event.timeline().events_size();
              if (event.has_saved()) {
                (event.saved().final() ? outcome.weights : outcome.checkpoints).push_back(event.saved().path());
              }
            });
          } catch (...) {
            const std::scoped_lock lock(mutex);
            if (!failure) failure = std::current_exception();
          }
        });
      }
    }
    if (failure) std::rethrow_exception(failure);
    return outcome;
  }
  // The first loss of each, by the same workers: all have a program for every device.
  std::vector<double> first_losses(const std::vector<Deployment>& deployments) {
    std::vector<double> losses(deployments.size());
    std::mutex mutex;
    std::exception_ptr failure;
    const auto store = make_memory_store();
    const auto size = static_cast<int>(deployments[0].programs.size());
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] {
          try {
            const auto executor = Executor::open("cpu", graph_);
            const auto communicator =
                make_gloo_communicator({.store = store, .rank = rank, .size = size, .timeout = Seconds{30}});
            proto::TrainTask task;
            for (int other = 0; other < size; ++other) task.add_device_of_rank(other);
            task.set_device(rank);
            task.set_model(model_.string());
            task.set_data(data_.string());
            task.set_iterations(1);
            task.set_message_timeout_seconds(60);
            proto::Meeting meeting;
            meeting.set_timeout_seconds(30);
            for (std::size_t d = 0; d < deployments.size(); ++d) {
              run_training(task, graph_, deployments[d], *executor, *communicator, meeting, {}, [&](const auto& event) {
                const std::scoped_lock lock(mutex);
                if (event.has_metrics()) losses[d] += event.metrics().loss();
              });
            }
          } catch (...) {
            const std::scoped_lock lock(mutex);
            if (!failure) failure = std::current_exception();
          }
        });
      }
    }
    if (failure) std::rethrow_exception(failure);
    return losses;
  }
  // The largest relative difference of a loss from PyTorch's, from iteration `from` on.
  double difference(const Outcome& outcome, int from = 0) { return difference(outcome, reference_, from); }
  double difference(const Outcome& outcome, const std::filesystem::path& losses_of, int from = 0) {
    const SafetensorsFile reference(losses_of);
    std::vector<float> losses(kSteps);
    std::memcpy(losses.data(), reference.find("losses")->bytes.data(), kSteps * sizeof(float));
    double worst = 0;
    for (int i = from; i < kSteps; ++i) worst = std::max(worst, std::abs(outcome.losses[i] / losses[i] - 1));
    return worst;
  }
  // From PyTorch with weights that lack updates. `samples`: of each batch of an iteration that an update follows;
  // `updates`: how many of them the weights of a stage have had when a batch takes them.
  double difference_from_delayed(const Deployment& deployment, int stages, const std::vector<int>& samples,
                                 const std::function<int(int batch, int stage)>& updates) {
    std::string names;
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
      const int stage = static_cast<int>(g * stages / graph_.groups.size());
      for (const TensorId parameter : graph_.groups[g].parameters) {
        std::string taken;
        for (int b = 0; b < static_cast<int>(samples.size()); ++b) {
          taken += (b > 0 ? "," : "") + std::to_string(updates(b, stage));
        }
        names += (names.empty() ? "\"" : ",\"") + graph_.tensors[parameter].name + "\":[" + taken + "]";
      }
    }
    std::string sizes;
    for (const int size : samples) sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
    const auto delayed = folder_ / "delayed";
    run_python_file("tests/agent/delayed_training.py",
                    {model_.string(), data_.string(), std::to_string(kSteps), std::to_string(kBatch), "3",
                     R"({"samples":[)" + sizes + R"(],"updates":{)" + names + "}}", delayed.string()});
    return difference(train(deployment), delayed);
  }
  static GroupDecision on(std::vector<Share> shares, GradientMethod method = GradientMethod::kAllReduce) {
    return {std::move(shares), method};
  }

  static constexpr auto kServer = GradientMethod::kParameterServer;
  static constexpr auto kAllReduce = GradientMethod::kAllReduce;
  static constexpr auto kSgd = OptimizerOptions::Kind::kSgd;
  TemporaryFolder folder_;
  std::filesystem::path models_;
  std::filesystem::path model_;
  std::filesystem::path data_;
  std::filesystem::path reference_;
  Graph graph_;
};

TEST_F(TrainingTest, FollowsPyTorchOnOneDevice) {
  open("gpt2", OptimizerOptions::Kind::kAdamW);
  const Outcome outcome = train(deploy(1, {on({{0}})}));
  EXPECT_LT(difference(outcome), 1e-4);
}

TEST_F(TrainingTest, FollowsPyTorchOnTwoDevices) {
  open("gpt2", kSgd);
  // 8 samples as 6 + 2 and 5 + 3; cuts in the middle of blocks.
  EXPECT_LT(difference(train(deploy(2, {on({{0, 3}, {1, 1}})}))), 1e-4) << "all-reduce";
  EXPECT_LT(difference(train(deploy(2, {on({{0, 3}, {1, 1}}, kServer)}))), 1e-4) << "parameter server";
  EXPECT_LT(difference(train(deploy(2, {on({{0}}), on({{1}})}))), 1e-4) << "cut at every group";
}

TEST_F(TrainingTest, FollowsPyTorchOnThreeDevices) {
  open("gpt2", OptimizerOptions::Kind::kAdamW);
  const Outcome mixed = train(deploy(
      3, {on({{0, 4}, {1, 2}, {2, 1}}), on({{1}}), on({{0, 2}, {2, 1}}, kServer), on({{1, 1}, {2, 5}}), on({{2}})}));
  EXPECT_LT(difference(mixed), 1e-4);
  EXPECT_LT(difference(train(deploy(3, {on({{0, 4}, {1, 2}, {2, 1}}, kServer)}))), 1e-4) << "parameter server";
}

TEST_F(TrainingTest, FollowsPyTorchOnImages) {
  open("vgg", kSgd);
  EXPECT_LT(difference(train(deploy(3, {on({{0, 5}, {1, 2}, {2, 1}}), on({{0, 5}, {1, 2}, {2, 1}}, kServer)}))), 1e-4);
}

// 8 samples in 3, 4 or 8 micro-batches; GPT-2's embedding is in the first stage and, tied, in the last one.
TEST_F(TrainingTest, FollowsPyTorchInPipelines) {
  open("gpt2", OptimizerOptions::Kind::kAdamW);
  EXPECT_LT(difference(train(deploy_pipeline(2, {on({{0}}), on({{1}})}, 4, "gpipe"))), 1e-4);
  EXPECT_LT(difference(train(deploy_pipeline(3, {on({{2}}), on({{0}}), on({{1}})}, 8, "1f1b"))), 1e-4);
  EXPECT_LT(difference(train(deploy_pipeline(3, {on({{0, 3}, {2, 1}}), on({{1}})}, 3, "1f1b"))), 1e-4);
  EXPECT_LT(difference(train(deploy_pipeline(2, {on({{0, 3}, {1, 1}}, kServer)}, 2, "1f1b"))), 1e-4);
}

// BPipe: the first of four stages would keep four micro-batches, of five and six the first two; three and four are the
// most. One is on two devices, its partner on one.
TEST_F(TrainingTest, FollowsPyTorchWhereActivationsAreLent) {
  open("gpt2", OptimizerOptions::Kind::kAdamW);
  EXPECT_LT(difference(train(deploy_pipeline(4, {on({{2}}), on({{0}}), on({{1}}), on({{3}})}, 8, "bpipe"))), 1e-4);
  std::vector<GroupDecision> stages;
  for (DeviceIndex device = 0; device < 6; ++device) stages.push_back(on({{device}}));
  EXPECT_LT(difference(train(deploy_pipeline(6, stages, 7, "bpipe"))), 1e-4);
  EXPECT_LT(difference(train(deploy_pipeline(5, {on({{0, 1}, {4, 2}}), on({{1}}), on({{2}}), on({{3}})}, 4, "bpipe"))),
            1e-4);
  for (GroupDecision& stage : stages) stage.recompute = Recompute::kSelective;
  stages.resize(4);
  EXPECT_LT(difference(train(deploy_pipeline(4, stages, 8, "bpipe"))), 1e-4) << "some made again";
}

TEST_F(TrainingTest, FollowsPyTorchOnImagesWhereActivationsAreLent) {
  open("vgg", kSgd);
  EXPECT_LT(difference(train(deploy_pipeline(4, {on({{0}}), on({{1}}), on({{2}}), on({{3}})}, 8, "bpipe"))), 1e-4);
}

// PipeDream: stage s of p lacks the updates of the p - 1 - s micro-batches before (Narayanan et al., SOSP 2019). VGG's
// layers are each on one stage; GPT-2's embedding is on the first and the last, and as late as on the first.
TEST_F(TrainingTest, FollowsPyTorchWithAVersionOfWeightsPerMicroBatch) {
  const auto taken = [](int stages) {
    return [stages](int batch, int stage) { return std::max(0, batch - (stages - 1 - stage)); };
  };
  open("vgg", kSgd);
  EXPECT_LT(difference_from_delayed(deploy_pipeline(3, {on({{0}}), on({{1}}), on({{2}})}, 8, "pipedream"), 3,
                                    {1, 1, 1, 1, 1, 1, 1, 1}, taken(3)),
            1e-4);
  open("gpt2", kSgd);
  EXPECT_LT(difference_from_delayed(deploy_pipeline(2, {on({{0}}), on({{1}})}, 3, "pipedream"), 2, {3, 3, 2}, taken(2)),
            1e-4);
  for (const GradientMethod method : {kAllReduce, kServer}) {
    EXPECT_LT(difference_from_delayed(deploy_pipeline(3, {on({{0, 3}, {2, 1}}, method), on({{1}})}, 4, "pipedream"), 2,
                                      {2, 2, 2, 2}, taken(2)),
              1e-4)
        << to_string(method);
  }
}

// PipeDream-2BW: batches of p micro-batches or more, each without the update of the one before (Narayanan et al., ICML
// 2021).
TEST_F(TrainingTest, FollowsPyTorchWithTwoVersionsOfWeights) {
  const auto taken = [](int batch, int) { return std::max(0, batch - 1); };
  open("gpt2", kSgd);
  EXPECT_LT(
      difference_from_delayed(deploy_pipeline(2, {on({{0}}), on({{1}})}, 7, "pipedream-2bw"), 2, {4, 2, 2}, taken),
      1e-4);
  for (const GradientMethod method : {kAllReduce, kServer}) {
    EXPECT_LT(difference_from_delayed(deploy_pipeline(3, {on({{0, 2}, {2, 1}}, method), on({{1}})}, 4, "pipedream-2bw"),
                                      2, {4, 4}, taken),
              1e-4)
        << to_string(method);
  }
}

// Every schedule, on 1 to 6 workers, with 1 to 13 micro-batches, of each a third (all are run on plain arrays, in
// tests/compiler): they get to the end, all with the same loss but those that update before the last micro-batch.
TEST_F(TrainingTest, EveryScheduleRunsToItsEnd) {
  open("gpt2", kSgd, 40);
  constexpr std::int64_t kMost = 13;
  const std::vector<std::string> synchronous = synchronous_schedules();
  for (std::size_t workers = 1; workers <= 6; ++workers) {
    std::vector<Deployment> deployments;
    for (const std::string& schedule : schedule_names()) {
      const bool v_shape = schedule == "zb-v";
      const std::size_t stages = workers * (v_shape || schedule == "interleaved-1f1b" ? 2 : 1);
      Strategy strategy{.name = schedule, .schedule = schedule};
      for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
        const std::size_t stage = g * stages / graph_.groups.size();
        const std::size_t worker = v_shape && stage >= workers ? stages - 1 - stage : stage % workers;
        strategy.groups.push_back(on({{static_cast<DeviceIndex>(worker)}}));
        strategy.groups.back().stage = static_cast<std::int32_t>(stage);
      }
      const auto first = static_cast<std::int64_t>(1 + (deployments.size() + workers) % 3);
      for (strategy.micro_batches = first; strategy.micro_batches <= kMost; strategy.micro_batches += 3) {
        deployments.push_back(deploy(workers, strategy, kMost));
      }
    }
    const std::vector<double> losses = first_losses(deployments);
    for (std::size_t d = 0; d < deployments.size(); ++d) {
      const std::string& schedule = deployments[d].strategy_name;
      const bool same = std::ranges::find(synchronous, schedule) != synchronous.end();
      EXPECT_NEAR(losses[d] / losses[0], 1, same ? 1e-4 : 0.5) << schedule << " on " << workers << " workers";
    }
  }
}

TEST_F(TrainingTest, FollowsPyTorchWhereLittleIsKept) {
  open("gpt2", OptimizerOptions::Kind::kAdamW);
  const auto keeping = [](GroupDecision decision, Recompute recompute) {
    decision.recompute = recompute;
    return decision;
  };
  EXPECT_LT(difference(train(deploy(1, {keeping(on({{0}}), Recompute::kFull)}))), 1e-4) << "full";
  EXPECT_LT(difference(train(deploy(1, {keeping(on({{0}}), Recompute::kSelective)}))), 1e-4) << "selective";
  EXPECT_LT(difference(train(deploy_pipeline(
                2, {keeping(on({{0}}), Recompute::kFull), keeping(on({{1}}), Recompute::kSelective)}, 4, "zb-h1"))),
            1e-4)
      << "a pipeline";
}

TEST_F(TrainingTest, SavesTheModelsOwnWeights) {
  open("gpt2", kSgd);
  const Outcome outcome = train(deploy(2, {on({{0}, {1}}), on({{1}})}));
  join_parts(outcome.weights, folder_ / "weights", kSteps, graph_.fingerprint);
  const SafetensorsFile reference(reference_);
  const SafetensorsFile weights(folder_ / "weights");
  EXPECT_EQ(weights.metadata().at("iteration"), std::to_string(kSteps));
  std::size_t compared = 0;
  for (const NamedTensor& tensor : reference.tensors()) {
    if (!tensor.name.starts_with("weight.")) continue;
    const NamedTensor* mine = weights.find(tensor.name.substr(7));
    if (mine == nullptr) continue;  // tied: under its other name
    ++compared;
    ASSERT_EQ(mine->shape, tensor.shape) << tensor.name;
    const auto* expected = reinterpret_cast<const float*>(tensor.bytes.data());
    const auto* found = reinterpret_cast<const float*>(mine->bytes.data());
    for (std::size_t i = 0; i < tensor.bytes.size() / sizeof(float); ++i) ASSERT_NEAR(found[i], expected[i], 1e-3);
  }
  EXPECT_EQ(compared, 27U);  // two blocks of 12, the positions' embedding, the last norm's two
}

TEST_F(TrainingTest, GoesOnFromACheckpointOnOtherDevices) {
  open("gpt2", OptimizerOptions::Kind::kAdamW);
  const Outcome first = train(deploy(2, {on({{0, 3}, {1, 1}}, kServer)}), [](int, proto::TrainTask& task) {
    task.set_iterations(20);
    task.set_checkpoint_every(20);
  });
  join_parts(first.checkpoints, folder_ / "checkpoint", 20, graph_.fingerprint);
  const Outcome second = train(deploy(3, {on({{0}, {1}, {2}})}), [&](int, proto::TrainTask& task) {
    task.set_checkpoint((folder_ / "checkpoint").string());
    task.set_first_iteration(20);
  });
  EXPECT_LT(difference(second, 20), 1e-4);
}

TEST_F(TrainingTest, MeasuresEveryInstruction) {
  open("gpt2", kSgd);
  const Deployment deployment = deploy(2, {on({{0, 3}, {1, 1}}), on({{0}})});
  std::size_t instructions = 0;
  for (const Program& program : deployment.programs) instructions += program.instructions.size();
  const Outcome outcome = train(deployment, [](int, proto::TrainTask& task) { task.set_iterations(2); });
  EXPECT_EQ(outcome.timeline_events, instructions);
}

TEST_F(TrainingTest, APeerThatFailsIsToldToTheOthers) {
  open("gpt2", kSgd);
  const Deployment deployment = deploy(2, {on({{0}, {1}})});
  const auto lose_folder = [&](int rank, proto::TrainTask& task) {
    task.set_iterations(2);
    if (rank == 1) task.set_output((folder_ / "nowhere").string());
  };
  const std::string message = support::error_of([&] { train(deployment, lose_folder); });
  EXPECT_THAT(message, testing::HasSubstr("nowhere/weights.1.part"));  // both say so
}

TEST_F(TrainingTest, RefusesAnotherModelsCheckpoint) {
  open("gpt2", kSgd);
  write_safetensors(folder_ / "other", {});
  const std::string message = support::error_of([&] {
    train(deploy(1, {on({{0}})}),
          [&](int, proto::TrainTask& task) { task.set_checkpoint((folder_ / "other").string()); });
  });
  EXPECT_THAT(message, testing::HasSubstr("it is of another model or optimizer"));
}

}  // namespace
}  // namespace motley

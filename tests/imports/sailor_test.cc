#include "imports/sailor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "imports/validate.h"
#include "strategy/evaluate.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// A model of three layers on GPUs "G" with two to a node, that send 1 GB/s between nodes whatever the size.
class SailorTest : public testing::Test {
 protected:
  SailorTest() {
    write("training_config_m.json", R"({"model": "M"})");
    write("basic_cluster_config.json", R"({"G": {"gpus_per_node": 2, "mem_per_gpu": 4000000000}})");
    write("llm_info.json", R"({"M": {"1": {
      "0": {"params_bytes": 4000, "act_output_bytes": 1000, "act_mem_bytes": 10000},
      "1": {"params_bytes": 4000, "act_output_bytes": 1000, "act_mem_bytes": 10000},
      "2": {"params_bytes": 4000, "act_output_bytes": 500, "act_mem_bytes": 10000}}}})");
    write("profiles/M/G/profile.json", R"({"1": {"1": {"0": [1, 2, 0.5], "1": [1, 2, 0.5], "2": [2, 4, 1]}}})");
    write("network/network_coeffs_all_homo.json", R"({"inter": {"G": {"1": [[0, 0, 1e-6], 1000]}},
      "intra": {"G": {"2": [[0, 0, 2e-6], 2000]}}})");
  }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_file_atomically(folder_ / name, text);
  }
  // Of one-GPU replicas on nodes of `gpus` each.
  std::string plan(const std::vector<std::pair<std::string, int>>& stages, int batch, int gpus = 1) const {
    std::string layers, replicas;
    for (const auto& [of_stage, count] : stages) {
      layers += (layers.empty() ? "" : ", ") + of_stage;
      std::string groups;
      for (int r = 0; r < count; ++r) {
        groups += std::string(r == 0 ? "" : ", ") + R"([[["G", )" + std::to_string(gpus) + R"(, "z"]], 1])";
      }
      replicas += (replicas.empty() ? "[" : ", [") + groups + "]";
    }
    return R"({"pipeline_list": [{"layers_per_stage": [)" + layers + R"(], "tmp_per_stage": [)" + replicas +
           R"(]}], "mbs": 1, "gbs": )" + std::to_string(batch) + R"(, "real": 20, "max_mem": 2000000000})";
  }
  ImportedJob job(const std::string& plan) const {
    write("plans/plan_config_a.json", plan);
    return job_of(SailorProfiles(folder_.path(), ""), read_sailor_plan(folder_ / "plans/plan_config_a.json"));
  }
  static SimulationResult simulated(const ImportedJob& job) {
    return Evaluator(job.graph, job.cluster, *job.costs, job.batch).evaluate(job.strategy).simulation;
  }
  std::string refused(const std::string& plan, ErrorKind kind = ErrorKind::kInvalidInput) const {
    return support::error_of([&] { job(plan); }, kind);
  }

  TemporaryFolder folder_;
};

// Two stages, two micro-batches. A message is 1000 B on 1000 B/s: 1 s, for which both ends' compute waits.
//   stage 0: F0 0-2; F1 2-5, with the message of F0 from 2 to 3. Stage 1: F0 3-5; B0 5-10, with the message of F1 from
//   5 to 6. B0's gradient goes from 10 to 11: F1 10-13. B1 13-17; its gradient goes from 17 to 18: update 17-19.
//   stage 0: B0 11-15, B1 18-22, two updates of 0.5 s: 23.
TEST_F(SailorTest, TheTimeOfAPipelineCanBeWorkedOut) {
  EXPECT_DOUBLE_EQ(simulated(job(plan({{"[0, 1]", 1}, {"[2]", 1}}, 2))).iteration.value, 23);
}

// Each of two replicas does 12 s for its sample; the ring of two sends 2 (2 - 1)/2 of 12000 B at 1000 B/s, or at 2000
// B/s inside a node; the update takes 2 s.
TEST_F(SailorTest, GradientsAreReducedBetweenReplicas) {
  EXPECT_NEAR(simulated(job(plan({{"[0, 1, 2]", 2}}, 2))).iteration.value, 26, 0.01);
  EXPECT_NEAR(simulated(job(plan({{"[0, 1, 2]", 2}}, 2, 2))).iteration.value, 20, 0.01);
}

// Most is held when the last layer makes its weights' gradient: 12000 B of weights, twice that of Adam's moments, what
// the layers keep and the outputs between them, 29500 B, the gradients of the last output, 500 B, of its input, 1000 B,
// and of its weights, 4000 B. Beside it is what the software loads.
TEST_F(SailorTest, TheMemoryOfADeviceCanBeWorkedOut) {
  const SimulationResult result = simulated(job(plan({{"[0, 1, 2]", 1}}, 1)));
  ASSERT_THAT(result.memory, SizeIs(1));
  EXPECT_NEAR(static_cast<double>((result.memory[0].peak - Bytes(2'000'000'000)).value), 71000, 16);
}

// Where the training config tells heads and sequence, a block has 3 * 4 B * heads * sequence^2 of scores a sample. That
// is more than the weights' gradient of 4000 B, without which the peak is an op earlier, at the gradient of the input.
TEST_F(SailorTest, AttentionNeedsRoomForItsScores) {
  const auto peak = [&] { return simulated(job(plan({{"[0, 1, 2]", 1}}, 1))).memory[0].peak; };
  const Bytes without = peak();
  write("training_config_m.json", R"({"model": "M", "num_layers": 1, "heads": 2, "sequence_length": 100})");
  EXPECT_EQ(peak() - without, Bytes(3 * 4 * 2 * 100 * 100 - 4000));
}

TEST_F(SailorTest, ReadsWhatAPlanSays) {
  write("p.json", R"({"mbs": 4, "gbs": 64, "pipeline_list": [{"layers_per_stage": [[0, 1], [2]],
    "tmp_per_stage": [[[[["G", 4, "z"]], 2], [[["H", 4, "z"]], 4]], [[[["G", 4, "z"]], 1]]]}]})");
  const SailorPlan plan = read_sailor_plan(folder_ / "p.json");
  ASSERT_THAT(plan.stages, SizeIs(2));
  EXPECT_EQ(plan.stages[0].layers, (std::vector<std::int32_t>{0, 1}));
  ASSERT_THAT(plan.stages[0].replicas, SizeIs(2));
  EXPECT_EQ(plan.stages[0].replicas[1].gpu, "H");
  EXPECT_EQ(plan.stages[0].replicas[1].tensor_parallel, 4);
  EXPECT_EQ(plan.stages[0].replicas[1].gpus_per_node, 4);
  EXPECT_EQ(plan.micro_batch, 4);
  EXPECT_EQ(plan.batch, 64);
  EXPECT_FALSE(plan.seconds || plan.memory);
}

// 2 L^2 + 4 L + 8 GB/s at 2^L MB, at most 20 GB/s: at 1/2, 1, 2 and 4 MB that is 6, 8, 14 and 20. The least is at
// L = -1; what goes in less time than a smaller message does not make that one slower. For two at once, half each.
TEST_F(SailorTest, BandwidthsFollowThePolynomial) {
  const std::vector<RatePoint> rates = rates_of({{2, 4, 8}, BytesPerSecond(20e9)}, 2);
  const auto at = [&](std::int64_t bytes) {
    return std::ranges::find(rates, Bytes(bytes), &RatePoint::bytes)->rate.value / 1e9;
  };
  EXPECT_DOUBLE_EQ(at(1'000'000), 4);
  EXPECT_DOUBLE_EQ(at(2'000'000), 7);
  EXPECT_DOUBLE_EQ(at(4'000'000), 10);
  EXPECT_DOUBLE_EQ(rates.back().rate.value, 10e9);
  for (std::size_t i = 1; i < rates.size(); ++i) {
    EXPECT_LE(rates[i - 1].bytes / rates[i - 1].rate, rates[i].bytes / rates[i].rate);
    EXPECT_LE(rates[i - 1].rate, rates[i].rate);
  }
}

TEST_F(SailorTest, ErrorsNameTheFileAndThePlace) {
  EXPECT_THAT(refused("{"), HasSubstr("plan_config_a.json: is no JSON"));
  EXPECT_THAT(refused("{}"), HasSubstr("plan_config_a.json: /: has no \"pipeline_list\"; there is nothing"));
  EXPECT_THAT(refused(R"({"pipeline_list": [{"layers_per_stage": [["x"]], "tmp_per_stage": [[]]}]})"),
              HasSubstr("/pipeline_list/0/layers_per_stage/0/0: should be a number"));
  EXPECT_THAT(refused(plan({{"[0, 1]", 1}, {"[1, 2]", 1}}, 2)), HasSubstr("layer 1 stands twice"));
  EXPECT_THAT(refused(plan({{"[0, 1, 2, 3]", 1}}, 2)),
              HasSubstr("layer 3 stands twice, or M with its 3 layers has none"));
  EXPECT_THAT(refused(plan({{"[0, 2]", 1}}, 2), ErrorKind::kUnsupported), HasSubstr("leaves out layer 1 of M"));
  EXPECT_THAT(refused(R"({"pipeline_list": []})", ErrorKind::kUnsupported), HasSubstr("has 0 pipelines"));
  write("llm_info.json", R"({"M": {"2": {"0": {}}}})");
  EXPECT_THAT(refused(plan({{"[0]", 1}}, 2)), HasSubstr("llm_info.json: /M: has no \"1\"; there is 2"));
  write("profiles/M/G/profile.json", R"({"1": {"1": {"0": [1, -2, 0.5]}}})");
  write("llm_info.json", R"({"M": {"1": {"0": {"params_bytes": 1, "act_output_bytes": 1, "act_mem_bytes": 1}}}})");
  EXPECT_THAT(refused(plan({{"[0]", 1}}, 2)), HasSubstr("profile.json: /1/1/0/1: should be a number, 0 or more"));
}

TEST_F(SailorTest, ValidateComparesEveryPlan) {
  job(plan({{"[0, 1]", 1}, {"[2]", 1}}, 2));  // 23 s, measured as 20 s
  write("plans/deeper/plan_config_b.json", plan({{"[0, 2]", 1}}, 2));
  const std::vector<ValidatedPlan> plans = validate(folder_ / "plans", "");
  ASSERT_THAT(plans, SizeIs(2));
  EXPECT_EQ(plans[1].name, "plan_config_a.json");
  EXPECT_NEAR(plans[1].time_error().value(), 23.0 / 20 - 1, 1e-9);
  EXPECT_NEAR(plans[1].memory_error().value(), 0, 1e-4);
  EXPECT_EQ(plans[0].name, "deeper/plan_config_b.json");
  EXPECT_THAT(plans[0].not_predicted, HasSubstr("leaves out layer 1"));
  EXPECT_FALSE(plans[0].time_error());
  EXPECT_THAT(support::error_of([&] { validate(folder_ / "profiles", ""); }, ErrorKind::kNotFound),
              HasSubstr("there is no plan_config_*.json"));
}

TEST(ErrorSummaryTest, CountsWhatWasCompared) {
  const ErrorSummary summary = summary_of({0.10, std::nullopt, -0.04, 0.01});
  EXPECT_EQ(summary.plans, 3U);
  EXPECT_DOUBLE_EQ(summary.mean, 0.05);
  EXPECT_DOUBLE_EQ(summary.worst, 0.10);
  EXPECT_DOUBLE_EQ(summary.most_under, 0.04);
}

}  // namespace
}  // namespace motley

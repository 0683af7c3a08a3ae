#include "imports/profiled_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "profiler/catalogue.h"
#include "strategy/evaluate.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace motley {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ProfiledModelTest : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_file_atomically(folder_ / name, text);
    return folder_ / name;
  }
  // Two layers of 3 ms and 6 ms, both ways; 4 kB between them.
  std::filesystem::path pipedream() const {
    return file("m.txt",
                "n1 -- Conv2d -- forward_compute_time=1, backward_compute_time=2, activation_size=4000, "
                "parameter_size=400\n"
                "n2 -- Linear -- forward_compute_time=2, backward_compute_time=4, activation_size=40, "
                "parameter_size=800\n"
                "\tn1 -- n2\n");
  }
  std::filesystem::path sailor() const {
    file("s/basic_cluster_config.json", R"({"A100-40": {"gpus_per_node": 2, "mem_per_gpu": 40000000000},
      "V100-16": {"gpus_per_node": 4, "mem_per_gpu": 16000000000}})");
    file("s/llm_info.json",
         R"({"M": {"1": {"0": {"params_bytes": 8000, "act_output_bytes": 1000, "act_mem_bytes": 10000}},
      "2": {"0": {"params_bytes": 4000, "act_output_bytes": 1000, "act_mem_bytes": 5000}}}})");
    file("s/profiles/M/A100-40/profile.json", R"({"1": {"1": {"0": [1, 2, 0]}, "2": {"0": [0.75, 1.5, 0]}}})");
    file("s/profiles/M/V100-16/profile.json", R"({"1": {"1": {"0": [2, 4, 0]}, "2": {"0": [1.5, 3, 0]}}})");
    file("s/network/network_coeffs_all_homo.json",
         R"({"inter": {"A100-40": {"2": [[0, 0, 4], 4e9]}, "V100-16": {"4": [[0, 0, 4], 4e9]}},
             "intra": {"A100-40": {"2": [[0, 0, 8], 8e9]}, "V100-16": {"2": [[0, 0, 8], 8e9]}}})");
    return folder_ / "s/profiles/M";
  }
  static Cluster cluster(const std::vector<std::string>& kinds) {
    std::string text = "nodes:\n  - name: n\n    devices:\n";
    for (const std::string& kind : kinds) text += "      - {kind: " + kind + ", count: 2, memory: 16GiB}\n";
    return parse_cluster(text + "    peer: {bandwidth: 1GB/s, latency: 0s}\n", "c.yaml", catalogue_defaults);
  }
  static double seconds_on(const ProfiledJob& job, DeviceIndex device) {  // of a layer's forward op "n1" or "layer0"
    return job.costs->op(0, device, 1).time.value;
  }
  static std::string refused(const std::function<void()>& call, ErrorKind kind = ErrorKind::kInvalidInput) {
    return support::error_of(call, kind);
  }

  TemporaryFolder folder_;
};

TEST_F(ProfiledModelTest, KnowsAFileByItsContent) {
  EXPECT_THAT(read_profiled_model(pipedream(), Bytes(0))->title(), HasSubstr("PipeDream's graph"));
  const auto piper = file("p", R"({"nodes": [{"id": 1, "name": "a", "TMPCs": {"2": [
      {"id": "vanilla", "timePerSample": 3, "parameterSize": 4, "memoryUsageA": 1}]}}], "edges": []})");
  EXPECT_THAT(read_profiled_model(piper, Bytes(0))->degrees(""), ElementsAre(2));
  EXPECT_THAT(read_profiled_model(sailor(), Bytes(0))->kinds(), ElementsAre("A100-40", "V100-16"));
  EXPECT_EQ(read_profiled_model(file("model.pt2", "PK\3\4"), Bytes(0)), nullptr);
  EXPECT_EQ(read_profiled_model(folder_ / "missing", Bytes(0)), nullptr);
  const auto metis = file("m/DeviceType.A100_tp1_bs1.json", "{}").parent_path();
  EXPECT_THAT(read_profiled_model(metis, Bytes(4))->kinds(), ElementsAre("A100"));
  EXPECT_THAT(refused([&] { read_profiled_model(metis, Bytes(0)); }), HasSubstr("--layer-output"));
  EXPECT_THAT(refused([&] { read_profiled_model(folder_.path(), Bytes(0)); }), HasSubstr("is no model"));
  EXPECT_THAT(refused([&] { read_profiled_model(file("x.txt", "hello"), Bytes(0)); }), HasSubstr("is no model"));
}

// On one device the iteration is the sum of the times.
TEST_F(ProfiledModelTest, TimesAreTheFiles) {
  const auto model = read_profiled_model(pipedream(), Bytes(0));
  const ProfiledJob job = job_on(*model, cluster({"own-card"}), 1, "");
  EXPECT_NEAR(Evaluator(job.graph, job.cluster, *job.costs, 1).evaluate_baseline("mp:n/0").simulation.iteration.value,
              9e-3, 1e-12);
  EXPECT_THAT(job.basis, HasSubstr("m.txt, not of the device catalogue"));
}

TEST_F(ProfiledModelTest, OtherKindsAreRefusedOrScaled) {
  const auto model = read_profiled_model(pipedream(), Bytes(0));
  const Cluster mixed = cluster({"V100-16GB", "T4"});
  EXPECT_THAT(refused([&] { job_on(*model, mixed, 1, ""); }),
              AllOf(HasSubstr("c.yaml: has V100-16GB, T4"), HasSubstr("--profiled-on KIND")));
  const ProfiledJob job = job_on(*model, mixed, 1, "V100-16GB");
  EXPECT_DOUBLE_EQ(seconds_on(job, 0), 1e-3);
  EXPECT_DOUBLE_EQ(seconds_on(job, 2), 1e-3 * 15.7 / 8.1);  // the data sheets' float32 rates
  EXPECT_TRUE(job.costs->op(0, 0, 1).measured);
  EXPECT_FALSE(job.costs->op(0, 2, 1).measured);
  EXPECT_THAT(job.basis, HasSubstr("times of T4 are estimated from those of V100-16GB"));
  EXPECT_THAT(refused([&] {
                job_on(*model, cluster({"V100-16GB", "own"}), 1, "V100-16GB");
              }),
              HasSubstr("the device catalogue has no own"));
}

TEST_F(ProfiledModelTest, EachKindHasItsOwnTimesAtADegree) {
  const auto model = read_profiled_model(sailor(), Bytes(0));
  const Cluster gpus = model->cluster({{"A100-40", 2}, {"V100-16", 4}});
  EXPECT_THAT(degrees_on(*model, gpus, ""), ElementsAre(1, 2));
  const ProfiledJob job = job_on(*model, gpus, 2, "");
  ASSERT_EQ(job.cluster.devices.size(), 3U);
  EXPECT_DOUBLE_EQ(seconds_on(job, 0), 0.75);
  EXPECT_DOUBLE_EQ(seconds_on(job, 1), 1.5);
  EXPECT_EQ(job.graph.tensors[job.graph.groups[0].parameters[0]].bytes(1), Bytes(4000));
  EXPECT_DOUBLE_EQ(job.cluster.bandwidth(0, 1).value, 1e9);  // 4 GPUs of a node share 4 GB/s
  EXPECT_THAT(job.basis, HasSubstr("a tensor-parallel group of 2 GPUs"));
  EXPECT_THAT(refused([&] { job_on(*model, gpus, 4, ""); }), HasSubstr("no tensor-parallel degree 4"));
  const ProfiledJob named = job_on(*model, cluster({"A100-40GB"}), 1, "");  // as the catalogue calls it
  EXPECT_DOUBLE_EQ(seconds_on(named, 0), 1);
  EXPECT_THAT(refused([&] { job_on(*model, cluster({"T4"}), 1, ""); }), HasSubstr("but of A100-40, V100-16"));
  EXPECT_THAT(refused([&] { job_on(*model, cluster({"T4"}), 1, "V100"); }),
              HasSubstr("no times of V100 (did you mean"));
  EXPECT_THAT(refused([&] { model->cluster({{"T4", 1}}); }), HasSubstr("has no \"T4\"; there is A100-40, V100-16"));
}

TEST_F(ProfiledModelTest, OnlySailorsFilesKnowTheirMachines) {
  EXPECT_THAT(refused(
                  [&] {
                    read_profiled_model(pipedream(), Bytes(0))->cluster({{"A100", 1}});
                  },
                  ErrorKind::kUnsupported),
              HasSubstr("give --cluster FILE"));
}

}  // namespace
}  // namespace motley

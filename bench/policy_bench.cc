// What a policy is worth to the search: proposals alone, and searches with it, with random weights and without, by the
// evaluations that they take. Prints one JSON object per case.
//
//   policy_bench [--policy FILE] [--evaluations N] cases --count 20           generated ones, of no training's numbers
//   policy_bench ... model MODEL.pt2 CLUSTER.yaml --batch 64

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "graph/training_graph.h"
#include "profiler/catalogue.h"
#include "profiler/cost_table.h"
#include "strategy/policy/policy.h"
#include "strategy/policy/training_case.h"
#include "strategy/search/search.h"

namespace motley {
namespace {

struct Options {
  std::string policy;
  std::int64_t evaluations = 1000;
  int threads = 1;
  std::size_t proposals = 16;
};

nlohmann::json curve(const Evaluator& evaluator, const Options& options, const Prior* prior) {
  SearchOptions search;
  search.time = Seconds(1e9);
  search.evaluations = options.evaluations;
  search.threads = options.threads;
  search.prior = prior;
  nlohmann::json improvements = nlohmann::json::array();
  for (const Improvement& one : motley::search(evaluator, search).improvements) {
    improvements.push_back({one.evaluations, one.iteration.value});
  }
  return improvements;
}

nlohmann::json proposals(const Evaluator& evaluator, const Options& options, const Prior& prior) {
  const auto began = std::chrono::steady_clock::now();
  const std::vector<Strategy> proposed = prior.guide(evaluator)->propose(options.proposals, 1);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  nlohmann::json times = nlohmann::json::array();
  for (const Strategy& strategy : proposed) {
    const Evaluation evaluation = evaluator.evaluate(strategy);
    times.push_back(evaluation.feasible() ? nlohmann::json(evaluation.simulation.iteration.value) : nullptr);
  }
  return {{"seconds", seconds}, {"iterations", times}};
}

void compare(const Evaluator& evaluator, const Options& options) {
  const Policy random(1);
  nlohmann::json result = {{"groups", evaluator.graph().groups.size()},
                           {"devices", evaluator.cluster().devices.size()},
                           {"batch", evaluator.batch()},
                           {"none", curve(evaluator, options, nullptr)},
                           {"random", curve(evaluator, options, &random)},
                           {"random_proposals", proposals(evaluator, options, random)}};
  if (!options.policy.empty()) {
    const Policy policy{std::filesystem::path(options.policy)};
    result["policy"] = curve(evaluator, options, &policy);
    result["policy_proposals"] = proposals(evaluator, options, policy);
  }
  std::cout << result.dump() << std::endl;
}

}  // namespace
}  // namespace motley

int main(int argc, char** argv) {
  using namespace motley;
  CLI::App app("What a policy is worth to the search.");
  app.require_subcommand(1);
  Options options;
  app.add_option("--policy", options.policy, "its weights");
  app.add_option("--evaluations", options.evaluations, "of each search");
  app.add_option("--threads", options.threads, "0: one per core");
  app.add_option("--proposals", options.proposals, "that are judged by themselves");

  std::int64_t count = 20;
  CLI::App* const cases = app.add_subcommand("cases");
  cases->add_option("--count", count, "of cases");
  cases->callback([&] {
    for (std::int64_t number = 1; number <= count; ++number) {  // a training's numbers are mixed, and not as small
      compare(TrainingCase({}, static_cast<std::uint64_t>(number)).evaluator(), options);
    }
  });
  std::string model, cluster;
  std::int64_t batch = 0;
  CLI::App* const one = app.add_subcommand("model");
  one->add_option("model", model)->required();
  one->add_option("cluster", cluster)->required();
  one->add_option("--batch", batch)->required();
  one->callback([&] {
    const Graph graph = load_training_graph(model, {});
    const Cluster machines = read_cluster(cluster, catalogue_defaults);
    const CostTable costs(graph, machines, nullptr);
    compare(Evaluator(graph, machines, costs, batch), options);
  });
  CLI11_PARSE(app, argc, argv);
  return 0;
}

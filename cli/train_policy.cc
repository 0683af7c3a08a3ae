#include <cstdio>

#include "agent/option_checks.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "profiler/catalogue.h"
#include "strategy/policy/load.h"

namespace motley {

namespace {

struct TrainPolicyOptions {
  PolicyTraining training;
  std::vector<std::string> models, clusters;
  std::string folder, weights;
  double seconds = 0;
  bool only_these = false;
};

void tell(const PolicyMetrics& metrics) {
  std::fprintf(
      stderr,
      "step %lld, %s: %lld cases, imitation %.3f (%.0f %% agree), drawn %.3f of the best, entropy %.2f, %.0f %% "
      "improved",
      static_cast<long long>(metrics.step), to_string(metrics.elapsed).c_str(), static_cast<long long>(metrics.cases),
      metrics.imitation, 100 * metrics.agreement, metrics.sampled, metrics.entropy, 100 * metrics.improved);
  if (metrics.held_out > 0) std::fprintf(stderr, "; held out %.3f of a search", metrics.held_out);
  std::fputc('\n', stderr);
}

void train(TrainPolicyOptions& options) {
  PolicyTraining& training = options.training;
  training.folder = options.folder;
  training.weights = options.weights;
  if (options.seconds > 0) training.time = Seconds(options.seconds);
  for (const std::string& path : options.models) {
    training.source.models.push_back(load_training_graph(path, {}));
  }
  for (const std::string& path : options.clusters) {
    training.source.clusters.push_back(read_cluster(path, catalogue_defaults));
  }
  training.source.generated_models = !options.only_these || options.models.empty();
  training.source.generated_clusters = !options.only_these || options.clusters.empty();
  const Interrupt interrupt;
  training.stop = interrupt.token();
  training.progress = tell;
  load_and_train_policy(training);
}

}  // namespace

void add_train_policy_command(CLI::App& app) {
  auto options = std::make_shared<TrainPolicyOptions>();
  PolicyTraining& training = options->training;
  CLI::App* command =
      app.add_subcommand("train-policy", "Trains the policy that proposes strategies to the search (docs/policy.md).");
  command->footer(
      "Example: motley train-policy -o policy --steps 2000\n"
      "Fine-tuning: motley train-policy model.pt2 --cluster cluster.yaml --policy policy/weights.safetensors -o mine\n"
      "Ctrl-C ends it after the present step; the same command goes on from there.");
  command->add_option("models", options->models, "models to learn on, beside generated ones (.pt2)");
  command->add_option("--cluster", options->clusters, "clusters to learn on, beside generated ones (docs/cluster.md)");
  command->add_flag("--only-these", options->only_these, "no generated models or clusters beside those given");
  command
      ->add_option("--profiles", training.source.profiles,
                   "the store of what was measured; without it costs are "
                   "estimates")
      ->check(CLI::ExistingFile);
  command
      ->add_option("-o,--output", options->folder,
                   "folder of checkpoint.safetensors, from which it goes on, weights.safetensors and metrics.csv")
      ->required();
  command->add_option("--policy", options->weights, "weights to begin with; without it, chance")
      ->check(CLI::ExistingFile);
  const auto number = [&](const char* name, auto& value, std::int64_t least, const char* what) {
    command->add_option(name, value, what)->check(at_least(least))->capture_default_str();
  };
  number("--seed", training.seed, 0, "of all that is drawn");
  number("--steps", training.steps, 1, "in all, those of the checkpoint included");
  number("--seconds", options->seconds, 0, "after which no new step begins; 0: any number");
  number("--threads", training.threads, 0, "actors and lessons at a time; 0: one per core");
  command->add_option("--device", training.device, "where the network is: cpu, cuda, cuda:1")->capture_default_str();
  number("--cases", training.kept, 1, "that are kept to learn from");
  number("--new-cases", training.fresh, 0, "per step");
  number("--lessons", training.lessons, 1, "per step");
  number("--samples", training.samples, 0, "strategies that the policy draws per lesson; below 2: it imitates alone");
  number("--evaluations", training.evaluations, 1, "of the search for each new case");
  number("--held-out", training.held_out, 0, "cases that are not learned from, to judge by");
  number("--learning-rate", training.learning_rate, 0, "of Adam");
  number("--reinforcement", training.reinforcement, 0, "weight of the policy gradient; imitation has 1");
  number("--entropy", training.entropy, 0, "weight of the bonus for entropy");
  command->callback([options] { train(*options); });
}

}  // namespace motley

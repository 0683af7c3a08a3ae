// The search against the exact optimum on random small cases: `exact_bench --cases 200`. Prints one JSON object;
// bench/strategy.py makes the figure.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "strategy/search/exact.h"
#include "strategy/search/search.h"
#include "tests/strategy/setting.h"

namespace motley {
namespace {

struct Options {
  int cases = 200;
  std::int64_t evaluations = 3000;  // of the search, per case
  double seconds = 20;              // of branch and bound, per case
  std::uint64_t seed = 1;
};

// A strategy of the space is at hand, so a search that finds none that fits is infinitely far: told as -1.
nlohmann::json compared(const Setting& setting, const Options& options) {
  const Evaluator evaluator = setting.evaluator();
  const ExactResult exact = exact_optimum(evaluator, {.time = Seconds(options.seconds)});
  SearchOptions bounded;
  bounded.time = Seconds(1e6);
  bounded.evaluations = options.evaluations;
  const SearchResult found = search(evaluator, bounded);
  nlohmann::json json{{"proved", exact.proved}, {"evaluations", exact.evaluations}, {"gap", nullptr}};
  json["groups"] = setting.graph.groups.size();
  json["devices"] = setting.cluster.devices.size();
  if (!exact.best.feasible()) return json;
  json["gap"] =
      found.best.feasible() ? std::max(0.0, found.best.simulation.iteration / exact.best.simulation.iteration - 1) : -1;
  return json;
}

}  // namespace
}  // namespace motley

int main(int count, char** arguments) {
  motley::Options options;
  CLI::App app("The search against the exact optimum on random small cases.");
  app.add_option("--cases", options.cases, "how many")->capture_default_str();
  app.add_option("--evaluations", options.evaluations, "of the search")->capture_default_str();
  app.add_option("--seconds", options.seconds, "of the exact optimum, per case")->capture_default_str();
  app.add_option("--seed", options.seed, "of the cases")->capture_default_str();
  CLI11_PARSE(app, count, arguments);
  std::mt19937_64 random(options.seed);
  nlohmann::json cases = nlohmann::json::array();
  for (int i = 0; i < options.cases; ++i) {
    cases.push_back(motley::compared(motley::random_small_setting(random), options));
  }
  std::cout << cases << "\n";
}

#pragma once

// Options that several commands share, and what they make: a training graph, a cluster, costs.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "graph/training_graph.h"
#include "profiler/cost_table.h"
#include "profiler/store.h"
#include "strategy/planner.h"

namespace motley {

struct ModelOptions {
  std::string path;
  TrainingOptions training;
  bool json = false;
};
// MODEL, --optimizer and its figures, --max-groups, --json.
void add_model_options(CLI::App& command, ModelOptions& options);

// --headroom.
void add_headroom_option(CLI::App& command, std::string& headroom);

struct PlanningOptions {
  ModelOptions model;
  std::int64_t batch = 0;
  std::string cluster;      // a YAML file; or
  std::string coordinator;  // HOST:PORT of one whose devices and links are measured
  std::string profiles;     // the profile store, for `cluster`
  std::string headroom;     // of each device (proto/headroom.h)
  double budget = 10;       // seconds of search
  std::uint64_t seed = 0;
};
// add_model_options, --batch, --cluster, --coordinator, --profiles, --headroom.
void add_planning_options(CLI::App& command, PlanningOptions& options);
// --budget and --seed of the search.
void add_search_options(CLI::App& command, PlanningOptions& options);

// What planning commands work on.
struct Workbench {
  Graph graph;
  Cluster cluster;
  std::unique_ptr<CostTable> costs;
  std::unique_ptr<Evaluator> evaluator;
};
// Throws Error as the readers of model, cluster and store, or the coordinator, do.
std::unique_ptr<Workbench> make_workbench(const PlanningOptions& options);

// plan(), with a line of progress on standard error when that is a terminal. Ctrl-C ends the search with the best so
// far.
Plan make_plan(const Workbench& bench, const PlanningOptions& options);

// The store at that path, or null when there is none.
std::unique_ptr<ProfileStore> open_profiles(const std::string& path);

// Where profiles are kept unless --profiles says otherwise: motley/profiles.sqlite in the user's data folder.
std::string default_profile_store();

// Whether a strategy's name is that of a plan file. Throws Error(kNotFound) when it can be nothing else and is not
// there.
bool names_plan_file(const std::string& strategy);

// A strategy by name, or read from a plan file.
Strategy strategy_from(const std::string& text, const Workbench& bench);

// After the result was printed: the command's exit status is 2 when nothing fits (docs/json.md).
void end_unless(bool fits);

}  // namespace motley

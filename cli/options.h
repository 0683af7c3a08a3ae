#pragma once

// Options that several commands share, and what they make: a training graph, a cluster, costs.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "graph/training_graph.h"
#include "imports/profiled_model.h"
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

// Of a model that others profiled (imports/profiled_model.h).
struct ProfiledOptions {
  std::int64_t tensor_parallel = 0;  // 0: planning tries all degrees, else the least
  std::string layer_output;          // bytes with a unit; empty: unknown
};
// --tensor-parallel, --layer-output.
void add_profiled_options(CLI::App& command, ProfiledOptions& options);
// Null for a .pt2 file.
std::unique_ptr<ProfiledModel> profiled_model(const std::string& path, const ProfiledOptions& options);
// The least degree of any kind, unless one is given.
std::int64_t degree_of(const ProfiledModel& model, const ProfiledOptions& options);

// --headroom.
void add_headroom_option(CLI::App& command, std::string& headroom);

struct PlanningOptions {
  ModelOptions model;
  ProfiledOptions profiled;
  std::int64_t batch = 0;
  std::string cluster;            // a YAML file; or
  std::string coordinator;        // HOST:PORT of one whose devices and links are measured; or
  std::vector<std::string> gpus;  // KIND=COUNT, on nodes and links that the model's profiles know
  std::string profiled_on;        // a kind whose times hold, scaled, for others
  std::string profiles;           // the profile store, for `cluster`
  std::string headroom;           // of each device (proto/headroom.h)
  double budget = 10;             // seconds of search
  std::int64_t evaluations = 0;   // strategies that it may judge; 0: as many as the budget allows
  std::uint64_t seed = 0;
  std::vector<std::string> pins, without;  // strategy/pins.h
  bool exact = false;                      // whether the case must be small enough for exact_optimum()
  std::string policy;                      // its weights; empty: those that come with motley; "none"
};
// add_model_options, add_profiled_options, --batch, --cluster, --coordinator, --gpus, --profiled-on, --profiles,
// --headroom.
void add_planning_options(CLI::App& command, PlanningOptions& options);
// --budget, --evaluations, --seed, --policy, --pin and --without of the search.
void add_search_options(CLI::App& command, PlanningOptions& options);

// What planning commands work on.
struct Workbench {
  Graph graph;
  Cluster cluster;
  std::unique_ptr<CostModel> costs;
  std::unique_ptr<Evaluator> evaluator;
  std::string basis;  // what costs rest on, in a sentence, where that is others' profiles; else empty
};
// Throws Error as the readers of model, cluster and store, or the coordinator, do. Of several tensor-parallel degrees
// the least.
std::unique_ptr<Workbench> make_workbench(const PlanningOptions& options);

struct Planned {
  std::unique_ptr<Workbench> bench;
  Plan plan;
  Seconds elapsed;  // of all searches
};
// plan(), with a line of progress on standard error when that is a terminal. Ctrl-C ends the search with the best so
// far. Where a profiled model leaves the tensor-parallel degree open, the best of all degrees, each of which has an
// equal part of what is left of the budget. `all_baselines`: as in SearchOptions. Throws as make_workbench does.
Planned make_plan(const PlanningOptions& options, bool all_baselines);

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

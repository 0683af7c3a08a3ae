#pragma once

// Sailor's profiles and plans (Strati et al., SOSP 2025; docs/validate.md has the formats): layers with times per kind
// of GPU, micro-batch size and tensor-parallel degree, bandwidths as polynomials of the message's size, and plans with
// what was measured when they ran.
//
// A tensor-parallel group of GPUs is one device: its times are those profiled at its degree, its memory and its
// messages those of one GPU of it.

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/strategy.h"
#include "imports/json_place.h"
#include "imports/megatron_deepspeed.h"
#include "imports/profile_costs.h"
#include "proto/cluster.h"

namespace motley {

struct SailorSizes {  // of a layer at a tensor-parallel degree, on one GPU
  Bytes parameters;
  Bytes output;       // per sample
  Bytes activations;  // per sample: what a forward pass leaves allocated, output included
};

// Bandwidth of a message of x MB: c[0] L^2 + c[1] L + c[2] GB/s with L = log2 x, at most `peak`.
struct SailorBandwidth {
  std::array<double, 3> c{};
  BytesPerSecond peak;
};
// The same for each of `sharing` messages at once, as a link's curve. A polynomial of measured sizes says nothing of
// those below; there, as everywhere, a smaller message takes no longer than a larger one.
std::vector<RatePoint> rates_of(const SailorBandwidth& bandwidth, std::int64_t sharing);

struct SailorReplica {
  std::string gpu;
  std::int64_t gpus_per_node = 1;
  std::string zone;
  std::int64_t tensor_parallel = 1;
};
struct SailorStage {
  std::vector<std::int32_t> layers;
  std::vector<SailorReplica> replicas;
};
struct SailorPlan {
  std::string source;
  std::vector<SailorStage> stages;
  std::int64_t micro_batch = 1;    // samples of a replica of the first stage
  std::int64_t batch = 1;          // of all, per iteration
  std::optional<Seconds> seconds;  // measured: of an iteration
  std::optional<Bytes> memory;     // ... the peak on a GPU
};
// Throws Error(kInvalidInput) naming the place; kUnsupported for several pipelines and groups of unlike GPUs.
SailorPlan read_sailor_plan(const std::filesystem::path& path);

class SailorProfiles {
 public:
  // Of the folder with profiles/, network/, llm_info.json and basic_cluster_config.json. `model`: empty for the one
  // that its training_config_*.json names. Profiles of GPUs are read when they are needed: one thread at a time.
  SailorProfiles(std::filesystem::path folder, std::string model);

  const std::string& model() const { return model_; }
  std::int32_t layers() const { return layers_; }
  const std::optional<megatron_deepspeed::Transformer>& transformer() const { return transformer_; }
  // All throw Error(kNotFound) naming the file and what it has where something is not there.
  SailorSizes sizes(std::int64_t tensor_parallel, std::int32_t layer) const;
  std::vector<LayerTimes> times(const std::string& gpu, std::int64_t tensor_parallel, std::int32_t layer) const;
  std::vector<std::string> gpus() const;                            // that the model was profiled on, by name
  std::vector<std::int64_t> degrees(const std::string& gpu) const;  // tensor-parallel, with times and sizes; ascending
  Bytes memory(const std::string& gpu) const;
  std::int64_t gpus_per_node(const std::string& gpu) const;
  // Of so many GPUs of a node together: inside it, or to another.
  struct Shared {
    SailorBandwidth bandwidth;
    std::int64_t gpus = 1;  // that the figure is of
  };
  Shared bandwidth(const std::string& where, const std::string& gpu, std::int64_t gpus) const;

 private:
  const JsonPlace& file(const std::string& name) const;

  std::filesystem::path folder_;
  std::string model_;
  std::int32_t layers_ = 0;
  std::optional<megatron_deepspeed::Transformer> transformer_;
  mutable std::map<std::string, JsonPlace> files_;
};

// Layers in a chain, "layer0" and so on; `degrees`: by layer, the one whose sizes it has.
Graph sailor_graph(const SailorProfiles& profiles, const std::vector<std::int64_t>& degrees);
// A group of so many GPUs as Megatron-DeepSpeed uses it, for stages with attention or without.
ImportedDevice sailor_device(const SailorProfiles& profiles, const std::string& gpu, std::int64_t degree,
                             bool attention);

// A plan as the compiler and the simulator take it.
struct ImportedJob {
  Graph graph;
  Cluster cluster;
  std::unique_ptr<ProfileCosts> costs;
  Strategy strategy;
  std::int64_t batch = 1;
};
// As Megatron-DeepSpeed runs it. Throws as SailorProfiles does, and Error(kUnsupported) for plans over several zones
// and stages that leave layers out.
ImportedJob job_of(const SailorProfiles& profiles, const SailorPlan& plan);

}  // namespace motley

#pragma once

// Files that describe a model as layers with times, of three systems (docs/profiles.md has the formats):
//  - PipeDream (Narayanan et al., SOSP 2019), text: a graph of layers, times and sizes of one minibatch;
//  - Piper (Tarnawski et al., NeurIPS 2021), JSON: a graph of layers, times and sizes per sample and tensor-parallel
//    degree. Of a layer's variants the one that keeps all ("vanilla") is read;
//  - Metis (Um et al., ATC 2024), a folder of JSON files DeviceType.GPU_tpN_bsM.json: a chain of layers, times of M
//    samples at tensor-parallel degree N.
// Piper and Metis give forward and backward time as one figure, of which a third counts as forward: the backward pass
// of a matrix product has two of them.
//
// All throw Error(kNotFound) for files that are not there and Error(kInvalidInput) with file and line, or place.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "imports/layers.h"
#include "imports/profile_costs.h"

namespace motley {

struct ImportedModel {
  std::string name;
  std::vector<Layer> layers;     // in an order in which each stands behind its inputs
  std::vector<LayerCost> costs;  // likewise
};

// A sample is a whole minibatch as it was profiled. Inputs are left out, as PipeDream's optimizer does: their time is
// that of loading data.
ImportedModel read_pipedream(const std::filesystem::path& path);
// Times are in seconds.
ImportedModel read_piper(const std::filesystem::path& path, std::int64_t tensor_parallel);
// The degrees that all of a Piper graph's nodes have, ascending.
std::vector<std::int64_t> piper_degrees(const std::filesystem::path& path);
// The files of that kind of GPU and that degree; parameters, which they give of whole layers, are divided by it.
// `output`: bytes of a layer's output for one sample, which no file tells. What a layer keeps for a sample is what its
// memory (layer_memory_total_mb, MiB) grows by per sample between the least and the most that were profiled, less the
// output; 0 where one number of samples alone was.
ImportedModel read_metis(const std::filesystem::path& folder, const std::string& gpu, std::int64_t tensor_parallel,
                         Bytes output);
// What there is in such a folder: degrees by kind of GPU, ascending.
std::map<std::string, std::vector<std::int64_t>> metis_profiles(const std::filesystem::path& folder);

}  // namespace motley

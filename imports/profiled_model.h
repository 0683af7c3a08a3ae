#pragma once

// A model as somebody else profiled it, whichever system's files tell of it: layers with their sizes, and what they
// cost on the kinds of GPU that were profiled, per tensor-parallel degree (docs/profiles.md). The planning commands
// take one where they take a .pt2 file.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "imports/profile_costs.h"
#include "proto/cluster.h"

namespace motley {

class ProfiledModel {
 public:
  virtual ~ProfiledModel() = default;
  virtual std::string title() const = 0;  // "PipeDream's layers and times of vgg16 (vgg16.txt)"
  // Of GPU, as the files name them; none: of one kind that they do not name.
  virtual std::vector<std::string> kinds() const = 0;
  // The rest is of a kind of kinds(), or of "" where there are none, and throws Error that names the file and the place
  // where something is not there.
  virtual std::vector<std::int64_t> degrees(const std::string& kind) const = 0;  // tensor-parallel, ascending
  virtual Graph graph(std::int64_t degree) const = 0;
  virtual ImportedDevice device(const std::string& kind, std::int64_t degree) const = 0;
  // So many GPUs of each kind on the nodes and links that the files know. Throws Error(kUnsupported) where they know of
  // none, Error(kInvalidInput) for a kind that they have not.
  virtual Cluster cluster(const std::map<std::string, std::int64_t>& gpus) const;
};

// Null for what is none of these (a .pt2 file, or nothing at all); what it is is told by its content:
//  - a file with lines of PipeDream's graph, or a JSON file with Piper's nodes;
//  - FOLDER/profiles/MODEL of Sailor's FOLDER, or FOLDER itself for the model that its training config names;
//  - a folder with Metis's DeviceType.GPU_tpN_bsM.json. `output`: what no such file tells, bytes of a layer's output
//    for one sample.
// Throws Error(kInvalidInput) for a folder or a text that is none of these, and as the readers do.
std::unique_ptr<ProfiledModel> read_profiled_model(const std::filesystem::path& path, Bytes output);

// The tensor-parallel degrees with times of all the cluster's kinds, and with nodes of so many GPUs of a kind. Throws
// Error(kInvalidInput) when there is none, and as job_on does.
std::vector<std::int64_t> degrees_on(const ProfiledModel& model, const Cluster& gpus, const std::string& profiled_on);

// The model on a cluster, as planning takes it.
struct ProfiledJob {
  Graph graph;
  Cluster cluster;  // a tensor-parallel group is a device
  std::unique_ptr<ProfileCosts> costs;
  std::string basis;  // what the costs rest on, in a sentence
};
// `gpus`: a device per GPU. A device's times are those of its kind ("A100-40GB" is the files' "A100-40" too), or where
// the files name no kind, of whatever kind all devices are. With `profiled_on`, a kind of the files' or, where they
// name none, the one that they are of, other kinds have its times by the catalogue's float32 rates, and count as
// estimated; without it, Error(kInvalidInput) says so. Throws as ProfiledModel does.
ProfiledJob job_on(const ProfiledModel& model, const Cluster& gpus, std::int64_t degree,
                   const std::string& profiled_on);

}  // namespace motley

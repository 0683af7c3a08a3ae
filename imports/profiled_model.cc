#include "imports/profiled_model.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/suggest.h"
#include "imports/layer_files.h"
#include "imports/layers.h"
#include "imports/sailor_cluster.h"
#include "imports/tensor_groups.h"
#include "profiler/catalogue.h"

namespace motley {
namespace {

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// A graph or a chain of layers; times of one kind of device or several.
class FileModel : public ProfiledModel {
 public:
  Graph graph(std::int64_t degree) const override {
    const ImportedModel model = read(kinds().empty() ? "" : kinds().front(), degree);
    return graph_of_layers(model.name, model.layers);
  }
  ImportedDevice device(const std::string& kind, std::int64_t degree) const override {
    ImportedDevice device;
    device.layers = read(kind, degree).costs;
    return device;
  }

 protected:
  virtual ImportedModel read(const std::string& kind, std::int64_t degree) const = 0;
};

class PipedreamModel : public FileModel {
 public:
  explicit PipedreamModel(const std::filesystem::path& path) : path_(path), model_(read_pipedream(path)) {}
  std::string title() const override { return "PipeDream's graph " + path_.string(); }
  std::vector<std::string> kinds() const override { return {}; }
  std::vector<std::int64_t> degrees(const std::string&) const override { return {1}; }

 private:
  ImportedModel read(const std::string&, std::int64_t) const override { return model_; }

  std::filesystem::path path_;
  ImportedModel model_;
};

class PiperModel : public FileModel {
 public:
  explicit PiperModel(std::filesystem::path path) : path_(std::move(path)), degrees_(piper_degrees(path_)) {}
  std::string title() const override { return "Piper's graph " + path_.string(); }
  std::vector<std::string> kinds() const override { return {}; }
  std::vector<std::int64_t> degrees(const std::string&) const override { return degrees_; }

 private:
  ImportedModel read(const std::string&, std::int64_t degree) const override { return read_piper(path_, degree); }

  std::filesystem::path path_;
  std::vector<std::int64_t> degrees_;
};

class MetisModel : public FileModel {
 public:
  MetisModel(std::filesystem::path folder, Bytes output)
      : folder_(std::move(folder)), output_(output), profiles_(metis_profiles(folder_)) {
    if (output > Bytes(0)) return;
    throw Error(ErrorKind::kInvalidInput,
                folder_.string() +
                    ": Metis's profiles do not tell how much a layer hands on: give its bytes for one "
                    "sample, such as --layer-output 4MiB (sequence x hidden size x bytes of a value)");
  }
  std::string title() const override { return "Metis's profiles " + folder_.string(); }
  std::vector<std::string> kinds() const override {
    std::vector<std::string> kinds;
    for (const auto& [kind, degrees] : profiles_) kinds.push_back(kind);
    return kinds;
  }
  std::vector<std::int64_t> degrees(const std::string& kind) const override { return profiles_.at(kind); }

 private:
  ImportedModel read(const std::string& kind, std::int64_t degree) const override {
    return read_metis(folder_, kind, degree, output_);
  }

  std::filesystem::path folder_;
  Bytes output_;
  std::map<std::string, std::vector<std::int64_t>> profiles_;
};

class SailorModel : public ProfiledModel {
 public:
  SailorModel(const std::filesystem::path& folder, const std::string& model)
      : folder_(folder), profiles_(folder, model) {}
  std::string title() const override { return "Sailor's profiles of " + profiles_.model() + " in " + folder_.string(); }
  std::vector<std::string> kinds() const override { return profiles_.gpus(); }
  std::vector<std::int64_t> degrees(const std::string& kind) const override { return profiles_.degrees(kind); }
  Graph graph(std::int64_t degree) const override {
    return sailor_graph(profiles_, std::vector(static_cast<std::size_t>(profiles_.layers()), degree));
  }
  ImportedDevice device(const std::string& kind, std::int64_t degree) const override {
    return sailor_device(profiles_, kind, degree, profiles_.transformer().has_value());
  }
  Cluster cluster(const std::map<std::string, std::int64_t>& gpus) const override {
    return sailor_cluster(profiles_, gpus);
  }

 private:
  std::filesystem::path folder_;
  SailorProfiles profiles_;
};

[[noreturn]] void refuse(const std::filesystem::path& path) {
  throw Error(ErrorKind::kInvalidInput,
              path.string() +
                  ": is no model: neither a .pt2 file, nor a graph of PipeDream (lines \"ID -- LAYER -- "
                  "forward_compute_time=..., ...\") or Piper (JSON with \"nodes\"), nor in a folder of "
                  "Sailor (with llm_info.json; name FOLDER/profiles/MODEL) or Metis "
                  "(DeviceType.GPU_tpN_bsM.json); docs/profiles.md");
}

std::unique_ptr<ProfiledModel> read_folder(const std::filesystem::path& path, Bytes output) {
  if (!metis_profiles(path).empty()) return std::make_unique<MetisModel>(path, output);
  if (std::filesystem::exists(path / "llm_info.json")) return std::make_unique<SailorModel>(path, "");
  const std::filesystem::path whole = std::filesystem::absolute(path / "").lexically_normal().parent_path();
  const std::filesystem::path profiles = whole.parent_path();
  if (profiles.filename() == "profiles" && std::filesystem::exists(profiles.parent_path() / "llm_info.json")) {
    return std::make_unique<SailorModel>(profiles.parent_path(), whole.filename().string());
  }
  refuse(path);
}

std::string beginning(const std::filesystem::path& path) {
  std::string text(4096, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// The catalogue's name of a kind: profiles leave the "GB" out.
std::string catalogue_name(const std::string& kind) { return find_kind(kind) ? kind : kind + "GB"; }

FlopsPerSecond rate_of(const std::string& kind, const std::string& needed_for) {
  const std::optional<DeviceKind> known = find_kind(catalogue_name(kind));
  if (!known) {
    throw Error(ErrorKind::kInvalidInput, "the device catalogue has no " + kind + ", whose rates are needed " +
                                              needed_for + " (docs/catalogue.md)");
  }
  return known->peak(DType::kFloat32);
}

// Which of the files' kinds each kind of the cluster is.
class Kinds {
 public:
  Kinds(const ProfiledModel& model, const Cluster& gpus, std::string profiled_on)
      : model_(model), known_(model.kinds()), profiled_on_(std::move(profiled_on)) {
    for (const Device& device : gpus.devices) {
      if (places_.try_emplace(device.kind, kinds_.size()).second) kinds_.push_back(device.kind);
    }
    if (!profiled_on_.empty() && !known_.empty() && std::ranges::find(known_, profiled_on_) == known_.end()) {
      throw Error(ErrorKind::kInvalidInput, model.title() + " have no times of " + profiled_on_ +
                                                did_you_mean(profiled_on_, known_) + ", but of " + list(known_));
    }
    for (const std::string& kind : kinds_) found_.push_back(found(kind, gpus));
  }

  std::int32_t place(const std::string& kind) const { return static_cast<std::int32_t>(places_.at(kind)); }

  std::vector<std::int64_t> degrees() const {
    std::vector<std::int64_t> common = model_.degrees(found_.front().kind);
    for (const Found& found : found_) {
      const std::vector<std::int64_t> also = model_.degrees(found.kind);
      std::erase_if(common, [&](std::int64_t degree) { return std::ranges::find(also, degree) == also.end(); });
    }
    return common;
  }

  std::vector<ImportedDevice> devices(std::int64_t degree) const {
    std::vector<ImportedDevice> devices;
    for (const Found& found : found_) {
      devices.push_back(model_.device(found.kind, degree));
      if (found.slower == 1) continue;
      devices.back().estimated = true;
      for (LayerCost& layer : devices.back().layers) {
        for (LayerTimes& times : layer.times) {
          for (Seconds LayerTimes::*part : {&LayerTimes::forward, &LayerTimes::backward, &LayerTimes::update}) {
            times.*part = times.*part * found.slower;
          }
        }
      }
    }
    return devices;
  }

  std::string scaled() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (found_[i].slower != 1) names.push_back(kinds_[i]);
    }
    return list(names);
  }

 private:
  struct Found {
    std::string kind;   // of the files'
    double slower = 1;  // by so much
  };

  Found found(const std::string& kind, const Cluster& gpus) const {
    const auto same = [&](const std::string& known) { return kind == known || kind == known + "GB"; };
    const auto known = std::ranges::find_if(known_, same);
    if (known != known_.end()) return {*known};
    const std::string from = known_.empty() ? "" : profiled_on_;
    if (known_.empty() && (profiled_on_.empty() ? kinds_.size() == 1 : same(profiled_on_))) return {from};
    if (profiled_on_.empty()) {
      const std::string what = known_.empty() ? " has times of one kind of device, which it does not name"
                                              : " has no times of " + kind + ", but of " + list(known_);
      throw Error(ErrorKind::kInvalidInput, gpus.source + ": has " + list(kinds_) + "; " + model_.title() + what +
                                                ". Name the kind with --profiled-on KIND, and the others' times are "
                                                "estimated from its by the catalogue's rates; or plan for one alone");
    }
    const std::string why = "to scale the times of " + profiled_on_ + " to " + kind;
    return {from, rate_of(profiled_on_, why) / rate_of(kind, why)};
  }

  const ProfiledModel& model_;
  std::vector<std::string> known_;
  std::string profiled_on_;
  std::vector<std::string> kinds_;             // of the cluster
  std::map<std::string, std::size_t> places_;  // in it
  std::vector<Found> found_;                   // by place
};

}  // namespace

Cluster ProfiledModel::cluster(const std::map<std::string, std::int64_t>&) const {
  throw Error(ErrorKind::kUnsupported, title() + " knows of no nodes and links: give --cluster FILE");
}

std::unique_ptr<ProfiledModel> read_profiled_model(const std::filesystem::path& path, Bytes output) {
  if (std::filesystem::is_directory(path)) return read_folder(path, output);
  if (!std::filesystem::is_regular_file(path)) return nullptr;
  const std::string text = beginning(path);
  if (text.starts_with("PK")) return nullptr;
  if (text.find("forward_compute_time=") != std::string::npos) return std::make_unique<PipedreamModel>(path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return std::make_unique<PiperModel>(path);
  if (path.extension() == ".pt2") return nullptr;
  refuse(path);
}

std::vector<std::int64_t> degrees_on(const ProfiledModel& model, const Cluster& gpus, const std::string& profiled_on) {
  std::vector<std::int64_t> degrees = Kinds(model, gpus, profiled_on).degrees();
  std::erase_if(degrees, [&](std::int64_t degree) { return !has_tensor_groups(gpus, degree); });
  if (degrees.empty()) {
    throw Error(ErrorKind::kInvalidInput, model.title() + " have no tensor-parallel degree for which all kinds of " +
                                              gpus.source + " have times and enough GPUs on a node");
  }
  return degrees;
}

ProfiledJob job_on(const ProfiledModel& model, const Cluster& gpus, std::int64_t degree,
                   const std::string& profiled_on) {
  const Kinds kinds(model, gpus, profiled_on);
  const std::vector<std::int64_t> known = kinds.degrees();
  if (std::ranges::find(known, degree) == known.end()) {
    std::vector<std::string> names;
    names.reserve(known.size());
    for (const std::int64_t each : known) names.push_back(std::to_string(each));
    throw Error(ErrorKind::kInvalidInput, model.title() + " have no tensor-parallel degree " + std::to_string(degree) +
                                              " on all kinds of " + gpus.source + ", but " + list(names));
  }
  ProfiledJob job;
  job.graph = model.graph(degree);
  job.cluster = in_tensor_groups(gpus, degree);
  std::vector<std::int32_t> kind_of;
  kind_of.reserve(job.cluster.devices.size());
  for (const Device& device : job.cluster.devices) kind_of.push_back(kinds.place(device.kind));
  job.costs = std::make_unique<ProfileCosts>(job.graph, kinds.devices(degree), std::move(kind_of));
  job.basis = "Times and sizes of layers are those of " + model.title() + ", not of the device catalogue";
  if (const std::string scaled = kinds.scaled(); !scaled.empty()) {
    job.basis += "; times of " + scaled + " are estimated from those of " + profiled_on + " by the catalogue's rates";
  }
  if (degree > 1) {
    job.basis += "; a device is a tensor-parallel group of " + std::to_string(degree) + " GPUs of a node";
  }
  job.basis += ".";
  return job;
}

}  // namespace motley

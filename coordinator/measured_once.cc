#include "coordinator/job_context.h"

namespace motley {

std::optional<Fingerprint> MeasuredOnce::fingerprint(const std::string& device, const std::string& what) const {
  const std::scoped_lock lock(mutex_);
  const auto found = fingerprints_.find({device, what});
  return found == fingerprints_.end() ? std::nullopt : std::optional(found->second);
}

void MeasuredOnce::set_fingerprint(const std::string& device, const std::string& what, const Fingerprint& fingerprint) {
  const std::scoped_lock lock(mutex_);
  fingerprints_[{device, what}] = fingerprint;
}

std::optional<std::vector<proto::LinkFigure>> MeasuredOnce::links(const std::string& devices) const {
  const std::scoped_lock lock(mutex_);
  const auto found = links_.find(devices);
  return found == links_.end() ? std::nullopt : std::optional(found->second);
}

void MeasuredOnce::set_links(const std::string& devices, const std::vector<proto::LinkFigure>& links) {
  const std::scoped_lock lock(mutex_);
  links_[devices] = links;
}

}  // namespace motley

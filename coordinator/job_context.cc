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

proto::Meeting meeting_of(const JobContext& context, const std::vector<UsedDevice>& ranks, std::size_t rank,
                          const std::string& prefix, double timeout_seconds) {
  proto::Meeting meeting;
  meeting.set_store(context.address);
  meeting.set_prefix(prefix);
  meeting.set_rank(static_cast<std::int32_t>(rank));
  meeting.set_address(ranks[rank].node.data_address());
  meeting.set_timeout_seconds(timeout_seconds);
  meeting.set_cuda(true);
  for (const UsedDevice& used : ranks) {
    meeting.add_devices(used.device.name());
    meeting.set_emulated(meeting.emulated() || !used.device.emulation().empty());
    meeting.set_cuda(meeting.cuda() && used.device.type() == "cuda");
  }
  return meeting;
}

}  // namespace motley

#include "profiler/profile_message.h"

#include "base/error.h"

namespace motley {

proto::Fingerprint to_message(const Fingerprint& fingerprint) {
  proto::Fingerprint message;
  message.set_kind(fingerprint.kind);
  message.set_model(fingerprint.model);
  message.set_threads(fingerprint.threads);
  message.set_torch(fingerprint.torch);
  message.set_driver(fingerprint.driver);
  return message;
}

Fingerprint from_message(const proto::Fingerprint& message) {
  return {message.kind(), message.model(), message.threads(), message.torch(), message.driver()};
}

proto::Profile to_message(const Profile& profile) {
  proto::Profile message;
  *message.mutable_fingerprint() = to_message(profile.fingerprint);
  message.set_origin(static_cast<std::int32_t>(profile.origin));
  if (profile.device) {
    proto::DeviceCosts& device = *message.mutable_device();
    device.set_pass_seconds(profile.device->pass.value);
    device.set_pass_bytes_per_second(profile.device->pass_rate.value);
    device.set_context_bytes(profile.device->context.value);
    device.set_dispatch_seconds(profile.device->dispatch.value);
  }
  if (profile.messages) {
    proto::MessageCosts& messages = *message.mutable_messages();
    messages.set_overhead_seconds(profile.messages->overhead.value);
    messages.set_work_seconds(profile.messages->work.value);
    messages.set_work_seconds_per_byte(profile.messages->work_per_byte.value);
    messages.set_pause_seconds(profile.messages->pause.value);
  }
  for (const ProfiledOp& op : profile.ops) {
    proto::ProfiledOp& row = *message.add_ops();
    row.set_signature(op.signature);
    row.set_text(op.text);
    row.set_dtype(op.dtype);
    for (const CurvePoint& point : op.points) {
      proto::CurvePoint& figure = *row.add_points();
      figure.set_batch(point.batch);
      figure.set_seconds(point.time.value);
      figure.set_spread_seconds(point.spread.value);
      figure.set_kept_bytes(point.kept.value);
      figure.set_workspace_bytes(point.workspace.value);
      figure.set_repeats(point.repeats);
    }
  }
  return message;
}

Profile from_message(const proto::Profile& message) {
  Profile profile;
  profile.fingerprint = from_message(message.fingerprint());
  if (message.origin() < 0 || message.origin() > static_cast<std::int32_t>(Origin::kImport)) {
    throw Error(ErrorKind::kInvalidInput, "a profile of origin " + std::to_string(message.origin()) +
                                              ", which this version of motley does not know: use the same version on "
                                              "all machines");
  }
  profile.origin = static_cast<Origin>(message.origin());
  if (message.has_device()) {
    const proto::DeviceCosts& device = message.device();
    profile.device = {Seconds(device.pass_seconds()), BytesPerSecond(device.pass_bytes_per_second()),
                      Bytes(device.context_bytes()), Seconds(device.dispatch_seconds())};
  }
  if (message.has_messages()) {
    const proto::MessageCosts& messages = message.messages();
    profile.messages = {Seconds(messages.overhead_seconds()), Seconds(messages.work_seconds()),
                        Seconds(messages.work_seconds_per_byte()), Seconds(messages.pause_seconds())};
  }
  for (const proto::ProfiledOp& row : message.ops()) {
    ProfiledOp op{row.signature(), row.text(), row.dtype(), {}};
    for (const proto::CurvePoint& figure : row.points()) {
      op.points.push_back({figure.batch(), Seconds(figure.seconds()), Seconds(figure.spread_seconds()),
                           Bytes(figure.kept_bytes()), Bytes(figure.workspace_bytes()), figure.repeats()});
    }
    profile.ops.push_back(std::move(op));
  }
  return profile;
}

proto::LinkProfile to_message(const std::vector<LinkSample>& links) {
  proto::LinkProfile message;
  for (const LinkSample& link : links) {
    proto::LinkMeasurement& row = *message.add_measurements();
    row.set_from(link.from);
    row.set_to(link.to);
    row.set_both_ways(link.both_ways);
    row.set_bytes(link.bytes.value);
    row.set_seconds(link.time.value);
    row.set_spread_seconds(link.spread.value);
    row.set_repeats(link.repeats);
  }
  return message;
}

std::vector<LinkSample> from_message(const proto::LinkProfile& message) {
  std::vector<LinkSample> links;
  for (const proto::LinkMeasurement& row : message.measurements()) {
    links.push_back({row.from(), row.to(), row.both_ways(), Bytes(row.bytes()), Seconds(row.seconds()),
                     Seconds(row.spread_seconds()), row.repeats()});
  }
  return links;
}

}  // namespace motley

#pragma once

// Profiles as messages and back.

#include "profiler/profile.h"
#include "proto/profile.pb.h"

namespace motley {

proto::Profile to_message(const Profile& profile);
Profile from_message(const proto::Profile& message);  // throws Error(kInvalidInput) on an unknown origin

proto::Fingerprint to_message(const Fingerprint& fingerprint);
Fingerprint from_message(const proto::Fingerprint& message);

proto::LinkProfile to_message(const std::vector<LinkSample>& links);
std::vector<LinkSample> from_message(const proto::LinkProfile& message);

}  // namespace motley

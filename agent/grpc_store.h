#pragma once

// The store in which the ranks of a job meet, kept by the coordinator's KeyValue service.

#include <memory>
#include <string>

#include "runtime/store.h"

namespace motley {

// `address` is the coordinator's; all keys are put behind `prefix`. Its functions throw Error(kUnavailable) when the
// coordinator does not answer.
std::shared_ptr<Store> make_grpc_store(const std::string& address, const std::string& prefix);

}  // namespace motley

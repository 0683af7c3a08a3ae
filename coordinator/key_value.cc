#include "coordinator/key_value.h"

#include <algorithm>
#include <chrono>

namespace motley {

grpc::Status KeyValueService::Set(grpc::ServerContext*, const proto::SetRequest* request, proto::Empty*) {
  {
    const std::scoped_lock lock(mutex_);
    values_[request->key()] = request->value();
  }
  changed_.notify_all();
  return grpc::Status::OK;
}

grpc::Status KeyValueService::Get(grpc::ServerContext* context, const proto::GetRequest* request,
                                  proto::GetResponse* response) {
  using Clock = std::chrono::steady_clock;
  constexpr double kLongest = 86400;
  const std::chrono::duration<double> timeout(std::clamp(request->timeout_seconds(), 0.0, kLongest));
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
  std::unique_lock lock(mutex_);
  while (true) {
    const auto found = values_.find(request->key());
    if (found != values_.end()) {
      response->set_found(true);
      response->set_value(found->second);
      return grpc::Status::OK;
    }
    // A caller that has died is noticed within a second: its thread is needed by others.
    if (ended_ || context->IsCancelled() || Clock::now() >= end) return grpc::Status::OK;
    changed_.wait_until(lock, std::min(end, Clock::now() + std::chrono::seconds(1)));
  }
}

void KeyValueService::forget(const std::string& prefix) {
  const std::scoped_lock lock(mutex_);
  auto next = values_.lower_bound(prefix);
  while (next != values_.end() && next->first.starts_with(prefix)) next = values_.erase(next);
}

void KeyValueService::shut_down() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

}  // namespace motley

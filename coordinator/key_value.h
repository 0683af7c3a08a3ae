#pragma once

// The KeyValue service: a few small values by key, where the workers of a launch meet. Thread-safe.

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "proto/coordinator_service.grpc.pb.h"

namespace motley {

class KeyValueService : public proto::KeyValue::Service {
 public:
  grpc::Status Set(grpc::ServerContext*, const proto::SetRequest* request, proto::Empty*) override;
  grpc::Status Get(grpc::ServerContext* context, const proto::GetRequest* request,
                   proto::GetResponse* response) override;

  void forget(const std::string& prefix);  // all keys that start so: their launch has ended
  void shut_down();                        // answers who waits; needed before the server can stop

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  bool ended_ = false;
};

}  // namespace motley

#include "agent/grpc_store.h"

#include "agent/rpc.h"
#include "proto/coordinator_service.grpc.pb.h"

namespace motley {
namespace {

class GrpcStore : public Store {
 public:
  GrpcStore(const std::string& address, std::string prefix)
      : peer_("the coordinator at " + address),
        prefix_(std::move(prefix)),
        stub_(proto::KeyValue::NewStub(make_channel(address))) {}

  void set(const std::string& key, const std::string& value) override {
    proto::SetRequest request;
    request.set_key(prefix_ + key);
    request.set_value(value);
    proto::Empty response;
    grpc::ClientContext context;
    throw_unless_ok(stub_->Set(&context, request, &response), peer_);
  }

  std::optional<std::string> get(const std::string& key, Seconds timeout) override {
    proto::GetRequest request;
    request.set_key(prefix_ + key);
    request.set_timeout_seconds(timeout.value);
    proto::GetResponse response;
    grpc::ClientContext context;
    throw_unless_ok(stub_->Get(&context, request, &response), peer_);
    if (!response.found()) return std::nullopt;
    return response.value();
  }

 private:
  std::string peer_;
  std::string prefix_;
  std::unique_ptr<proto::KeyValue::Stub> stub_;
};

}  // namespace

std::shared_ptr<Store> make_grpc_store(const std::string& address, const std::string& prefix) {
  return std::make_shared<GrpcStore>(address, prefix);
}

}  // namespace motley

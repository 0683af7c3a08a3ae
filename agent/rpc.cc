#include "agent/rpc.h"

#include <limits>

namespace motley {
namespace {

constexpr int kLargestMessage = std::numeric_limits<int>::max();  // graphs of large models

std::shared_ptr<grpc::ChannelCredentials> channel_credentials() { return grpc::InsecureChannelCredentials(); }
std::shared_ptr<grpc::ServerCredentials> server_credentials() { return grpc::InsecureServerCredentials(); }

}  // namespace

grpc::Status to_status(const Error& error) {
  const auto code = [&] {
    switch (error.kind()) {
      case ErrorKind::kInvalidInput:
        return grpc::StatusCode::INVALID_ARGUMENT;
      case ErrorKind::kNotFound:
        return grpc::StatusCode::NOT_FOUND;
      case ErrorKind::kUnsupported:
        return grpc::StatusCode::UNIMPLEMENTED;
      case ErrorKind::kUnavailable:
        return grpc::StatusCode::ABORTED;
      case ErrorKind::kInternal:
        break;
    }
    return grpc::StatusCode::INTERNAL;
  }();
  return {code, error.what()};
}

void throw_unless_ok(const grpc::Status& status, const std::string& peer) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return;
    case grpc::StatusCode::INVALID_ARGUMENT:
      throw Error(ErrorKind::kInvalidInput, status.error_message());
    case grpc::StatusCode::NOT_FOUND:
      throw Error(ErrorKind::kNotFound, status.error_message());
    case grpc::StatusCode::UNIMPLEMENTED:
      throw Error(ErrorKind::kUnsupported, status.error_message());
    case grpc::StatusCode::ABORTED:
      throw Error(ErrorKind::kUnavailable, status.error_message());
    case grpc::StatusCode::INTERNAL:
      throw Error(ErrorKind::kInternal, status.error_message());
    default:
      throw Error(ErrorKind::kUnavailable, peer + " does not answer: " + status.error_message());
  }
}

std::shared_ptr<grpc::Channel> make_channel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLargestMessage);
  // A connection per channel: a stream that fills up must not hold up another one's messages.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A peer that was killed closes its connections; one whose machine died is noticed by pings.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 5000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);  // however long it was away
  return grpc::CreateCustomChannel(address, channel_credentials(), arguments);
}

Server start_server(const std::string& address, const std::vector<grpc::Service*>& services) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.SetMaxReceiveMessageSize(kLargestMessage);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a port that is taken is an error
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  builder.AddListeningPort(address, server_credentials(), &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  Server result;
  result.server = builder.BuildAndStart();
  if (result.server == nullptr || port == 0) {
    throw Error(ErrorKind::kUnavailable, "cannot listen on " + address +
                                             ": the port is taken or the address is not this machine's; give another "
                                             "one with --listen");
  }
  result.address = address.substr(0, address.rfind(':')) + ":" + std::to_string(port);
  return result;
}

}  // namespace motley

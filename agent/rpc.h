#pragma once

// What all gRPC clients and servers of motley share. Only these functions make credentials.

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "base/error.h"

namespace motley {

// Our errors on the wire: the kind as gRPC's nearest code, the message as it is.
grpc::Status to_status(const Error& error);
// Throws the Error that `status` stands for; a peer that cannot be reached is Error(kUnavailable) naming `peer`.
void throw_unless_ok(const grpc::Status& status, const std::string& peer);

std::shared_ptr<grpc::Channel> make_channel(const std::string& address);

// Starts a server with `services` on "HOST:PORT" (port 0: any free one) and tells the port it got. Throws
// Error(kUnavailable) naming the address when it is taken or not ours.
struct Server {
  std::unique_ptr<grpc::Server> server;
  std::string address;  // "HOST:PORT" with the real port
};
Server start_server(const std::string& address, const std::vector<grpc::Service*>& services);

}  // namespace motley

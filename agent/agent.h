#pragma once

// A node's agent: tells the coordinator what the node has and that it lives, and runs workers for it. It is a manager
// of processes: what touches devices happens in workers.

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "agent/blobs.h"
#include "agent/process.h"
#include "agent/rpc.h"
#include "base/file.h"
#include "proto/agent_service.grpc.pb.h"
#include "proto/coordinator_service.grpc.pb.h"

namespace motley {

struct AgentOptions {
  std::string listen = "127.0.0.1:0";
  std::string advertise;        // "HOST" by which others reach it; empty: the one of `listen`
  std::string coordinator;      // address; empty: none, for tests
  std::filesystem::path state;  // folder for files of jobs, this agent's alone
  std::filesystem::path blobs;  // models and checkpoints; empty: in `state`
  Bytes blob_limit = kBlobLimit;
  std::string worker_program;  // motley-worker's path
};

class Agent : public proto::Agent::Service {
 public:
  // Starts to serve and, in the background, to register until the coordinator answers. `node` lacks only its address.
  // Throws Error(kUnavailable) when it cannot listen, or another has its state folder.
  Agent(proto::NodeDescription node, AgentOptions options);
  ~Agent() override;  // ends all workers, tells the coordinator

  const std::string& address() const { return server_.address; }
  // Why the coordinator refused this node for good (its name is taken); empty while it did not.
  std::string refusal() const;

  grpc::Status Describe(grpc::ServerContext*, const proto::DescribeRequest*, proto::NodeDescription* response) override;
  grpc::Status Run(grpc::ServerContext* context, const proto::RunRequest* request,
                   grpc::ServerWriter<proto::WorkerEvent>* writer) override;
  grpc::Status ReadFile(grpc::ServerContext* context, const proto::ReadFileRequest* request,
                        grpc::ServerWriter<proto::FileChunk>* writer) override;

 private:
  void stay_registered();
  void run(grpc::ServerContext* context, const proto::WorkerTask& task, grpc::ServerWriter<proto::WorkerEvent>* writer);
  void wait_until_taken(grpc::ServerContext* context, const std::string& folder);  // all that was saved there
  std::string fetch(const std::string& hash);                                      // returns its path
  bool pause(Seconds time);                                                        // false when the agent ends

  proto::NodeDescription node_;
  const AgentOptions options_;
  const LockedFolder state_;
  Blobs blobs_;
  Spawner spawner_;
  std::unique_ptr<proto::Coordinator::Stub> coordinator_;
  std::mutex fetching_;  // one transfer at a time: all devices of a node want the same file
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> ending_{false};
  std::string refusal_;
  Server server_;
  std::thread registration_;
};

}  // namespace motley

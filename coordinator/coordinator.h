#pragma once

// The coordinator: knows nodes and jobs, lets each job run when its devices are free. One per cluster.

#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "agent/blobs.h"
#include "agent/rpc.h"
#include "base/file.h"
#include "coordinator/clock.h"
#include "coordinator/job_context.h"
#include "coordinator/job_log.h"
#include "coordinator/job_store.h"
#include "coordinator/key_value.h"
#include "coordinator/launcher.h"
#include "coordinator/node_registry.h"
#include "proto/coordinator_service.grpc.pb.h"

namespace motley {

struct CoordinatorOptions {
  std::string listen = "127.0.0.1:0";
  std::string advertise;        // "HOST" by which workers reach it; empty: the one of `listen`
  std::filesystem::path state;  // folder, this coordinator's alone; made if it is not there
  std::filesystem::path blobs;  // models and checkpoints; empty: in `state`
  Bytes blob_limit = kBlobLimit;
  std::filesystem::path profiles;  // the profile store; empty: in `state`
  Seconds heartbeat{1};
  int missed_heartbeats = 5;  // until a node counts as dead
};

class Coordinator : public proto::Coordinator::Service {
 public:
  // Serves at once. `clock` and `launcher` outlive it. Throws Error(kUnavailable) when it cannot listen or write.
  Coordinator(CoordinatorOptions options, const Clock& clock, Launcher& launcher);
  ~Coordinator() override;  // cancels all jobs and waits for their ends

  const std::string& address() const { return address_; }

  grpc::Status Register(grpc::ServerContext*, const proto::NodeDescription*, proto::RegisterResponse*) override;
  grpc::Status Heartbeat(grpc::ServerContext*, const proto::HeartbeatRequest*, proto::HeartbeatResponse*) override;
  grpc::Status Leave(grpc::ServerContext*, const proto::HeartbeatRequest*, proto::Empty*) override;
  grpc::Status HasBlob(grpc::ServerContext*, const proto::BlobRequest*, proto::BlobPresence*) override;
  grpc::Status UploadBlob(grpc::ServerContext*, grpc::ServerReader<proto::BlobChunk>*, proto::Empty*) override;
  grpc::Status FetchBlob(grpc::ServerContext*, const proto::BlobRequest*,
                         grpc::ServerWriter<proto::BlobChunk>*) override;
  grpc::Status Submit(grpc::ServerContext*, const proto::JobSpec*, proto::SubmitResponse*) override;
  grpc::Status Watch(grpc::ServerContext*, const proto::JobRequest*, grpc::ServerWriter<proto::JobEvent>*) override;
  grpc::Status Cancel(grpc::ServerContext*, const proto::JobRequest*, proto::Empty*) override;
  grpc::Status Status(grpc::ServerContext*, const proto::Empty*, proto::StatusResponse*) override;

 private:
  struct Job {
    std::int64_t number = 0;
    proto::JobSpec spec;
    Graph graph;
    std::shared_ptr<JobLog> log = std::make_shared<JobLog>();
    std::set<std::string> devices;  // taken, while it runs
    bool started = false;
    bool ended = false;
    std::stop_source stop;
    std::jthread thread;
  };

  void check(const proto::JobSpec& spec, const Graph& graph) const;
  void schedule();                                                       // starts what can start; holds mutex_
  std::vector<UsedDevice> devices_of(const proto::JobSpec& spec) const;  // empty when not all are there
  void run(Job& job, std::vector<UsedDevice> devices);
  void cancel(std::int64_t number);
  void end(Job& job, proto::JobState state, const std::string& message, bool nothing_fits = false);
  void forget_old_jobs();
  void trim_blobs();  // keeps what jobs that have not ended need

  const CoordinatorOptions options_;
  const Clock& clock_;
  Launcher& launcher_;
  const LockedFolder state_;
  Blobs blobs_;
  JobStore store_;
  ProfileStore profiles_;
  NodeRegistry nodes_;
  MeasuredOnce measured_;
  KeyValueService key_values_;
  std::mutex mutex_;
  std::map<std::int64_t, Job> jobs_;  // of this life, by number
  bool ending_ = false;
  std::string address_;
  Server server_;
};

}  // namespace motley

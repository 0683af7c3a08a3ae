#include <thread>

#include "agent/rpc.h"
#include "coordinator/launcher.h"
#include "proto/agent_service.grpc.pb.h"

namespace motley {
namespace {

class GrpcWorker : public LaunchedWorker {
 public:
  GrpcWorker(const proto::NodeDescription& node, const proto::RunRequest& request,
             std::function<void(proto::WorkerEvent)> on_event)
      : node_(node),
        device_(request.task().device().name()),
        on_event_(std::move(on_event)),
        stub_(proto::Agent::NewStub(make_channel(node.address()))),
        reader_(stub_->Run(&context_, request)),
        thread_([this] { read(); }) {}

  ~GrpcWorker() override {
    context_.TryCancel();
    thread_.join();
  }

  void stop() override { context_.TryCancel(); }

 private:
  void read() {
    bool ended = false;
    for (proto::WorkerEvent event; reader_->Read(&event);) {
      ended = ended || event.has_ended();
      on_event_(event);
    }
    const grpc::Status status = reader_->Finish();
    if (ended) return;
    proto::WorkerEvent event;
    event.set_device(device_);
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE || status.ok()) {
      event.mutable_ended()->set_last_words(AgentLost(node_).what());
      event.mutable_ended()->set_agent_lost(true);
    } else {
      event.mutable_ended()->set_last_words(status.error_message());
    }
    on_event_(event);
  }

  proto::NodeDescription node_;
  std::string device_;
  std::function<void(proto::WorkerEvent)> on_event_;
  std::unique_ptr<proto::Agent::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<proto::WorkerEvent>> reader_;
  std::thread thread_;
};

class GrpcLauncher : public Launcher {
 public:
  std::unique_ptr<LaunchedWorker> start(const proto::NodeDescription& node, const proto::RunRequest& request,
                                        std::function<void(proto::WorkerEvent)> on_event) override {
    return std::make_unique<GrpcWorker>(node, request, std::move(on_event));
  }

  void take_file(const proto::NodeDescription& node, const std::string& path,
                 const std::function<void(std::string_view)>& on_data) override {
    const auto stub = proto::Agent::NewStub(make_channel(node.address()));
    proto::ReadFileRequest request;
    request.set_path(path);
    request.set_remove(true);
    grpc::ClientContext context;
    const auto reader = stub->ReadFile(&context, request);
    try {
      for (proto::FileChunk chunk; reader->Read(&chunk);) on_data(chunk.data());
    } catch (...) {
      context.TryCancel();
      reader->Finish();
      throw;
    }
    const grpc::Status status = reader->Finish();
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) throw AgentLost(node);
    throw_unless_ok(status, "the agent of node " + node.name());
  }
};

}  // namespace

std::unique_ptr<Launcher> make_grpc_launcher() { return std::make_unique<GrpcLauncher>(); }

}  // namespace motley

#include "agent/agent.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <fstream>
#include <optional>

#include "agent/worker_process.h"

namespace motley {
namespace {

constexpr std::size_t kChunk = 1 << 20;
constexpr Seconds kPoll{0.1};   // how soon a caller that has gone is noticed
constexpr Seconds kSoon{0.01};  // how soon that a file was taken

void within(grpc::ClientContext& context, Seconds time) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int>(time.value * 1000)));
}

// What a worker saves until the coordinator has taken it; gone when the worker's task is over, however it ends.
class WorkerFolder {
 public:
  WorkerFolder(const std::filesystem::path& state, const proto::WorkerTask& task) {
    // A job's name is the coordinator's word: it must not lead out of our folder.
    if (task.job().empty() ||
        task.job().find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz-") != std::string::npos) {
      throw Error(ErrorKind::kInvalidInput, "'" + task.job() + "' cannot be a job's name");
    }
    path_ = state / "jobs" / (task.job() + "." + std::to_string(task.meeting().rank()));
    std::filesystem::create_directories(path_);
  }
  ~WorkerFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  WorkerFolder(const WorkerFolder&) = delete;
  WorkerFolder& operator=(const WorkerFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

Agent::Agent(proto::NodeDescription node, AgentOptions options)
    : node_(std::move(node)),
      options_(std::move(options)),
      state_(options_.state),
      blobs_(options_.blobs.empty() ? options_.state / "blobs" : options_.blobs) {
  std::filesystem::remove_all(state_.path() / "jobs");  // of an agent that was killed
  server_ = start_server(options_.listen, {this});
  const std::string port = server_.address.substr(server_.address.rfind(':'));
  node_.set_address(options_.advertise.empty() ? server_.address : options_.advertise + port);
  if (node_.data_address().empty()) node_.set_data_address(node_.address().substr(0, node_.address().rfind(':')));
  if (options_.coordinator.empty()) return;
  coordinator_ = proto::Coordinator::NewStub(make_channel(options_.coordinator));
  registration_ = std::thread([this] { stay_registered(); });
}

Agent::~Agent() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (registration_.joinable()) registration_.join();
  // Streams see `ending_` within a poll, and end their workers.
  server_.server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(3));
}

std::string Agent::refusal() const {
  const std::scoped_lock lock(mutex_);
  return refusal_;
}

bool Agent::pause(Seconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::duration<double>(time.value), [&] { return ending_.load(); });
}

void Agent::stay_registered() {
  bool told = false;  // that the coordinator does not answer
  proto::HeartbeatRequest heartbeat;
  heartbeat.set_node(node_.name());
  while (!ending_) {
    grpc::ClientContext context;
    within(context, Seconds{5});
    proto::RegisterResponse registered;
    const grpc::Status status = coordinator_->Register(&context, node_, &registered);
    if (status.error_code() == grpc::StatusCode::INVALID_ARGUMENT) {
      spdlog::error("{}", status.error_message());
      const std::scoped_lock lock(mutex_);
      refusal_ = status.error_message();
      return;
    }
    if (!status.ok()) {
      if (!told) spdlog::warn("the coordinator at {} does not answer; trying on", options_.coordinator);
      told = true;
      pause(Seconds{0.2});
      continue;
    }
    told = false;
    spdlog::info("registered with the coordinator at {} as {}", options_.coordinator, node_.name());
    heartbeat.set_session(registered.session());
    bool known = true;
    while (known && pause(Seconds{registered.heartbeat_seconds()})) {
      grpc::ClientContext beat;
      within(beat, Seconds{5});
      proto::HeartbeatResponse response;
      known = coordinator_->Heartbeat(&beat, heartbeat, &response).ok() && response.known();
    }
  }
  grpc::ClientContext context;
  within(context, Seconds{1});
  proto::Empty nothing;
  coordinator_->Leave(&context, heartbeat, &nothing);
}

grpc::Status Agent::Describe(grpc::ServerContext*, const proto::DescribeRequest*, proto::NodeDescription* response) {
  *response = node_;
  return grpc::Status::OK;
}

std::string Agent::fetch(const std::string& hash) {
  const std::scoped_lock lock(fetching_);
  if (!blobs_.has(hash)) {
    Blobs::Writer file(blobs_, hash);
    grpc::ClientContext context;
    proto::BlobRequest request;
    request.set_hash(hash);
    const auto reader = coordinator_->FetchBlob(&context, request);
    for (proto::BlobChunk chunk; reader->Read(&chunk);) file.append(chunk.data());
    throw_unless_ok(reader->Finish(), "the coordinator at " + options_.coordinator);
    file.finish();
    blobs_.trim(options_.blob_limit);
  }
  return blobs_.path(hash).string();
}

grpc::Status Agent::Run(grpc::ServerContext* context, const proto::RunRequest* request,
                        grpc::ServerWriter<proto::WorkerEvent>* writer) {
  try {
    proto::WorkerTask task = request->task();
    std::optional<WorkerFolder> folder;
    if (task.has_train()) {
      folder.emplace(state_.path(), task);
      task.mutable_train()->set_output(folder->path().string());
      task.mutable_train()->set_model(fetch(request->model_hash()));
      if (!request->checkpoint_hash().empty()) task.mutable_train()->set_checkpoint(fetch(request->checkpoint_hash()));
    }
    run(context, task, writer);
    return grpc::Status::OK;
  } catch (const Error& error) {
    return to_status(error);
  } catch (const std::exception& error) {
    return to_status(Error(ErrorKind::kUnavailable, error.what()));
  }
}

void Agent::wait_until_taken(grpc::ServerContext* context, const std::string& folder) {
  std::error_code failure;
  while (!folder.empty() && !std::filesystem::is_empty(folder, failure) && !failure) {
    if (context->IsCancelled() || !pause(kSoon)) return;
  }
}

void Agent::run(grpc::ServerContext* context, const proto::WorkerTask& task,
                grpc::ServerWriter<proto::WorkerEvent>* writer) {
  const std::string& device = task.device().name();
  WorkerProcess worker(spawner_, options_.worker_program, task);
  spdlog::info("job {}: started a worker for {}", task.job(), device);
  while (true) {
    const auto event = worker.next(kPoll);
    if (event && event->has_ended() && event->ended().ok()) wait_until_taken(context, task.train().output());
    if (context->IsCancelled() || ending_ || (event && !writer->Write(*event))) {
      spdlog::info("job {}: ending the worker of {}", task.job(), device);
      worker.stop();
      return;
    }
    if (event && event->has_ended()) {
      if (event->ended().ok()) {
        spdlog::info("job {}: the worker of {} is done", task.job(), device);
      } else {
        spdlog::warn("job {}: the worker of {} failed: {}", task.job(), device, event->ended().last_words());
      }
      return;
    }
  }
}

grpc::Status Agent::ReadFile(grpc::ServerContext*, const proto::ReadFileRequest* request,
                             grpc::ServerWriter<proto::FileChunk>* writer) {
  const auto path = std::filesystem::weakly_canonical(request->path());
  const auto folder = std::filesystem::weakly_canonical(options_.state / "jobs");
  if (!path.string().starts_with(folder.string() + "/")) {
    return {grpc::StatusCode::INVALID_ARGUMENT, request->path() + " is not a file of a job"};
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return {grpc::StatusCode::NOT_FOUND, request->path() + " is not there"};
  std::string buffer(kChunk, '\0');
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    proto::FileChunk chunk;
    chunk.set_data(buffer.data(), static_cast<std::size_t>(file.gcount()));
    if (!writer->Write(chunk)) return {grpc::StatusCode::CANCELLED, "the reader has gone"};
  }
  std::error_code ignored;
  if (request->remove()) std::filesystem::remove(path, ignored);
  return grpc::Status::OK;
}

}  // namespace motley

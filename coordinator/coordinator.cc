#include "coordinator/coordinator.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "base/file.h"
#include "coordinator/job.h"
#include "coordinator/planning.h"
#include "coordinator/worker_group.h"
#include "graph/serialize.h"
#include "strategy/baselines.h"
#include "strategy/evaluate.h"

namespace motley {
namespace {

constexpr std::size_t kChunk = 1 << 20;
// Whose events can still be watched once they have ended: the last ones, within both bounds.
constexpr std::size_t kRememberedJobs = 100;
constexpr std::size_t kRememberedBytes = 256 << 20;
constexpr Seconds kPoll{0.2};  // how soon a watcher that has gone is noticed

// Errors become the call's status.
template <class Body>
grpc::Status answer(const Body& body) {
  try {
    body();
    return grpc::Status::OK;
  } catch (const Error& error) {
    return to_status(error);
  } catch (const std::exception& error) {
    return to_status(Error(ErrorKind::kInternal, error.what()));
  }
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, const Clock& clock, Launcher& launcher)
    : options_(std::move(options)),
      clock_(clock),
      launcher_(launcher),
      state_(options_.state),
      blobs_(options_.blobs.empty() ? state_.path() / "blobs" : options_.blobs),
      store_(state_.path() / "coordinator.sqlite"),
      profiles_((options_.profiles.empty() ? state_.path() / "profiles.sqlite" : options_.profiles).string()),
      nodes_(clock, options_.heartbeat * options_.missed_heartbeats) {
  for (const std::string& output : store_.outputs()) remove_left_halves(output);
  server_ = start_server(options_.listen, {this, &key_values_});
  const auto port = server_.address.substr(server_.address.rfind(':'));
  address_ = options_.advertise.empty() ? server_.address : options_.advertise + port;
}

Coordinator::~Coordinator() {
  std::vector<std::jthread> threads;
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
    for (auto& [number, job] : jobs_) {
      job.stop.request_stop();
      if (!job.started && !job.ended) end(job, proto::STATE_CANCELLED, "the coordinator ended");
      threads.push_back(std::move(job.thread));
    }
  }
  threads.clear();  // joins
  key_values_.shut_down();
  server_.server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
}

grpc::Status Coordinator::Register(grpc::ServerContext*, const proto::NodeDescription* node,
                                   proto::RegisterResponse* response) {
  return answer([&] {
    response->set_session(nodes_.add(*node));
    response->set_heartbeat_seconds(options_.heartbeat.value);
    store_.remember(*node, clock_.now().value);
    spdlog::info("node {} at {} with {} devices", node->name(), node->address(), node->devices_size());
    const std::scoped_lock lock(mutex_);
    schedule();
  });
}

grpc::Status Coordinator::Heartbeat(grpc::ServerContext*, const proto::HeartbeatRequest* request,
                                    proto::HeartbeatResponse* response) {
  response->set_known(nodes_.heartbeat(request->node(), request->session()));
  return grpc::Status::OK;
}

grpc::Status Coordinator::Leave(grpc::ServerContext*, const proto::HeartbeatRequest* request, proto::Empty*) {
  nodes_.remove(request->node(), request->session());
  spdlog::info("node {} left", request->node());
  return grpc::Status::OK;
}

grpc::Status Coordinator::HasBlob(grpc::ServerContext*, const proto::BlobRequest* request,
                                  proto::BlobPresence* response) {
  return answer([&] { response->set_present(blobs_.has(request->hash())); });
}

grpc::Status Coordinator::UploadBlob(grpc::ServerContext*, grpc::ServerReader<proto::BlobChunk>* reader,
                                     proto::Empty*) {
  return answer([&] {
    std::optional<Blobs::Writer> file;
    for (proto::BlobChunk chunk; reader->Read(&chunk);) {
      if (!file) file.emplace(blobs_, chunk.hash());
      file->append(chunk.data());
    }
    if (!file) throw Error(ErrorKind::kInvalidInput, "a file without content was sent");
    file->finish();
    trim_blobs();
  });
}

grpc::Status Coordinator::FetchBlob(grpc::ServerContext*, const proto::BlobRequest* request,
                                    grpc::ServerWriter<proto::BlobChunk>* writer) {
  return answer([&] {
    std::ifstream file(blobs_.path(request->hash()), std::ios::binary);
    if (!blobs_.has(request->hash()) || !file)
      throw Error(ErrorKind::kNotFound, "the coordinator has no file " + request->hash());
    std::string buffer(kChunk, '\0');
    while (file) {
      file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
      proto::BlobChunk chunk;
      chunk.set_data(buffer.data(), static_cast<std::size_t>(file.gcount()));
      if (!writer->Write(chunk)) return;
    }
  });
}

void Coordinator::check(const proto::JobSpec& spec, const Graph& graph) const {
  const auto refuse = [](const std::string& why) { throw Error(ErrorKind::kInvalidInput, why); };
  check_batch(graph, spec.batch());
  if (!spec.headroom().empty()) parse_headroom(spec.headroom());
  if (spec.kind() == proto::JOB_RUN) {
    if (!blobs_.has(spec.model_hash())) refuse("the model was not sent to the coordinator before the job");
    if (spec.iterations() < 1) refuse("a run of no iterations: give --iterations");
    if (spec.data().empty()) refuse("a run needs data: give --data FOLDER");
    if (!spec.output().empty()) make_output_folder(spec.output());
  }
  std::vector<std::string> known;
  for (const auto& status : nodes_.status()) {
    for (const auto& device : status.node().devices()) known.push_back(device.name());
  }
  for (const std::string& device : spec.devices()) {
    if (std::find(known.begin(), known.end(), device) != known.end()) continue;
    std::string names;
    for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
    throw Error(ErrorKind::kNotFound,
                "there is no device " + device + "; there are: " + (names.empty() ? "none" : names));
  }
  if (spec.kind() == proto::JOB_RUN && !spec.strategy().empty() && spec.strategy() != "search") {
    check_strategy_name(spec.strategy(), spec.devices().empty()
                                             ? known
                                             : std::vector<std::string>(spec.devices().begin(), spec.devices().end()));
  }
}

grpc::Status Coordinator::Submit(grpc::ServerContext*, const proto::JobSpec* spec, proto::SubmitResponse* response) {
  return answer([&] {
    Graph graph = deserialize_graph(spec->graph(), "the job");
    check(*spec, graph);
    const std::scoped_lock lock(mutex_);
    if (ending_) throw Error(ErrorKind::kUnavailable, "the coordinator is ending");
    const std::int64_t number = store_.add(*spec, clock_.now().value);
    Job& job = jobs_[number];
    job.number = number;
    job.spec = *spec;
    job.graph = std::move(graph);
    proto::JobEvent queued;
    queued.set_state(proto::STATE_QUEUED);
    job.log->add(queued);
    spdlog::info("job {}: {} submitted", number, spec->model_name());
    response->set_job(number);
    schedule();
    forget_old_jobs();
  });
}

std::vector<UsedDevice> Coordinator::devices_of(const proto::JobSpec& spec) const {
  std::vector<UsedDevice> found;
  for (const auto& node : nodes_.alive()) {
    for (const auto& device : node.devices()) {
      const auto& wanted = spec.devices();
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), device.name()) != wanted.end()) {
        found.push_back({node, device});
      }
    }
  }
  if (static_cast<int>(found.size()) < spec.devices_size()) found.clear();
  return found;
}

// A job starts when all its devices are free and no job before it waits for one of them.
void Coordinator::schedule() {
  std::set<std::string> taken;
  for (const auto& [number, job] : jobs_) taken.insert(job.devices.begin(), job.devices.end());
  for (auto& [number, job] : jobs_) {
    if (job.started || job.ended || ending_) continue;
    const auto devices = devices_of(job.spec);
    std::set<std::string> names;
    for (const UsedDevice& used : devices) names.insert(used.device.name());
    if (devices.empty()) names.insert(job.spec.devices().begin(), job.spec.devices().end());
    const bool free = std::none_of(names.begin(), names.end(), [&](const auto& name) { return taken.contains(name); });
    taken.insert(names.begin(), names.end());
    if (devices.empty() || !free) continue;
    job.devices = std::move(names);
    job.started = true;
    job.thread = std::jthread([this, job = &job, devices] { run(*job, devices); });
  }
}

void Coordinator::run(Job& job, std::vector<UsedDevice> devices) {
  const auto emit = [&](const proto::JobEvent& event) {
    if (event.has_state()) store_.set_state(job.number, event.state(), "");
    job.log->add(event);
  };
  proto::JobState state = proto::STATE_DONE;
  std::string message;
  bool nothing_fits = false;
  try {
    const JobContext context{
        job.number,  job.spec, std::move(devices),   job.graph, launcher_, nodes_, profiles_, measured_,
        key_values_, address_, job.stop.get_token(), emit};
    run_job(context, [&](std::int64_t iteration) { store_.set_iteration(job.number, iteration); });
  } catch (const Cancelled& cancelled) {
    state = proto::STATE_CANCELLED;
    message = cancelled.what();
  } catch (const std::exception& error) {
    state = proto::STATE_FAILED;
    message = error.what();
    nothing_fits = dynamic_cast<const NothingFits*>(&error) != nullptr;
  }
  key_values_.forget("job-" + std::to_string(job.number) + "/");
  const std::scoped_lock lock(mutex_);
  job.devices.clear();
  end(job, state, message, nothing_fits);
  schedule();
}

void Coordinator::end(Job& job, proto::JobState state, const std::string& message, bool nothing_fits) {
  job.ended = true;
  job.spec.Clear();  // large, and not needed any more
  job.graph = {};
  store_.set_state(job.number, state, message);
  proto::JobEvent event;
  event.mutable_end()->set_state(state);
  event.mutable_end()->set_message(message);
  event.mutable_end()->set_nothing_fits(nothing_fits);
  job.log->add(event);
  spdlog::info("job {}: {}{}{}", job.number, proto::JobState_Name(state), message.empty() ? "" : ": ", message);
}

void Coordinator::forget_old_jobs() {
  std::size_t bytes = 0;
  for (const auto& [number, job] : jobs_) bytes += job.log->bytes();
  for (auto next = jobs_.begin(); next != jobs_.end();) {
    if (jobs_.size() <= kRememberedJobs && bytes <= kRememberedBytes) return;
    if (!next->second.ended) {
      ++next;
      continue;
    }
    bytes -= next->second.log->bytes();
    next = jobs_.erase(next);
  }
}

void Coordinator::trim_blobs() {
  std::set<std::string> needed;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [number, job] : jobs_) {
      if (!job.ended) needed.insert({job.spec.model_hash(), job.spec.checkpoint_hash()});
    }
  }
  blobs_.trim(options_.blob_limit, needed);
}

grpc::Status Coordinator::Watch(grpc::ServerContext* context, const proto::JobRequest* request,
                                grpc::ServerWriter<proto::JobEvent>* writer) {
  return answer([&] {
    std::shared_ptr<JobLog> log;
    {
      const std::scoped_lock lock(mutex_);
      const auto job = jobs_.find(request->job());
      if (job == jobs_.end()) {
        throw Error(ErrorKind::kNotFound, "there is no job " + std::to_string(request->job()) + " that can be watched");
      }
      log = job->second.log;
    }
    for (std::size_t place = 0; !context->IsCancelled();) {
      const auto event = log->next(place, kPoll);
      if (!event) continue;
      if (!writer->Write(*event)) break;
      if (event->has_end()) return;
    }
    if (request->ends_with_watcher()) cancel(request->job());
  });
}

void Coordinator::cancel(std::int64_t number) {
  const std::scoped_lock lock(mutex_);
  const auto job = jobs_.find(number);
  if (job == jobs_.end()) throw Error(ErrorKind::kNotFound, "there is no job " + std::to_string(number));
  job->second.stop.request_stop();
  if (!job->second.started && !job->second.ended) {
    end(job->second, proto::STATE_CANCELLED, "the job was cancelled before it began");
    schedule();
  }
}

grpc::Status Coordinator::Cancel(grpc::ServerContext*, const proto::JobRequest* request, proto::Empty*) {
  return answer([&] { cancel(request->job()); });
}

grpc::Status Coordinator::Status(grpc::ServerContext*, const proto::Empty*, proto::StatusResponse* response) {
  return answer([&] {
    for (auto& node : nodes_.status()) *response->add_nodes() = std::move(node);
    for (auto& job : store_.jobs()) *response->add_jobs() = std::move(job);
  });
}

}  // namespace motley

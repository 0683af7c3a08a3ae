#include "coordinator/client.h"

#include <chrono>
#include <fstream>
#include <thread>

#include "agent/blobs.h"
#include "agent/rpc.h"

namespace motley {
namespace {

constexpr std::size_t kChunk = 1 << 20;

void within(grpc::ClientContext& context, Seconds time) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int>(time.value * 1000)));
}

}  // namespace

CoordinatorClient::CoordinatorClient(const std::string& address)
    : peer_("the coordinator at " + address), stub_(proto::Coordinator::NewStub(make_channel(address))) {}

void CoordinatorClient::wait_for_nodes(std::size_t nodes, Seconds timeout) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout.value);
  while (true) {
    std::size_t alive = 0;
    bool answered = true;
    try {
      const proto::StatusResponse now = status();
      for (const auto& node : now.nodes()) alive += node.alive() ? 1 : 0;
    } catch (const Error&) {
      answered = false;
    }
    if (answered && alive >= nodes) return;
    if (std::chrono::steady_clock::now() >= end) {
      if (!answered) throw Error(ErrorKind::kUnavailable, peer_ + " does not answer: is it running?");
      throw Error(ErrorKind::kUnavailable,
                  peer_ + " has heard of " + std::to_string(alive) + " of " + std::to_string(nodes) + " agents");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

std::string CoordinatorClient::upload(const std::filesystem::path& path) const {
  std::string hash = sha256_of_file(path);
  {
    grpc::ClientContext context;
    proto::BlobRequest request;
    request.set_hash(hash);
    proto::BlobPresence presence;
    throw_unless_ok(stub_->HasBlob(&context, request, &presence), peer_);
    if (presence.present()) return hash;
  }
  grpc::ClientContext context;
  proto::Empty nothing;
  const auto writer = stub_->UploadBlob(&context, &nothing);
  std::ifstream file(path, std::ios::binary);
  std::string buffer(kChunk, '\0');
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    proto::BlobChunk chunk;
    chunk.set_hash(hash);
    chunk.set_data(buffer.data(), static_cast<std::size_t>(file.gcount()));
    if (!writer->Write(chunk)) break;
  }
  writer->WritesDone();
  throw_unless_ok(writer->Finish(), peer_);
  return hash;
}

std::int64_t CoordinatorClient::submit(const proto::JobSpec& spec) const {
  grpc::ClientContext context;
  proto::SubmitResponse response;
  throw_unless_ok(stub_->Submit(&context, spec, &response), peer_);
  return response.job();
}

proto::JobEnd CoordinatorClient::watch(std::int64_t job, const std::function<bool(const proto::JobEvent&)>& on_event,
                                       bool ends_with_watcher) const {
  grpc::ClientContext context;
  proto::JobRequest request;
  request.set_job(job);
  request.set_ends_with_watcher(ends_with_watcher);
  const auto reader = stub_->Watch(&context, request);
  for (proto::JobEvent event; reader->Read(&event);) {
    if (event.has_end()) return event.end();
    if (on_event(event)) continue;
    context.TryCancel();
    return {};
  }
  throw_unless_ok(reader->Finish(), peer_);
  throw Error(ErrorKind::kUnavailable, peer_ + " stopped telling about job " + std::to_string(job));
}

void CoordinatorClient::cancel(std::int64_t job) const {
  grpc::ClientContext context;
  within(context, Seconds{10});
  proto::JobRequest request;
  request.set_job(job);
  proto::Empty nothing;
  throw_unless_ok(stub_->Cancel(&context, request, &nothing), peer_);
}

proto::StatusResponse CoordinatorClient::status() const {
  grpc::ClientContext context;
  within(context, Seconds{5});
  proto::StatusResponse response;
  throw_unless_ok(stub_->Status(&context, {}, &response), peer_);
  return response;
}

}  // namespace motley

#include "runtime/preflight.h"

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/error.h"

namespace motley {
namespace {

constexpr std::int32_t kPreflightTag = (1 << 29) - 2;  // beyond any program's
constexpr Bytes kNumber{4};

using Clock = std::chrono::steady_clock;

[[noreturn]] void give_up(Communicator& communicator, const std::string& reason) {
  communicator.abort(reason);
  throw Error(ErrorKind::kUnavailable, reason);
}

void try_pairs(Communicator& communicator, const std::set<int>& peers, char* scratch, Seconds timeout) {
  const auto start = Clock::now();
  std::map<int, std::string> failures;
  std::vector<std::pair<int, std::unique_ptr<Pending>>> messages;
  for (const int peer : peers) {
    try {
      messages.emplace_back(peer,
                            communicator.receive(scratch + kNumber.value * (1 + peer), kNumber, peer, kPreflightTag));
      messages.emplace_back(peer, communicator.send(scratch, kNumber, peer, kPreflightTag));
    } catch (const Error& error) {
      failures[peer] = error.what();
    }
  }
  for (const auto& [peer, message] : messages) {
    const Seconds passed(std::chrono::duration<double>(Clock::now() - start).count());
    try {
      message->wait(std::max(timeout - passed, Seconds(0.001)));
    } catch (const Error& error) {
      failures.try_emplace(peer, error.what());
    }
  }
  if (failures.empty()) return;
  std::string reason = "pre-flight: no messages between " + communicator.name_of(communicator.rank()) + " and";
  for (const auto& [peer, why] : failures) {
    reason += (peer == failures.begin()->first ? " " : ", ") + communicator.name_of(peer);
  }
  give_up(communicator, reason + " within " + to_string(timeout) + ": " + failures.begin()->second);
}

}  // namespace

void preflight(Communicator& communicator, const std::vector<RankGroup>& groups, void* scratch, Seconds timeout) {
  std::set<int> peers;
  for (const RankGroup group : groups) {
    const std::vector<int>& members = communicator.members(group);
    peers.insert(members.begin(), members.end());
  }
  peers.erase(communicator.rank());
  try_pairs(communicator, peers, static_cast<char*>(scratch), timeout);

  for (const RankGroup group : groups) {
    try {
      communicator.all_reduce(group, scratch, 1, DType::kInt32, timeout);
    } catch (const Error& error) {
      give_up(communicator, "pre-flight, after all pairs had exchanged a message: " + std::string(error.what()));
    }
  }
}

}  // namespace motley

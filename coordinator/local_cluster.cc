#include "coordinator/local_cluster.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <fstream>
#include <iostream>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "coordinator/client.h"
#include "proto/name.h"
#include "runtime/emulation.h"

namespace motley {
namespace {

constexpr Seconds kStart{30};    // for a daemon to be there
constexpr Seconds kPatience{5};  // for it to end by itself
constexpr std::size_t kLastLines = 5;

int number_of(const std::string& key, const std::string& text) {
  if (text.empty() || text.size() > 4 || text.find_first_not_of("0123456789") != std::string::npos) {
    throw Error(ErrorKind::kInvalidInput, "agent option " + key + "=" + text + ": a number is wanted");
  }
  return std::stoi(text);
}

}  // namespace

LocalAgent parse_local_agent(std::string_view text, const std::string& default_name) {
  LocalAgent agent;
  agent.name = default_name;
  while (!text.empty()) {
    const std::string part(text.substr(0, text.find(',')));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const auto equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (key == "name") {
      agent.name = value;
    } else if (key == "devices") {
      agent.cpu_devices = number_of(key, value);
    } else if (key == "threads") {
      agent.threads = number_of(key, value);
    } else if (key == "address") {
      agent.address = value;
    } else {
      agent.emulation += (agent.emulation.empty() ? "" : ",") + part;
    }
  }
  check_node_name(agent.name);
  try {
    if (!agent.emulation.empty()) parse_emulation(agent.emulation);
  } catch (const Error& error) {
    throw Error(error.kind(), "agent " + agent.name + ": " + error.what() +
                                  " (an agent has name, devices, threads and address besides)");
  }
  return agent;
}

// A child that serves, with its output in a log.
struct LocalCluster::Daemon {
  std::string name;
  std::unique_ptr<Child> child;
  std::filesystem::path address_file;
  std::mutex mutex;
  std::deque<std::string> last_lines;
  std::thread reader;

  ~Daemon() {
    child->stop(kPatience);
    reader.join();
  }

  void read(const std::filesystem::path& log_path, bool verbose) {
    std::ofstream log(log_path);
    std::string text;
    char buffer[4096];
    while (true) {
      const ssize_t size = ::read(child->output(), buffer, sizeof buffer);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return;
      text.append(buffer, static_cast<std::size_t>(size));
      for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
        const std::string line = text.substr(0, end);
        log << line << std::endl;  // whole lines are there when somebody looks
        if (verbose) std::cerr << line << "\n";
        const std::scoped_lock lock(mutex);
        last_lines.push_back(line);
        if (last_lines.size() > kLastLines) last_lines.pop_front();
      }
    }
  }

  // Its address, once it listens.
  std::string wait_for_address() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kStart.value);
    while (!std::filesystem::exists(address_file)) {
      const bool gone = child->wait_for(Seconds{0.02});
      if (!gone && std::chrono::steady_clock::now() < end) continue;
      if (gone) std::this_thread::sleep_for(std::chrono::milliseconds(100));  // for its last lines
      throw Error(ErrorKind::kUnavailable,
                  name + (gone ? " ended before it could serve:" : " does not begin to serve:") + words());
    }
    return read_file(address_file);
  }

  // Its last lines.
  std::string words() {
    std::string words;
    const std::scoped_lock lock(mutex);
    for (const std::string& line : last_lines) words += "\n  " + line;
    return words;
  }
};

LocalCluster::LocalCluster(const LocalClusterOptions& options) {
  std::set<std::string> names;
  for (const LocalAgent& agent : options.agents) {
    if (!names.insert(agent.name).second) {
      throw Error(ErrorKind::kInvalidInput, "two agents are named " + agent.name + ": give each its own name=");
    }
  }
  // A folder apart, so that an agent may be named coordinator.
  const std::filesystem::path agents = options.state / "agents";
  std::filesystem::create_directories(agents);
  const auto programs =
      options.programs.empty() ? std::filesystem::path(sibling_program("")).parent_path() : options.programs;
  const std::string blobs = (options.state / "blobs").string();  // one for all: nothing is copied
  std::vector<std::string> coordinator{(programs / "motley-coordinator").string(),
                                       "--listen",
                                       options.address + ":0",
                                       "--state",
                                       (options.state / "coordinator").string(),
                                       "--blobs",
                                       blobs};
  if (!options.profiles.empty()) coordinator.insert(coordinator.end(), {"--profiles", options.profiles.string()});
  address_ = start("the coordinator", coordinator, options.state / "coordinator", options.verbose).wait_for_address();
  for (const LocalAgent& agent : options.agents) {
    std::vector<std::string> arguments = agent.prefix;
    arguments.insert(arguments.end(),
                     {(programs / "motley-agent").string(), "--name", agent.name, "--coordinator", address_, "--listen",
                      agent.address + ":0", "--state", (agents / agent.name).string(), "--blobs", blobs,
                      "--cpu-devices", std::to_string(agent.cpu_devices), "--threads", std::to_string(agent.threads)});
    if (!agent.emulation.empty()) arguments.insert(arguments.end(), {"--emulate", agent.emulation});
    start("the agent " + agent.name, arguments, agents / agent.name, options.verbose);
  }
  for (const auto& daemon : daemons_) daemon->wait_for_address();
  CoordinatorClient(address_).wait_for_nodes(options.agents.size(), kStart);
}

LocalCluster::~LocalCluster() {
  for (const auto& daemon : daemons_) daemon->child->signal(SIGTERM);  // all at once
}

LocalCluster::Daemon& LocalCluster::start(const std::string& name, const std::vector<std::string>& arguments,
                                          const std::filesystem::path& state, bool verbose) {
  const std::filesystem::path address_file = state.string() + ".address";
  std::filesystem::remove(address_file);
  auto command = arguments;
  command.insert(command.end(), {"--address-file", address_file.string()});
  auto child = spawner_.start(command, SIGTERM);  // may throw; a daemon has a child
  auto daemon = std::make_unique<Daemon>();
  daemon->name = name;
  daemon->child = std::move(child);
  daemon->address_file = address_file;
  daemon->reader =
      std::thread([raw = daemon.get(), log = state.string() + ".log", verbose] { raw->read(log, verbose); });
  daemons_.push_back(std::move(daemon));
  return *daemons_.back();
}

std::string LocalCluster::lost() const {
  for (const auto& daemon : daemons_) {
    // Its connections break a moment before its end is known.
    if (!daemon->child->wait_for(Seconds{0.05})) continue;
    return daemon->name + " ended by " + to_string(daemon->child->wait()) + "; its last words:" + daemon->words();
  }
  return "";
}

std::vector<pid_t> LocalCluster::processes() const {
  std::vector<pid_t> pids;
  for (const auto& daemon : daemons_) pids.push_back(daemon->child->pid());
  return pids;
}

}  // namespace motley

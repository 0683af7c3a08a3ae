#pragma once

// A coordinator and agents as child processes of this one: what `motley run` uses when no coordinator is named. All of
// them, and the workers that they start, end with the object, and with this process, however it ends: then they get
// SIGTERM, so that they leave nothing half-written.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/process.h"

namespace motley {

struct LocalAgent {
  std::string name;
  std::string emulation;  // runtime/emulation.h; empty: real devices
  int cpu_devices = -1;   // as motley-agent's options
  int threads = 0;
  std::string address = "127.0.0.1";  // that it listens on, for data too
  std::vector<std::string> prefix;    // command that runs it elsewhere ("ip", "netns", "exec", "big")
};

// "name=big,speed=0.5,bandwidth=200Mbps,latency=1ms,memory=2GiB,devices=1,threads=2,address=10.0.0.2", any of them;
// what is not of the agent itself is its emulation. Throws Error(kInvalidInput) that names the part.
LocalAgent parse_local_agent(std::string_view text, const std::string& default_name);

struct LocalClusterOptions {
  std::vector<LocalAgent> agents;
  std::filesystem::path state;        // folder for this cluster alone
  std::filesystem::path profiles;     // the profile store, which outlives it; empty: in `state`
  std::string address = "127.0.0.1";  // that the coordinator listens on
  std::filesystem::path programs;     // folder of motley's programs; empty: that of the running one
  bool verbose = false;               // the daemons' logs on our standard error; else in `state`/*.log
};

class LocalCluster {
 public:
  // Returns when all agents have registered. Throws Error(kUnavailable) with the last lines of a program that did not
  // start.
  explicit LocalCluster(const LocalClusterOptions& options);
  ~LocalCluster();

  const std::string& coordinator() const { return address_; }  // for CoordinatorClient
  // Which of the programs has ended, how, and its last lines; empty while all are there.
  std::string lost() const;
  // The processes, for tests and messages: the coordinator, then the agents in order.
  std::vector<pid_t> processes() const;

 private:
  struct Daemon;
  // A daemon whose state is in `state`; its address and log stand beside it.
  Daemon& start(const std::string& name, const std::vector<std::string>& arguments, const std::filesystem::path& state,
                bool verbose);

  Spawner spawner_;
  std::vector<std::unique_ptr<Daemon>> daemons_;
  std::string address_;
};

}  // namespace motley

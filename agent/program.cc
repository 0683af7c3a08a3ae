#include "agent/program.h"

#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <ctime>
#include <iostream>

#include "base/error.h"
#include "base/suggest.h"

namespace motley {
namespace {

constexpr unsigned kLongestEnd = 15;  // seconds

sigset_t ending_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  return signals;
}

// The file's options as arguments, for those that `command_line` has not. CLI11 takes arguments from the back.
std::vector<std::string> arguments_of_file(const std::string& path, CLI::App& app,
                                           const std::vector<std::string>& command_line) {
  YAML::Node root;
  try {
    root = YAML::LoadFile(path);
  } catch (const YAML::BadFile&) {
    throw Error(ErrorKind::kNotFound, path + ": cannot be read");
  } catch (const YAML::ParserException& error) {
    throw Error(ErrorKind::kInvalidInput, path + ":" + std::to_string(error.mark.line + 1) + ": " + error.msg);
  }
  const auto refuse = [&](const YAML::Node& node, const std::string& why) {
    throw Error(ErrorKind::kInvalidInput, path + ":" + std::to_string(node.Mark().line + 1) + ": " + why);
  };
  if (root.IsNull()) return {};
  if (!root.IsMap()) refuse(root, "an option and its value on each line are wanted, like 'listen: 127.0.0.1:7070'");
  std::vector<std::string> names;
  std::vector<std::string> given;
  for (const CLI::Option* option : app.get_options()) {
    names.push_back(option->get_single_name());
    if (!option->empty()) given.push_back(option->get_single_name());
  }
  std::vector<std::string> arguments;
  for (const auto& entry : root) {
    const auto name = entry.first.as<std::string>();
    const CLI::Option* option = app.get_option_no_throw("--" + name);
    if (option == nullptr || name == "config" || name == "help") {
      refuse(entry.first, "there is no option '" + name + "'" + did_you_mean(name, names));
    }
    if (!entry.second.IsScalar()) refuse(entry.second, "'" + name + "' wants one value");
    // By the command line's options alone, so that each option of the file can be tried by itself.
    if (std::find(given.begin(), given.end(), name) != given.end()) continue;
    const std::string argument = "--" + name + "=" + entry.second.as<std::string>();
    std::vector<std::string> tried = command_line;
    tried.insert(tried.begin(), argument);
    try {
      app.parse(tried);
    } catch (const CLI::ParseError& error) {
      refuse(entry.second, error.what());
    }
    arguments.push_back(argument);
  }
  arguments.insert(arguments.end(), command_line.begin(), command_line.end());
  return arguments;
}

}  // namespace

std::optional<int> parse_options(CLI::App& app, int argc, char** argv) {
  std::string config;
  std::string level = "info";
  app.add_option("--config", config, "YAML file with any of these options");
  app.add_option("--log-level", level, "what to tell")
      ->check(CLI::IsMember(std::vector<std::string>{"trace", "debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    if (!config.empty()) {
      std::vector<std::string> command_line;
      for (int i = argc - 1; i > 0; --i) command_line.emplace_back(argv[i]);
      std::vector<std::string> arguments = arguments_of_file(config, app, command_line);
      app.parse(arguments);
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  spdlog::set_default_logger(spdlog::stderr_logger_mt(app.get_name()));
  spdlog::set_level(spdlog::level::from_str(level));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %n %l: %v");
  return std::nullopt;
}

void add_blob_limit(CLI::App& app, Bytes& limit) {
  const auto parse = [&limit](const std::string& text) {
    try {
      limit = parse_bytes(text);
    } catch (const Error& error) {
      throw CLI::ValidationError("--blob-limit", error.what());
    }
  };
  app.add_option_function<std::string>("--blob-limit", parse,
                                       "models and checkpoints beyond it go, the least recently used first")
      ->default_str(to_string(limit));
}

void take_signals() {
  const sigset_t signals = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

void wait_for_signal(const std::function<bool()>& done) {
  const sigset_t signals = ending_signals();
  const timespec poll{0, 200'000'000};
  while (!done() && ::sigtimedwait(&signals, nullptr, &poll) <= 0) {
  }
  ::alarm(kLongestEnd);  // its signal kills: nobody else may be there to do so
}

int guarded_main(const std::string& name, const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << "\n";
    return 1;
  }
}

}  // namespace motley

#pragma once

// What motley's long-running programs share: options from the command line and a YAML file, logging, the end by a
// signal.

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "base/units.h"

namespace motley {

// Adds --config FILE and --log-level, parses, starts logging to standard error. The file is one map of option names
// without dashes (`listen: 127.0.0.1:7070`); the command line goes before it. Returns nothing when the program shall go
// on, else its exit code (--help, bad options: told). Errors in the file name it and the line.
std::optional<int> parse_options(CLI::App& app, int argc, char** argv);

// --blob-limit SIZE, for a daemon that keeps models and checkpoints.
void add_blob_limit(CLI::App& app, Bytes& limit);

// Call first, on the main thread: SIGINT and SIGTERM no longer end the process but are for wait_for_signal.
void take_signals();
// Waits for SIGINT or SIGTERM, or until `done` is true (asked a few times a second). From then on the program has some
// seconds to end by itself.
void wait_for_signal(const std::function<bool()>& done = [] { return false; });

// Runs a program's body: an Error is told as "NAME: message" and becomes exit code 1.
int guarded_main(const std::string& name, const std::function<int()>& body);

}  // namespace motley

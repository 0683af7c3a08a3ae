// The `motley` command.

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "base/error.h"
#include "cli/commands.h"

int main(int argc, char** argv) {
  // Standard output carries results alone, so that --json can be piped.
  spdlog::set_default_logger(spdlog::stderr_color_mt("motley"));
  CLI::App app("Plans and runs the training of one model on devices that are not all alike.", "motley");
  app.set_version_flag("--version", MOTLEY_VERSION);
  app.require_subcommand(1);
  app.footer("Example: motley compare model.pt2 --cluster cluster.yaml --batch 64");
  motley::add_inspect_command(app);
  motley::add_profile_command(app);
  motley::add_plan_command(app);
  motley::add_compare_command(app);
  motley::add_simulate_command(app);
  motley::add_explain_command(app);
  motley::add_what_if_command(app);
  motley::add_run_command(app);
  motley::add_status_command(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const motley::Error& error) {
    std::fprintf(stderr, "motley: %s\n", error.what());
    return error.kind() == motley::ErrorKind::kInternal ? 3 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "motley: %s\n", error.what());
    return 3;
  }
}

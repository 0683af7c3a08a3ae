// The `motley` command.

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>

#include "base/error.h"
#include "base/suggest.h"
#include "cli/commands.h"

namespace {

// Names the first word that nobody expects, and what was most likely meant.
int refuse_unexpected(const CLI::App& app) {
  const std::vector<std::string> unexpected = app.remaining(true);
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  std::string word = unexpected.front();
  std::string what = "there is no command " + word;
  std::vector<std::string> known;
  if (chosen.empty()) {
    for (const CLI::App* each : app.get_subcommands({})) known.push_back(each->get_name());
  } else {
    const auto option = std::find_if(unexpected.begin(), unexpected.end(),
                                     [](const std::string& each) { return each.starts_with("-"); });
    const bool is_option = option != unexpected.end();
    if (is_option) word = *option;
    what =
        "motley " + chosen.front()->get_name() + (is_option ? " has no option " : " takes no further argument ") + word;
    for (const CLI::Option* each : chosen.front()->get_options()) {
      if (each->nonpositional()) known.push_back("--" + each->get_single_name());
    }
  }
  std::fprintf(stderr, "motley: %s%s\nRun with --help for more information.\n", what.c_str(),
               motley::did_you_mean(word, known).c_str());
  return static_cast<int>(CLI::ExitCodes::ExtrasError);
}

}  // namespace

int main(int argc, char** argv) {
  // Standard output carries results alone, so that --json can be piped.
  spdlog::set_default_logger(spdlog::stderr_color_mt("motley"));
  CLI::App app("Plans and runs the training of one model on devices that are not all alike.", "motley");
  app.set_version_flag("--version", MOTLEY_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Example: motley compare model.pt2 --cluster cluster.yaml --batch 64\n"
      "Exit status: 0; 1 for bad input or a job that failed; 2 when nothing fits; 3 for a fault of motley; "
      "100 and more for wrong options.");
  motley::add_inspect_command(app);
  motley::add_profile_command(app);
  motley::add_plan_command(app);
  motley::add_compare_command(app);
  motley::add_simulate_command(app);
  motley::add_explain_command(app);
  motley::add_what_if_command(app);
  motley::add_validate_command(app);
  motley::add_train_policy_command(app);
  motley::add_run_command(app);
  motley::add_status_command(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    // An unknown word is why something else is missing.
    return error.get_exit_code() != 0 && !app.remaining(true).empty() ? refuse_unexpected(app) : app.exit(error);
  } catch (const motley::Error& error) {
    std::fprintf(stderr, "motley: %s\n", error.what());
    return error.kind() == motley::ErrorKind::kInternal ? 3 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "motley: %s\n", error.what());
    return 3;
  }
}

#pragma once

// The commands. Each adds itself to the application; its action runs when it was chosen, and throws Error.

#include <CLI/CLI.hpp>

namespace motley {

void add_inspect_command(CLI::App& app);
void add_profile_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_simulate_command(CLI::App& app);
void add_explain_command(CLI::App& app);
void add_what_if_command(CLI::App& app);
void add_validate_command(CLI::App& app);
void add_train_policy_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_status_command(CLI::App& app);

}  // namespace motley

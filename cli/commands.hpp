// The table of subcommands: one file each in this folder, one line each in commands.cpp.
#pragma once

#include "cli/common/command.hpp"

namespace tw::cli {

// In the order in which help lists them.
Commands make_commands();

void define_plan(Command& command);
void define_explain(Command& command);
void define_diff(Command& command);
void define_models(Command& command);
void define_clusters(Command& command);
void define_schedules(Command& command);
void define_collectives(Command& command);
void define_schedule(Command& command);
void define_simulate(Command& command);
void define_run(Command& command);
void define_compare(Command& command);
void define_launch(Command& command);
void define_weights(Command& command);
void define_inspect(Command& command);
void define_layers(Command& command);
void define_check(Command& command);
void define_export(Command& command);
void define_validate(Command& command);
void define_profile(Command& command);
void define_completion(Command& command);

}  // namespace tw::cli

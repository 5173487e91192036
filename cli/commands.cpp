#include "cli/commands.hpp"

#include <array>

namespace tw::cli {
namespace {

struct Entry {
    const char* name;
    const char* summary;
    void (*define)(Command&);
};

constexpr std::array kEntries = {
    Entry{"plan", "Find the best plans for a model on a cluster", define_plan},
    Entry{"simulate", "Predict one plan: step time, memory of every stage, where the time goes",
          define_simulate},
    Entry{"run", "Train a model by its plan on this machine's processors", define_run},
    Entry{"weights", "Write a checkpoint's weights as safetensors", define_weights},
    Entry{"launch", "Write the file that starts a plan on a cluster", define_launch},
    Entry{"compare", "Lay a run over its prediction: times, idle shares, memory", define_compare},
    Entry{"explain", "Say where a plan's time and memory go and what would help most", define_explain},
    Entry{"diff", "Compare two plans: their fields, times and memory", define_diff},
    Entry{"check", "Say whether a plan is legal, by a framework's own rules", define_check},
    Entry{"export", "Write a plan as another framework's arguments or configuration", define_export},
    Entry{"schedule", "Run a pipeline schedule alone, with given stage times", define_schedule},
    Entry{"inspect", "Say what a file is and what it holds", define_inspect},
    Entry{"layers", "Show the work of a model's layers on one rank: products, bytes, activations",
          define_layers},
    Entry{"validate", "Score predictions on measured training runs", define_validate},
    Entry{"profile", "Show what is known of a device's speed, and how well", define_profile},
    Entry{"models", "List the models that are known", define_models},
    Entry{"clusters", "List the node types and devices that are known", define_clusters},
    Entry{"schedules", "List the pipeline schedules", define_schedules},
    Entry{"collectives", "List the collective algorithms", define_collectives},
    Entry{"completion", "Write a completion script for a shell", define_completion},
};

}  // namespace

Commands make_commands() {
    Commands commands;
    for (const Entry& entry : kEntries) {
        commands.push_back(std::make_unique<Command>(entry.name, entry.summary));
        entry.define(*commands.back());
    }
    return commands;
}

}  // namespace tw::cli

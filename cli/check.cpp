#include "cli/commands.hpp"
#include "cli/common/load_plan.hpp"
#include "plan/check_plan.hpp"
#include "plan/padded_vocabulary.hpp"

namespace tw::cli {
namespace {

struct CheckOptions {
    std::string plan;
    std::string framework = "trainwright";
};

int check(const CheckOptions& options, Console& console) {
    const Result<PlanDocument> plan = load_plan_document(options.plan);
    if (!plan) return console.fail(plan.errors());
    const Result<TargetFramework> target = parse_target_framework(options.framework);
    if (!target) return console.fail(target.errors());
    PlanCheck result = check_plan(plan->graph, plan->cluster, plan->plan, *target);
    // A plan of ours may be legal and simulated beyond what the executor runs.
    if (result.errors.empty() && options.framework == "trainwright") {
        for (const std::string& part : executor_verdict()(plan->graph, plan->plan))
            result.warnings.push_back("trainwright run does not run it: " + part);
    }
    if (console.json) {
        Json json = document("check");
        json["plan"] = summary(plan->plan);
        json["framework"] = options.framework;
        json["legal"] = result.errors.empty();
        json["errors"] = errors_to_json(result.errors);
        json["warnings"] = result.warnings;
        if (const std::int64_t padded = padded_vocab(plan->graph, plan->plan); padded > 0) {
            json["vocabulary"] = {{"rows", plan->graph.vocab},
                                  {"padded_rows", padded},
                                  {"dummy_rows", padded - plan->graph.vocab}};
        }
        console.out_json(json);
        return result.errors.empty() ? 0 : exit_code(result.errors);
    }
    for (const std::string& warning : result.warnings)
        console.warn(warning);
    if (!result.errors.empty()) return console.fail(in_document(result.errors, options.plan));
    console.out(plan->model_name + " " + summary(plan->plan) + ": legal for " + options.framework + "\n");
    if (const std::string padding = padding_sentence(plan->graph, plan->plan); !padding.empty())
        console.out(padding + "\n");
    return 0;
}

}  // namespace

void define_check(Command& command) {
    auto& options = command.keep<CheckOptions>();
    command.positional("PLAN", options.plan, "a trainwright/plan document; - is stdin");
    command.word("--for", options.framework, target_framework_names(),
                 "whose rules apply, and whose names the messages use; trainwright where not given");
    command.details(
        "Every violation at once, each with its numbers and a legal neighbour. Whether the plan fits in "
        "memory is what "
        "simulate says. What trainwright's own executor does not run of a plan is a warning. The exit code "
        "is 5 where the plan is not legal.");
    command.example("check plan.json --for megatron", "by Megatron-LM's rules");
    command.run([&options](Console& console) { return check(options, console); });
}

}  // namespace tw::cli

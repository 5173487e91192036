#include <iostream>

#include "cli/check_config.hpp"
#include "cli/commands.hpp"
#include "cli/common/load_plan.hpp"
#include "models/formats/document_kinds.hpp"
#include "models/formats/text_lines.hpp"
#include "plan/check_plan.hpp"
#include "plan/padded_vocabulary.hpp"

namespace tw::cli {
namespace {

struct CheckOptions {
    std::string plan, framework = "trainwright";
    std::string model, cluster, output;
};

int check_document(const CheckOptions& options, const PlanDocument& plan, Console& console) {
    const Result<TargetFramework> target = parse_target_framework(options.framework);
    if (!target) return console.fail(target.errors());
    PlanCheck result = check_plan(plan.graph, plan.cluster, plan.plan, *target);
    // A plan of ours may be legal and simulated beyond what the executor runs.
    if (result.errors.empty() && options.framework == "trainwright") {
        for (const std::string& part : executor_verdict()(plan.graph, plan.plan))
            result.warnings.push_back("trainwright run does not run it: " + part);
    }
    if (console.json) {
        Json json = document("check");
        json["plan"] = summary(plan.plan);
        json["framework"] = options.framework;
        json["legal"] = result.errors.empty();
        json["errors"] = errors_to_json(result.errors);
        json["warnings"] = result.warnings;
        if (const std::int64_t padded = padded_vocab(plan.graph, plan.plan); padded > 0) {
            json["vocabulary"] = {{"rows", plan.graph.vocab},
                                  {"padded_rows", padded},
                                  {"dummy_rows", padded - plan.graph.vocab}};
        }
        console.out_json(json);
        return result.errors.empty() ? 0 : exit_code(result.errors);
    }
    for (const std::string& warning : result.warnings)
        console.warn(warning);
    if (!result.errors.empty()) return console.fail(in_document(result.errors, options.plan));
    console.out(plan.model_name + " " + summary(plan.plan) + ": legal for " + options.framework + "\n");
    if (const std::string padding = padding_sentence(plan.graph, plan.plan); !padding.empty())
        console.out(padding + "\n");
    return 0;
}

// The reader of a configuration; null where the text is a plan's, or may be one with a fault in it.
const ConfigReader* reader_of(const CheckOptions& options, const std::string& text, bool named) {
    if (documents::schema_of(text).starts_with("trainwright/")) return nullptr;
    if (const ConfigReader* reader = find_config_reader(text, options.plan == "-" ? "<stdin>" : options.plan))
        return reader;
    const auto target = parse_target_framework(options.framework);
    return named && target ? config_reader_of(*target) : nullptr;
}

Error neither(const std::string& path) {
    std::string known;
    for (const ConfigReader& reader : config_readers())
        known += (known.empty() ? "" : ", ") + std::string(reader.document);
    return {ErrorCode::Unreadable, "is neither a plan document nor a configuration that is known", path,
            known + "; --for FRAMEWORK reads it as one of its"};
}

int check(const CheckOptions& options, const Command& command, Console& console) {
    const bool from_stdin = options.plan == "-";
    const Result<std::string> text =
        from_stdin ? read_text_stream(std::cin, "<stdin>") : read_text_file(options.plan);
    if (!text) return console.fail(text.errors());
    const bool named = command.given("--for");
    if (const ConfigReader* reader = reader_of(options, *text, named)) {
        return check_config(*reader, *text,
                            {options.plan, named ? options.framework : std::string(), options.model,
                             options.cluster, options.output},
                            console);
    }
    const std::string path = from_stdin ? "<stdin>" : options.plan;
    if (!path.ends_with(".json") && !trim(*text).starts_with('{')) return console.fail({neither(path)});
    const auto json = parse_json(*text, path);
    if (!json) return console.fail(json.errors());
    const auto plan = plan_document_from_json(*json, path);
    if (!plan) return console.fail(plan.errors());
    static constexpr std::string_view kOfConfigs[] = {"--model", "--cluster", "--output"};
    if (const Errors unused = command.unused(kOfConfigs, "beside a plan document, which has its own");
        !unused.empty())
        return console.fail(unused);
    return check_document(options, *plan, console);
}

}  // namespace

void define_check(Command& command) {
    auto& options = command.keep<CheckOptions>();
    command.positional(
        "PLAN", options.plan,
        "a trainwright/plan document, or a configuration of another framework: a script or a list "
        "of Megatron-LM's flags, DeepSpeed's JSON, torchtitan's TOML, nanotron's or accelerate's "
        "YAML; - is stdin");
    command.word("--for", options.framework, target_framework_names(),
                 "whose rules apply, and whose names the messages use; where not given trainwright, or the "
                 "configuration's own framework");
    command.text("--model", options.model, "MODEL",
                 "of a configuration that does not describe its own, or in place of it");
    command.text("--cluster", options.cluster, "CLUSTER", "that a configuration is to run on: h100:64");
    command.output("-o,--output", options.output, "write the configuration's plan, for simulate and explain");
    command.details(
        "Every violation at once, each with its numbers and a legal neighbour. A configuration is shown as "
        "it was read; with its model and a cluster known its memory is estimated as simulate does, which "
        "says "
        "for plan documents whether they fit. What trainwright's own executor does not run of a plan is a "
        "warning. The exit code is 5 where the plan is not legal.");
    command.example("check plan.json --for megatron", "by Megatron-LM's rules");
    command.example("check pretrain.sh --cluster h100:64", "a script that runs Megatron-LM");
    command.example("check ds_config.json --model llama3-8b --cluster a100:16 -o plan.json",
                    "DeepSpeed's JSON, and its plan for simulate");
    command.run([&options, &command](Console& console) { return check(options, command, console); });
}

}  // namespace tw::cli

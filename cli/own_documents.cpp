#include "cli/own_documents.hpp"

#include <array>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/si_format.hpp"
#include "cli/check_config.hpp"
#include "cli/own_answers.hpp"
#include "cli/run_documents_json.hpp"
#include "models/formats/document_kinds.hpp"
#include "plan/check_plan.hpp"
#include "plan/gradient_sync/sync_options_json.hpp"
#include "plan/plan_json.hpp"
#include "plan/schedule/check.hpp"
#include "plan/schedule/pytorch_csv.hpp"
#include "plan/schedule/text.hpp"
#include "plan/trace/trace_json.hpp"
#include "sim/scenario/scenario_json.hpp"

namespace tw::cli {
namespace {

using Described = Result<DocumentSummary>;

constexpr char kPlan[] = "trainwright/plan", kTrace[] = "trainwright/trace",
               kScenario[] = "trainwright/scenario";

bool is_schedule_text(std::string_view text, std::string_view) {
    return text.starts_with("trainwright-schedule ");
}

// Its first cell that is not empty is an action.
bool is_schedule_csv(std::string_view text, std::string_view filename) {
    const std::size_t begin = text.find_first_not_of(" ,\r\n");
    if (!filename.ends_with(".csv") || begin == std::string_view::npos) return false;
    return parse_token(text.substr(begin, text.find_first_of(",\r\n", begin) - begin)).has_value();
}

Described describe_plan(std::string_view text, std::string_view filename) {
    const auto json = parse_json(text, filename);
    if (!json) return json.errors();
    const auto document = plan_document_from_json(*json, filename);
    if (!document) return document.errors();
    const ParallelPlan& plan = document->plan;
    const PlanCheck check = check_plan(document->graph, document->cluster, plan);
    DocumentSummary summary;
    summary.title =
        fmt::format("{} on {}: {}", document->model_name, document->cluster.name, tw::summary(plan));
    summary.facts = {
        {"model",
         fmt::format("{}, {} parameters", document->model_name, format_count(document->graph.parameters()))},
        {"cluster",
         fmt::format("{}, {} devices", document->cluster.name, format_count(document->cluster.devices()))},
        {"plan", tw::summary(plan)},
        {"stages", std::to_string(plan.stage_count())},
        {"microbatches", std::to_string(plan.microbatches)},
        {"global batch", format_count(plan.global_batch)},
        {"sequence length", format_count(plan.seq_len)},
        {"semantics", std::string(to_string(plan.semantics))},
        {"legal", check.errors.empty()
                      ? "yes"
                      : fmt::format("no: {} rules are broken (trainwright check)", check.errors.size())}};
    if (plan.gradient_sync != ParallelPlan().gradient_sync) {
        const std::string options = sync_options_text(plan.gradient_sync_options);
        summary.facts.insert(
            summary.facts.end() - 1,
            {"gradient sync",
             options.empty() ? plan.gradient_sync : fmt::format("{}: {}", plan.gradient_sync, options)});
    }
    summary.warnings = check.warnings;
    return summary;
}

Described describe_trace(std::string_view text, std::string_view filename) {
    const auto json = parse_json(text, filename);
    if (!json) return json.errors();
    const auto trace = trace_from_json(*json);
    if (!trace) return trace.errors();
    std::size_t events = 0;
    for (const RankTrace& rank : trace->ranks)
        events += rank.events.size();
    DocumentSummary summary;
    summary.title =
        fmt::format("{} trace of {} ranks, {} steps", trace->origin, trace->ranks.size(), trace->steps);
    summary.facts = {{"title", trace->title},
                     {"origin", trace->origin},
                     {"ranks", std::to_string(trace->ranks.size())},
                     {"steps", std::to_string(trace->steps)},
                     {"events", format_count(static_cast<std::int64_t>(events))}};
    return summary;
}

Described describe_scenario(std::string_view text, std::string_view filename) {
    const auto json = parse_json(text, filename);
    if (!json) return json.errors();
    const auto scenario = scenario_from_json(*json, filename);
    if (!scenario) return scenario.errors();
    DocumentSummary summary;
    summary.title =
        fmt::format("{} slow ranks, {} delays, {} slow and {} dead network interfaces{}",
                    scenario->slow_ranks.size(), scenario->delays.size(), scenario->slow_nics.size(),
                    scenario->dead_nics.size(), scenario->jitter.any() ? ", jitter" : "");
    summary.facts = {{"steps", std::to_string(scenario->steps)},
                     {"contention", scenario->contention ? "yes" : "no"}};
    return summary;
}

Described describe_schedule_text(std::string_view text, std::string_view) {
    const auto schedule = parse_schedule(text);
    if (!schedule) return schedule.errors();
    if (Errors errors = check_schedule(*schedule); !errors.empty()) return errors;
    DocumentSummary summary;
    summary.title = fmt::format("{}: {} ranks, {} stages, {} microbatches, proven", schedule->generator,
                                schedule->ranks(), schedule->stages, schedule->microbatches);
    summary.facts = {{"instructions", format_count(static_cast<std::int64_t>(schedule->instruction_count()))},
                     {"steps end with", std::string(to_string(schedule->boundary))},
                     {"semantics", std::string(to_string(schedule->semantics))}};
    return summary;
}

Described describe_schedule_csv(std::string_view text, std::string_view) {
    const auto order = read_pytorch_csv(text);
    if (!order) return order.errors();
    if (Errors errors = check_order(*order); !errors.empty()) return errors;
    if (has_transfers(text)) {
        const auto schedule = read_pytorch_csv_schedule(text, LoweringOptions::P2p::Single);
        if (!schedule) return schedule.errors();
        if (Errors errors = check_schedule(*schedule); !errors.empty()) return errors;
    }
    DocumentSummary summary;
    summary.title = fmt::format("{} ranks, {} stages, {} microbatches, proven", order->ranks.size(),
                                order->stages, order->microbatches);
    summary.facts = {{"ranks", std::to_string(order->ranks.size())},
                     {"stages", std::to_string(order->stages)},
                     {"microbatches", std::to_string(order->microbatches)},
                     {"splits backward", order->splits_backward ? "yes" : "no"}};
    return summary;
}

constexpr std::array kKinds = {
    DocumentKind{"trainwright plan", documents::has_schema<kPlan>, describe_plan},
    DocumentKind{"trainwright trace", documents::has_schema<kTrace>, describe_trace},
    DocumentKind{"trainwright scenario", documents::has_schema<kScenario>, describe_scenario},
    DocumentKind{"trainwright schedule", is_schedule_text, describe_schedule_text},
    DocumentKind{"PyTorch schedule CSV", is_schedule_csv, describe_schedule_csv},
};

}  // namespace

Result<DocumentSummary> describe_text(std::string_view text, std::string_view path) {
    std::vector<DocumentKind> kinds(kKinds.begin(), kKinds.end());
    kinds.insert(kinds.end(), run_documents().begin(), run_documents().end());
    kinds.insert(kinds.end(), own_answers().begin(), own_answers().end());
    for (const DocumentKind& kind : kinds) {
        if (!kind.sniff(text, path)) continue;
        auto summary = kind.describe(text, path);
        if (summary) {
            summary->kind = kind.name;
            return summary;
        }
        Errors errors = summary.errors();
        for (Error& error : errors) {
            error.code = ErrorCode::Unreadable;
            if (error.context.find(path) == std::string::npos)
                error.context = std::string(path) + (error.context.empty() ? "" : ": " + error.context);
        }
        return errors;
    }
    if (const ConfigReader* reader = find_config_reader(text, path))
        return describe_config(*reader, text, path);
    return inspect_text(text, path);
}

Result<DocumentSummary> describe_file(const std::string& path) {
    if (is_checkpoint_folder(path)) return describe_checkpoint(path);
    if (is_safetensors_file(path)) return describe_safetensors(path);
    if (is_own_chrome_trace(path)) return describe_chrome_trace(path);
    if (is_trace_file(path)) return describe_trace_file(path);
    const auto text = read_document_text(path);
    if (!text) return text.errors();
    return describe_text(*text, path);
}

}  // namespace tw::cli

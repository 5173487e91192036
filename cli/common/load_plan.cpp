#include "cli/common/load_plan.hpp"

#include <iostream>

#include "real_exec/runtime/executable.hpp"

namespace tw::cli {

Result<PlanDocument> load_plan_document(const std::string& path) {
    if (path != "-") return read_plan_document(path);
    const Result<std::string> text = read_text_stream(std::cin, "<stdin>");
    if (!text) return text.errors();
    const Result<Json> json = parse_json(*text, "<stdin>");
    if (!json) return json.errors();
    return plan_document_from_json(*json, "<stdin>");
}

Errors in_document(Errors errors, const std::string& path) {
    for (Error& error : errors) {
        const std::string pointer = document_pointer(error.context);
        const std::string place = pointer.empty() ? error.context : pointer;
        error.context = (path == "-" ? "<stdin>" : path) + (place.empty() ? "" : ": " + place);
    }
    return errors;
}

ExecutorVerdict executor_verdict() {
    return [](const LayerGraph& graph, const ParallelPlan& plan) {
        std::vector<std::string> parts;
        for (const Error& error : unsupported_by_executor(graph, plan))
            parts.push_back(error.context.empty() ? error.message : error.context + ": " + error.message);
        return parts;
    };
}

Result<LoadedPlan> load_plan(const std::string& path) {
    auto document = load_plan_document(path);
    if (!document) return document.errors();
    auto environment = make_environment(document->graph, document->cluster, 0, executor_verdict());
    if (!environment) return environment.errors();
    return LoadedPlan{std::move(*document), std::move(*environment)};
}

PlanDocument with_plan(const PlanDocument& document, ParallelPlan plan) {
    PlanDocument other = document;
    other.plan = std::move(plan);
    return other;
}

}  // namespace tw::cli

#include "cli/common/load_plan.hpp"

#include <iostream>

namespace tw::cli {

Result<PlanDocument> load_plan_document(const std::string& path) {
    if (path != "-") return read_plan_document(path);
    const Result<std::string> text = read_text_stream(std::cin, "<stdin>");
    if (!text) return text.errors();
    const Result<Json> json = parse_json(*text, "<stdin>");
    if (!json) return json.errors();
    return plan_document_from_json(*json, "<stdin>");
}

Result<LoadedPlan> load_plan(const std::string& path) {
    auto document = load_plan_document(path);
    if (!document) return document.errors();
    auto environment = make_environment(document->graph, document->cluster);
    if (!environment) return environment.errors();
    return LoadedPlan{std::move(*document), std::move(*environment)};
}

PlanDocument with_plan(const PlanDocument& document, ParallelPlan plan) {
    PlanDocument other = document;
    other.plan = std::move(plan);
    return other;
}

}  // namespace tw::cli

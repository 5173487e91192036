// trainwright/plan documents: read, checked by every framework's rules, written and read back; a small legal
// plan is also simulated.
#include "plan/check_plan.hpp"
#include "plan/plan_json.hpp"
#include "sim/environment.hpp"
#include "sim/simulator.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

void simulate_small(const tw::PlanDocument& document) {
    const tw::ParallelPlan& plan = document.plan;
    if (document.graph.size() > 64 || plan.microbatches > 64 || plan.stage_count() > 32) return;
    const auto environment = tw::make_environment(document.graph, document.cluster);
    if (!environment) return tw::fuzz::require(!environment.errors().empty(), "a refusal without errors");
    const auto report = tw::Simulator(*environment).simulate(plan);
    if (!report) tw::fuzz::require(!report.errors().empty(), "a refusal without errors");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto json = tw::parse_json(tw::fuzz::text_of(data, size), "plan.json");
    if (!json) return 0;
    const auto document = tw::plan_document_from_json(*json, "plan.json");
    tw::fuzz::require_value_or_refusal(document);
    if (!document) return 0;
    for (const char* framework : {"megatron", "torchtitan", "deepspeed"})
        (void)tw::check_plan(document->graph, document->cluster, document->plan,
                             *tw::parse_target_framework(framework));
    const tw::PlanCheck check = tw::check_plan(document->graph, document->cluster, document->plan);
    const tw::Json written = tw::plan_document_to_json(*document);
    const auto again = tw::plan_document_from_json(written, "again.json");
    tw::fuzz::require(again.has_value() && again->plan == document->plan, "another plan is read back",
                      written.dump(-1, ' ', false, tw::Json::error_handler_t::replace));
    if (check.errors.empty()) simulate_small(*document);
    return 0;
}

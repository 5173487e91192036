#include "gui/worker/study.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/json.hpp"
#include "models/hardware/cluster_json.hpp"
#include "models/load_model.hpp"
#include "plan/check_plan.hpp"
#include "plan/rules/attention_kernel.hpp"

namespace tw::gui {
namespace {

void keep_errors(Errors& all, const Errors& some, const char* field) {
    for (Error error : some) {
        error.context = error.context.empty() ? field : fmt::format("{}: {}", field, error.context);
        all.push_back(std::move(error));
    }
}

Result<Cluster> cluster_of(const Setup& setup) {
    if (setup.cluster_text.empty()) return load_cluster(setup.cluster);
    const auto json = parse_json(setup.cluster_text, setup.cluster);
    if (!json) return json.errors();
    return cluster_from_json(*json, "");
}

Result<Json> model_document(const Setup& setup) {
    if (setup.model_text.empty()) return read_model_document(setup.model);
    const auto json = parse_json(setup.model_text, setup.model);
    return json ? *json : Json(setup.model_text);  // PipeDream's text
}

}  // namespace

PlanDocument Study::with_plan(const ParallelPlan& plan) const {
    PlanDocument other = document;
    other.plan = plan;
    return other;
}

Result<StudyPtr> make_study(const Setup& setup) {
    Errors errors;
    auto model =
        setup.model_text.empty() ? load_model(setup.model) : load_model_text(setup.model_text, setup.model);
    auto document = model_document(setup);
    auto cluster = cluster_of(setup);
    if (!model) keep_errors(errors, model.errors(), "model");
    if (model && !document) keep_errors(errors, document.errors(), "model");
    if (!cluster) keep_errors(errors, cluster.errors(), "cluster");
    if (!errors.empty()) return errors;
    PlanDocument plan;
    plan.model_name = model->graph.name.empty() ? setup.model : model->graph.name;
    plan.graph = std::move(model->graph);
    plan.model_document = std::move(*document);
    plan.cluster = std::move(*cluster);
    auto study = make_study(std::move(plan), setup.headroom_percent);
    if (!study) return study;
    auto warned = std::make_shared<Study>(**study);
    warned->warnings = std::move(model->warnings);
    return StudyPtr(std::move(warned));
}

Result<StudyPtr> make_study(PlanDocument document, double headroom_percent) {
    auto environment = make_environment(document.graph, document.cluster, headroom_percent / 100);
    if (!environment) {
        Errors errors;
        keep_errors(errors, environment.errors(), "cluster");
        return errors;
    }
    auto study = std::make_shared<Study>();
    study->document = std::move(document);
    study->environment = *environment;
    study->simulator = std::make_shared<const Simulator>(study->environment);
    return StudyPtr(std::move(study));
}

Result<StudyPtr> with_cluster(const Study& study, Cluster cluster) {
    PlanDocument document = study.document;
    document.cluster = std::move(cluster);
    return make_study(std::move(document), 100 * study.environment->memory_headroom);
}

std::string devices_text(const Cluster& cluster) {
    // Groups of one device are told together, in the order of their first.
    std::vector<std::pair<std::string, int>> kinds;
    for (const NodeGroup& group : cluster.groups) {
        auto known = std::ranges::find_if(kinds, [&](const auto& k) { return k.first == group.device.name; });
        if (known == kinds.end()) known = kinds.insert(known, {group.device.name, 0});
        known->second += group.nodes * group.type.devices;
    }
    std::string text;
    for (const auto& [device, count] : kinds)
        text += fmt::format("{}{} × {}", text.empty() ? "" : " + ", count, device);
    return fmt::format("{} on {} node{}", text, cluster.nodes(), cluster.nodes() == 1 ? "" : "s");
}

Result<PlanRequest> make_request(const Study& study, const Setup& setup) {
    Errors errors;
    auto constraints = parse_fix(setup.fix);
    auto objective = parse_objective(setup.objective);
    const auto target = parse_target_framework(setup.framework);
    if (!constraints) keep_errors(errors, constraints.errors(), "fix");
    if (!objective) keep_errors(errors, objective.errors(), "objective");
    if (!target) keep_errors(errors, target.errors(), "framework");
    if (setup.global_batch < 1)
        errors.push_back({ErrorCode::Usage, fmt::format("{} sequences; at least 1", setup.global_batch),
                          "global batch", ""});
    if (!errors.empty()) return errors;
    const LayerGraph& graph = study.document.graph;
    PlanRequest request;
    request.global_batch = setup.global_batch;
    request.seq_len = setup.seq_len;
    request.constraints = std::move(*constraints);
    request.objective = *objective;
    request.top = setup.top;
    // Profiles of layers were measured in fp32.
    const Precision own =
        graph.measured_on.empty() ? default_precision(study.document.cluster) : Precision::Fp32;
    request.base.precision =
        precision_named(setup.precision.empty() ? to_string(own) : std::string_view(setup.precision));
    request.base.optimizer = optimizer_named(setup.optimizer);
    request.base.attention =
        fastest_attention(study.document.cluster, request.base.precision.compute, request.base.framework);
    request.target = *target;
    plan_for(*target, study.document.cluster, request.base);
    return request;
}

}  // namespace tw::gui

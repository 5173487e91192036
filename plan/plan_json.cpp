#include "plan/plan_json.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "base/document_kind.hpp"
#include "base/nearest.hpp"
#include "models/data/embedded.hpp"
#include "models/hardware/cluster_json.hpp"
#include "plan/check_plan.hpp"
#include "plan/collective_choice.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/gradient_sync/sync_options_json.hpp"
#include "plan/plan_order.hpp"
#include "plan/plan_parts_json.hpp"
#include "plan/rules/attention_kernel.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

constexpr int kPlanVersion = 1;

constexpr std::array kAttentionKernels = {AttentionKernel::Unfused, AttentionKernel::Flash1,
                                          AttentionKernel::Flash2, AttentionKernel::Flash3,
                                          AttentionKernel::CuDnn};
constexpr std::array kSemantics = {Semantics::Synchronous, Semantics::BoundedStaleness, Semantics::LocalSteps,
                                   Semantics::Asynchronous};
constexpr std::array kCpKinds = {WorkShape::Cp::Ring, WorkShape::Cp::AllToAll};
constexpr std::array kExpertDispatches = {WorkShape::ExpertDispatch::AllToAll,
                                          WorkShape::ExpertDispatch::PerNode};

// The member object, or nullptr where it is absent.
std::optional<JsonObject> member(const JsonObject& object, std::string_view key, Errors& errors) {
    const Json* value = object.find(key);
    if (!value) return std::nullopt;
    return JsonObject(*value, object.pointer(key), errors);
}

// microbatches and global_batch follow from each other; what does not divide is check_plan's to refuse.
void read_batch(const JsonObject& object, ParallelPlan& plan) {
    plan.microbatch = object.integer_or("microbatch", plan.microbatch, 1, kMostOfAPlan);
    const std::int64_t pass = plan.microbatch * plan.mesh.dp;
    const bool microbatches = object.has("microbatches"), global_batch = object.has("global_batch");
    if (!microbatches && !global_batch) {
        object.error("microbatches", "neither microbatches nor global_batch is given",
                     "global_batch counts sequences a step");
    }
    const std::int64_t batch = object.integer_or("global_batch", 1, 1, kMostOfAPlan * kMostOfAPlan);
    plan.microbatches = object.integer_or("microbatches", 1, 1, kMostOfAPlan);
    if (!microbatches) plan.microbatches = std::clamp<std::int64_t>(batch / pass, 1, kMostOfAPlan);
    plan.global_batch = global_batch ? batch : pass * plan.microbatches;
}

void read_collectives(const JsonObject& object, ParallelPlan& plan) {
    for (const std::string_view axis : kCollectiveAxes) {
        if (!object.has(axis)) continue;
        const std::string text = object.string(axis);
        const auto choice = parse_collective_choice(text);
        if (choice) {
            plan.collectives.emplace(axis, text);
            continue;
        }
        for (const Error& error : choice.errors())
            object.error(axis, error.message, error.hint);
    }
    object.finish();
}

// A list of names.
void read_modules(const JsonObject& object, ParallelPlan& plan) {
    if (!object.has("recompute_modules")) return;
    for (const Json& name : object.array("recompute_modules")) {
        if (!name.is_string()) {
            object.error("recompute_modules", "an entry is not the name of a module",
                         "[\"mla_up_proj\", \"layernorm\"]");
            continue;
        }
        const auto module = recompute_module_named(name.get<std::string>());
        if (module) {
            plan.recompute_modules.add(*module);
        } else {
            object.error("recompute_modules", module.error().message, module.error().hint);
        }
    }
}

// 0 is the framework's own. A bucket below a page or above a cluster's memory is a typing error.
void read_bucket(const JsonObject& object, ParallelPlan& plan) {
    constexpr double kLeast = 4096, kMost = 1e12;
    plan.bucket_bytes = object.number_or("bucket_bytes", plan.bucket_bytes, 0, kMost);
    if (plan.bucket_bytes > 0 && plan.bucket_bytes < kLeast) {
        object.error("bucket_bytes", fmt::format("{} is outside [{}, {}]", plan.bucket_bytes, kLeast, kMost),
                     "bytes, not megabytes; 0 takes the framework's own");
    }
}

void read_framework(const JsonObject& object, ParallelPlan& plan) {
    plan.framework = object.string_or("framework", plan.framework);
    if (find_framework(plan.framework) != nullptr) return;
    std::vector<std::string> names;
    for (const FrameworkDefaults* framework : frameworks())
        names.emplace_back(framework->name);
    object.error("framework", fmt::format("unknown name '{}'", plan.framework),
                 unknown_name_hint(plan.framework, names));
}

// What a document leaves out that its model and its cluster decide; either may be unknown.
struct Surroundings {
    const LayerGraph* graph = nullptr;
    const Cluster* cluster = nullptr;
};

// The kernel of most plans, where the devices run it in the plan's precision.
AttentionKernel usual_attention(const Cluster& cluster, const ParallelPlan& plan) {
    const AttentionKernel usual = ParallelPlan().attention;
    const bool runs = std::all_of(cluster.groups.begin(), cluster.groups.end(), [&](const NodeGroup& group) {
        return why_no_attention(group.device, usual, plan.precision.compute, plan.framework).empty();
    });
    return runs ? usual : fastest_attention(cluster, plan.precision.compute, plan.framework);
}

// Stages that name no node group lie on the slowest of those that their ranks lie on.
void place_stages(const Cluster* cluster, ParallelPlan& plan) {
    ParallelPlan placed = plan;
    for (StageSpec& stage : placed.stages)
        stage.node_group = 0;
    if (cluster != nullptr) assign_node_groups(*cluster, placed);
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        if (plan.stages[s].node_group == kUnplaced) plan.stages[s].node_group = placed.stages[s].node_group;
    }
}

ParallelPlan read_settings(const JsonObject& object, const Surroundings& around, Errors& errors) {
    ParallelPlan plan;
    if (around.graph != nullptr) plan.seq_len = around.graph->default_seq_len;
    if (const auto mesh = member(object, "mesh", errors)) {
        plan.mesh = mesh_from_json(*mesh);
    } else {
        object.error("mesh", "required key is missing");
    }
    plan.schedule = object.string("schedule");
    plan.virtual_stages = degree_or(object, "virtual_stages", plan.virtual_stages);
    plan.microbatch_group = degree_or(object, "microbatch_group", plan.microbatch_group, 0, kMostOfAPlan);
    read_batch(object, plan);
    plan.seq_len = object.integer_or("seq_len", plan.seq_len, 1, kLongestSequence);
    plan.vocab_divisor = object.integer_or("vocab_divisor", plan.vocab_divisor, 1, kMostOfAPlan);
    plan.sequence_parallel = object.boolean_or("sequence_parallel", plan.sequence_parallel);
    plan.cp_kind = enumerator(object, "cp_kind", kCpKinds, plan.cp_kind);
    plan.zero_stage = degree_or(object, "zero_stage", plan.zero_stage, 0, 3);
    plan.zero_shard = degree_or(object, "zero_shard", plan.zero_shard, 0, kMaxClusterDevices);
    plan.recompute = enumerator(object, "recompute", kRecomputeModes, plan.recompute);
    read_modules(object, plan);
    if (const auto precision = member(object, "precision", errors))
        plan.precision = precision_from_json(*precision);
    plan.optimizer = enumerator(object, "optimizer", kOptimizers, plan.optimizer);
    if (const auto overlap = member(object, "overlap", errors)) plan.overlap = overlap_from_json(*overlap);
    plan.gradient_sync = object.string_or("gradient_sync", plan.gradient_sync);
    if (const auto options = member(object, "gradient_sync_options", errors))
        plan.gradient_sync_options = sync_options_from_json(*options, plan.gradient_sync);
    if (const auto collectives = member(object, "collectives", errors)) read_collectives(*collectives, plan);
    read_bucket(object, plan);
    plan.offload_optimizer = object.number_or("offload_optimizer", plan.offload_optimizer, 0, 1);
    plan.offload_activations = object.boolean_or("offload_activations", plan.offload_activations);
    plan.attention = enumerator(object, "attention", kAttentionKernels, plan.attention);
    plan.dropout = object.boolean_or("dropout", plan.dropout);
    plan.expert_imbalance = object.number_or("expert_imbalance", plan.expert_imbalance, 1, 1e6);
    plan.expert_dispatch = enumerator(object, "expert_dispatch", kExpertDispatches, plan.expert_dispatch);
    plan.rank_order = object.string_or("rank_order", plan.rank_order);
    read_framework(object, plan);
    if (!object.has("attention") && around.cluster != nullptr)
        plan.attention = usual_attention(*around.cluster, plan);
    plan.semantics = enumerator(object, "semantics", kSemantics, plan.semantics);
    if (object.has("order")) {
        const Json& rows = object.array("order");
        for (std::size_t r = 0; r < rows.size(); ++r) {
            if (rows[r].is_string()) {
                plan.order.push_back(rows[r].get<std::string>());
            } else {
                object.error("order", fmt::format("row {} is not a text of cells like 0F0,0B0", r));
            }
        }
    }
    return plan;
}

// Where the model could not be read the shorthand has no stages.
ParallelPlan read_plan(const JsonObject& object, const Surroundings& around, Errors& errors) {
    const LayerGraph* graph = around.graph;
    const std::size_t before = errors.size();
    ParallelPlan plan = read_settings(object, around, errors);
    if (object.has("stages")) {
        const Json& stages = object.array("stages");
        for (std::size_t s = 0; s < stages.size(); ++s) {
            plan.stages.push_back(stage_from_json(
                JsonObject(stages[s], fmt::format("{}/{}", object.pointer("stages"), s), errors),
                plan.recompute));
        }
    } else if (graph && errors.size() == before) {
        const std::int64_t stages = static_cast<std::int64_t>(plan.mesh.pp) * plan.virtual_stages;
        const std::int64_t most = graph->blocks > 0 ? graph->blocks : graph->size();
        if (stages <= most) {
            plan.stages = uniform_partition(*graph, static_cast<int>(stages), plan.recompute);
            for (StageSpec& stage : plan.stages)
                stage.node_group = kUnplaced;
        } else {
            object.error(
                "mesh",
                fmt::format("{} stages (pp {} * virtual_stages {}) are more than the model's {} {}", stages,
                            plan.mesh.pp, plan.virtual_stages, most, graph->blocks > 0 ? "blocks" : "layers"),
                fmt::format("at most {} stages", most));
        }
    }
    if (plan.recompute_modules.any() && !recomputes_by(plan, RecomputeMode::Modules)) {
        object.error("recompute_modules", "modules are named, but no stage's recompute is modules",
                     "\"recompute\": \"modules\"");
    }
    object.finish();
    place_stages(errors.empty() ? around.cluster : nullptr, plan);
    return plan;
}

// Errors of an embedded model name the model; here they point into the plan document.
void append_below(Errors& errors, const Errors& found, const std::string& name, const std::string& pointer) {
    for (Error error : found) {
        std::string place = error.context;
        if (place.starts_with(name)) place = place.substr(name.size());
        if (place.starts_with(": /")) place = place.substr(2);
        error.context = pointer + place;
        error.code = ErrorCode::Unreadable;
        errors.push_back(std::move(error));
    }
}

std::optional<LayerGraph> read_model(const JsonObject& model, PlanDocument& document, Errors& errors) {
    document.model_name = model.string("name");
    const Json* source = model.find("document");
    model.finish();
    if (!source || !(source->is_object() || source->is_string())) {
        model.error("document", source ? "expected a model document: an object, or a profile's text"
                                       : "required key is missing");
        return std::nullopt;
    }
    document.model_document = *source;
    auto loaded = load_model_text(source->is_string() ? source->get<std::string>() : source->dump(),
                                  document.model_name);
    if (!loaded) {
        append_below(errors, loaded.errors(), document.model_name, model.pointer("document"));
        return std::nullopt;
    }
    return std::move(loaded->graph);
}

// Whether the schedule's generator still makes the order that the document was written for.
void check_digest(const JsonObject& root, const LayerGraph* graph, const Cluster& cluster,
                  const ParallelPlan& plan, const Errors& errors) {
    if (!root.has("order_digest")) return;
    const std::string digest = root.string("order_digest");
    if (!errors.empty() || graph == nullptr) return;
    const auto order = plan_order(plan);
    if (!order) return;  // an illegal shape: check_plan says so
    if (const std::string now = order_digest(*order); now != digest) {
        // Of an illegal plan its violations matter more; whoever has it checked is told them.
        if (!check_plan(*graph, cluster, plan).errors.empty()) return;
        root.error("order_digest",
                   fmt::format("the order of schedule {} is {} here, {} where the plan was written",
                               plan.schedule, now, digest),
                   "remove \"order_digest\" where the plan was changed on purpose");
    }
}

}  // namespace

Result<Json> read_model_document(std::string_view name_or_path) {
    const std::string name(name_or_path);
    if (const std::string_view preset = embedded_document("models/" + name + ".json"); !preset.empty()) {
        return parse_json(preset, name);
    }
    auto text = read_text_file(name);
    if (!text) return text.errors();
    if (auto json = parse_json(*text, name); json && json->is_object()) return json;
    return Json(std::move(*text));
}

Json plan_to_json(const ParallelPlan& plan) {
    Json json = {{"mesh", mesh_to_json(plan.mesh)},
                 {"schedule", plan.schedule},
                 {"virtual_stages", plan.virtual_stages},
                 {"microbatch_group", plan.microbatch_group},
                 {"microbatch", plan.microbatch},
                 {"microbatches", plan.microbatches},
                 {"global_batch", plan.global_batch},
                 {"seq_len", plan.seq_len},
                 {"vocab_divisor", plan.vocab_divisor},
                 {"sequence_parallel", plan.sequence_parallel},
                 {"cp_kind", to_string(plan.cp_kind)},
                 {"zero_stage", plan.zero_stage},
                 {"zero_shard", plan.zero_shard},
                 {"recompute", to_string(plan.recompute)},
                 {"precision", precision_to_json(plan.precision)},
                 {"optimizer", to_string(plan.optimizer)},
                 {"overlap", overlap_to_json(plan.overlap)},
                 {"gradient_sync", plan.gradient_sync},
                 {"bucket_bytes", plan.bucket_bytes},
                 {"offload_optimizer", plan.offload_optimizer},
                 {"offload_activations", plan.offload_activations},
                 {"attention", to_string(plan.attention)},
                 {"dropout", plan.dropout},
                 {"expert_imbalance", plan.expert_imbalance},
                 {"expert_dispatch", to_string(plan.expert_dispatch)},
                 {"rank_order", plan.rank_order},
                 {"framework", plan.framework},
                 {"semantics", to_string(plan.semantics)},
                 {"stages", Json::array()}};
    for (const StageSpec& stage : plan.stages)
        json["stages"].push_back(stage_to_json(stage));
    if (recomputes_by(plan, RecomputeMode::Modules) && plan.recompute_modules.any())
        json["recompute_modules"] = names_of(plan.recompute_modules);
    if (const Json options = sync_options_to_json(plan.gradient_sync_options); !options.empty())
        json["gradient_sync_options"] = options;
    if (!plan.collectives.empty()) json["collectives"] = plan.collectives;
    if (!plan.order.empty()) json["order"] = plan.order;
    return json;
}

Result<ParallelPlan> plan_from_json(const Json& json, const LayerGraph& graph, const std::string& pointer) {
    Errors errors;
    ParallelPlan plan = read_plan(JsonObject(json, pointer, errors), {&graph, nullptr}, errors);
    if (!errors.empty()) return errors;
    return plan;
}

Json plan_document_to_json(const PlanDocument& document) {
    Json json = {{"schema", "trainwright/plan"},
                 {"version", kPlanVersion},
                 {"model", {{"name", document.model_name}, {"document", document.model_document}}},
                 {"cluster", cluster_to_json(document.cluster)},
                 {"plan", plan_to_json(document.plan)}};
    const auto generator = find_schedule(document.plan.schedule);
    if (document.plan.order.empty() && generator && !(*generator)->info().uses_costs) {
        if (const auto order = plan_order(document.plan)) json["order_digest"] = order_digest(*order);
    }
    return json;
}

Result<PlanDocument> plan_document_from_json(const Json& json, std::string_view name) {
    PlanDocument document;
    Errors errors;
    const JsonObject root(json, "", errors);
    if (!errors.empty()) {
        errors.front().context = std::string(name);
        return errors;
    }
    if (const Status kind = check_document_kind(json, "plan", name); !kind) return kind.errors();
    read_schema(root, "plan", kPlanVersion);
    std::optional<LayerGraph> graph;
    if (const auto model = member(root, "model", errors)) {
        graph = read_model(*model, document, errors);
    } else {
        root.error("model", "required key is missing");
    }
    bool has_cluster = false;
    if (const Json* cluster = root.find("cluster")) {
        auto read = cluster_from_json(*cluster, root.pointer("cluster"));
        if (read) {
            document.cluster = std::move(*read);
            has_cluster = true;
        } else {
            errors.insert(errors.end(), read.errors().begin(), read.errors().end());
        }
    } else {
        root.error("cluster", "required key is missing");
    }
    if (const auto plan = member(root, "plan", errors)) {
        document.plan =
            read_plan(*plan, {graph ? &*graph : nullptr, has_cluster ? &document.cluster : nullptr}, errors);
    } else {
        root.error("plan", "required key is missing");
    }
    check_digest(root, graph ? &*graph : nullptr, document.cluster, document.plan, errors);
    root.finish();
    if (!errors.empty()) {
        for (Error& error : errors)
            error.context = fmt::format("{}: {}", name, error.context);
        return errors;
    }
    document.graph = std::move(*graph);
    return document;
}

Result<PlanDocument> read_plan_document(std::string_view path) {
    auto json = read_json_file(std::string(path));
    if (!json) return json.errors();
    return plan_document_from_json(*json, path);
}

}  // namespace tw

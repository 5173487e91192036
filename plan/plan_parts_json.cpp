#include "plan/plan_parts_json.hpp"

namespace tw {
namespace {

constexpr std::int64_t kMaxLayers = std::int64_t{1} << 30;
constexpr std::array kPrecisions = {Precision::Fp32, Precision::Tf32, Precision::Fp16,
                                    Precision::Bf16, Precision::Fp8,  Precision::Nvfp4};
// Nothing but the operands of products is in nvfp4.
constexpr std::array kStored = {Precision::Fp32, Precision::Tf32, Precision::Fp16, Precision::Bf16,
                                Precision::Fp8};

}  // namespace

int degree_or(const JsonObject& object, std::string_view key, int fallback, std::int64_t low,
              std::int64_t high) {
    return static_cast<int>(object.integer_or(key, fallback, low, high));
}

Json mesh_to_json(const DeviceMesh& mesh) {
    return {{"dp", mesh.dp}, {"pp", mesh.pp}, {"tp", mesh.tp},
            {"cp", mesh.cp}, {"ep", mesh.ep}, {"etp", mesh.etp}};
}

DeviceMesh mesh_from_json(const JsonObject& object) {
    DeviceMesh mesh;
    mesh.dp = degree_or(object, "dp", mesh.dp);
    mesh.pp = degree_or(object, "pp", mesh.pp);
    mesh.tp = degree_or(object, "tp", mesh.tp);
    mesh.cp = degree_or(object, "cp", mesh.cp);
    mesh.ep = degree_or(object, "ep", mesh.ep);
    mesh.etp = degree_or(object, "etp", mesh.etp);
    object.finish();
    return mesh;
}

Json precision_to_json(const PrecisionSpec& spec) {
    return {{"compute", to_string(spec.compute)},
            {"parameters", to_string(spec.parameters)},
            {"autocast", spec.autocast},
            {"master_weights", spec.master_weights},
            {"gradient_fp32", spec.gradient_fp32},
            {"gradient_reduce", to_string(spec.gradient_reduce)},
            {"optimizer_states", to_string(spec.optimizer_states)}};
}

PrecisionSpec precision_from_json(const JsonObject& object) {
    PrecisionSpec spec;
    spec.compute = enumerator(object, "compute", kPrecisions, spec.compute);
    spec.parameters = enumerator(object, "parameters", kStored, spec.parameters);
    spec.autocast = object.boolean_or("autocast", spec.autocast);
    spec.master_weights = object.boolean_or("master_weights", spec.master_weights);
    spec.gradient_fp32 = object.boolean_or("gradient_fp32", spec.gradient_fp32);
    spec.gradient_reduce = enumerator(object, "gradient_reduce", kStored, spec.gradient_reduce);
    spec.optimizer_states = enumerator(object, "optimizer_states", kStored, spec.optimizer_states);
    object.finish();
    return spec;
}

Json overlap_to_json(const OverlapSpec& spec) {
    return {{"grad_reduce", spec.grad_reduce},
            {"param_gather", spec.param_gather},
            {"p2p", spec.p2p},
            {"tp", spec.tp}};
}

OverlapSpec overlap_from_json(const JsonObject& object) {
    OverlapSpec spec;
    spec.grad_reduce = object.boolean_or("grad_reduce", spec.grad_reduce);
    spec.param_gather = object.boolean_or("param_gather", spec.param_gather);
    spec.p2p = object.boolean_or("p2p", spec.p2p);
    spec.tp = object.boolean_or("tp", spec.tp);
    object.finish();
    return spec;
}

Json stage_to_json(const StageSpec& stage) {
    return {{"first_layer", stage.first_layer},
            {"last_layer", stage.last_layer},
            {"recompute", to_string(stage.recompute)},
            {"recompute_layers", stage.recompute_layers},
            {"replicas", stage.replicas},
            {"node_group", stage.node_group}};
}

StageSpec stage_from_json(const JsonObject& object, RecomputeMode recompute) {
    StageSpec stage;
    stage.first_layer = static_cast<int>(object.integer("first_layer", 0, kMaxLayers));
    stage.last_layer = static_cast<int>(object.integer("last_layer", 0, kMaxLayers));
    stage.recompute = enumerator(object, "recompute", kRecomputeModes, recompute);
    stage.recompute_layers = degree_or(object, "recompute_layers", stage.recompute_layers, -1, kMaxLayers);
    stage.replicas = degree_or(object, "replicas", stage.replicas);
    stage.node_group =
        object.has("node_group") ? degree_or(object, "node_group", 0, 0, kMaxClusterDevices) : kUnplaced;
    object.finish();
    return stage;
}

}  // namespace tw

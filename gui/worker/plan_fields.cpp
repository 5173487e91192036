#include "gui/worker/plan_fields.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/nearest.hpp"
#include "plan/check_plan.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/stage_partition.hpp"
#include "planner/space.hpp"

namespace tw::gui {
namespace {

constexpr PlanField kFields[] = {
    {"tp", "Tensor", "Devices that share each layer's matrices."},
    {"sp", "Sequence", "Norms and dropout split along the sequence; needs tp > 1."},
    {"pp", "Pipeline", "Devices that share the layers, in sequence."},
    {"vpp", "Virtual", "Chunks of layers a pipeline rank holds."},
    {"cp", "Context", "Devices that share each sequence."},
    {"ep", "Expert", "Devices that share the experts."},
    {"etp", "Expert tp", "Devices that share each expert's matrices."},
    {"dp", "Data", "Follows: devices / (tp x pp x cp).", true},
    {"mbs", "Microbatch", "Sequences that a rank computes at a time."},
    {"microbatches", "Microbatches", "Follows: global batch / (microbatch x dp).", true},
    {"schedule", "Schedule", "Order of forwards and backwards."},
    {"zero", "ZeRO",
     "What replicas shard: 1 optimizer, 2 gradients, 3 parameters; 2/8: over groups of 8 ranks."},
    {"recompute", "Recompute",
     "What the backward computes again instead of keeping; full:2: the first 2 blocks of a stage."},
    {"stages", "Layers", "Follows: blocks split over pp x virtual stages.", true},
    {"global_batch", "Global batch", "Sequences a step, over all devices.", false, true},
    {"seq_len", "Seq. length", "Tokens of a sequence.", false, true},
    {"precision", "Precision", "Of matrix products."},
    {"optimizer", "Optimizer", "Decides the bytes of state."},
    {"attention", "Attention", "Kernel."},
    {"overlap_grad", "Hide grads", "Gradient synchronisation beside the last backward."},
    {"overlap_param", "Hide gathers", "Gathers of ZeRO-1 and 2 beside the next forward."},
    {"overlap_p2p", "Hide p2p", "Pipeline transfers beside compute."},
    {"overlap_tp", "Hide tp", "Tensor-parallel collectives beside their products."},
};

constexpr std::array kKeys = {"tp",  "sp", "pp",  "vpp",  "cp",        "ep",
                              "etp", "dp", "mbs", "zero", "recompute", "schedule"};

constexpr std::array kModes = {RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::SelectiveOps,
                               RecomputeMode::Full, RecomputeMode::Modules};
constexpr std::array kPrecisions = {Precision::Bf16,  Precision::Fp16, Precision::Fp8,
                                    Precision::Nvfp4, Precision::Tf32, Precision::Fp32};
constexpr std::array kOptimizers = {OptimizerKind::Adam, OptimizerKind::Sgd, OptimizerKind::SgdMomentum,
                                    OptimizerKind::Lamb};
constexpr std::array kAttention = {AttentionKernel::Unfused, AttentionKernel::Flash1, AttentionKernel::Flash2,
                                   AttentionKernel::Flash3, AttentionKernel::CuDnn};

bool* switch_of(ParallelPlan& plan, std::string_view key) {
    if (key == "sp") return &plan.sequence_parallel;
    if (key == "overlap_grad") return &plan.overlap.grad_reduce;
    if (key == "overlap_param") return &plan.overlap.param_gather;
    if (key == "overlap_p2p") return &plan.overlap.p2p;
    if (key == "overlap_tp") return &plan.overlap.tp;
    return nullptr;
}

int* degree_of(ParallelPlan& plan, std::string_view key) {
    if (key == "tp") return &plan.mesh.tp;
    if (key == "pp") return &plan.mesh.pp;
    if (key == "cp") return &plan.mesh.cp;
    if (key == "ep") return &plan.mesh.ep;
    if (key == "etp") return &plan.mesh.etp;
    if (key == "dp") return &plan.mesh.dp;
    if (key == "vpp") return &plan.virtual_stages;
    return nullptr;
}

std::int64_t* count_of(ParallelPlan& plan, std::string_view key) {
    if (key == "mbs") return &plan.microbatch;
    if (key == "microbatches") return &plan.microbatches;
    if (key == "global_batch") return &plan.global_batch;
    if (key == "seq_len") return &plan.seq_len;
    return nullptr;
}

template <class Values>
Status set_word(std::string_view text, std::string_view key, const Values& values, auto set) {
    std::vector<std::string> names;
    for (const auto value : values) {
        names.emplace_back(to_string(value));
        if (names.back() == text) {
            set(value);
            return ok();
        }
    }
    return Error{ErrorCode::Usage, fmt::format("'{}' is none of its values", text), std::string(key),
                 unknown_name_hint(text, names)};
}

Status set_schedule(ParallelPlan& plan, std::string_view text) {
    const auto generator = find_schedule(text);
    if (!generator) return generator.errors();
    const GeneratorInfo info = (*generator)->info();
    plan.schedule = info.name;
    plan.semantics = info.semantics;
    plan.microbatch_group = 0;
    if (info.fixed_virtual_stages > 0) {
        plan.virtual_stages = info.fixed_virtual_stages;
    } else if (!info.virtual_stages) {
        plan.virtual_stages = 1;
    } else if (plan.virtual_stages == 1) {
        plan.virtual_stages = 2;
    }
    return ok();
}

// A whole number of at least `least`; nothing where the text is none.
std::optional<std::int64_t> number_in(std::string_view text, std::int64_t least) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < least ||
        number > (std::int64_t{1} << 30))
        return std::nullopt;
    return number;
}

// "2", or "2/8": over groups of 8 ranks.
Status set_zero(ParallelPlan& plan, std::string_view text) {
    const std::size_t slash = text.find('/');
    const auto stage = number_in(text.substr(0, slash), 0);
    const auto shard = slash == std::string_view::npos ? std::optional<std::int64_t>(0)
                                                       : number_in(text.substr(slash + 1), 2);
    if (!stage || *stage > 3 || !shard || (*stage == 0 && *shard > 0))
        return Error{ErrorCode::Usage, fmt::format("'{}' is no stage of ZeRO", text), "zero",
                     "0, 1, 2 or 3; 2/8 shards over groups of 8 ranks"};
    plan.zero_stage = static_cast<int>(*stage);
    plan.zero_shard = static_cast<int>(*shard);
    return ok();
}

// A mode for every stage; "full:2": the first two blocks of each; "modules:layernorm": that part of each
// block.
Status set_recompute(ParallelPlan& plan, std::string_view text) {
    constexpr std::string_view kFirst = "full:", kModules = "modules:";
    int layers = -1;
    RecomputeModules modules;
    if (text.starts_with(kFirst)) {
        const auto number = number_in(text.substr(kFirst.size()), 1);
        if (!number)
            return Error{ErrorCode::Usage, fmt::format("'{}' names no number of blocks", text), "recompute",
                         "full:2"};
        layers = static_cast<int>(*number);
        text = "full";
    } else if (text.starts_with(kModules)) {
        const auto named = recompute_modules_named(text.substr(kModules.size()));
        if (!named) return Error{ErrorCode::Usage, named.error().message, "recompute", named.error().hint};
        modules = *named;
        text = "modules";
    }
    return set_word(text, "recompute", kModes, [&](RecomputeMode mode) {
        plan.recompute = mode;
        plan.recompute_modules = modules;
        for (StageSpec& stage : plan.stages) {
            stage.recompute = mode;
            stage.recompute_layers = layers;
        }
    });
}

Status set_field(ParallelPlan& plan, std::string_view key, std::string_view text) {
    if (bool* value = switch_of(plan, key)) {
        if (text != "on" && text != "off")
            return Error{ErrorCode::Usage, fmt::format("'{}' is neither on nor off", text), std::string(key),
                         ""};
        *value = text == "on";
        return ok();
    }
    int* degree = degree_of(plan, key);
    std::int64_t* count = count_of(plan, key);
    if (degree != nullptr || count != nullptr) {
        const auto number = number_in(text, 1);
        if (!number)
            return Error{ErrorCode::Usage, fmt::format("'{}' is not a positive number", text),
                         std::string(key), ""};
        if (degree != nullptr) *degree = static_cast<int>(*number);
        if (count != nullptr) *count = *number;
        if (key == "tp" && *number == 1) plan.sequence_parallel = false;
        return ok();
    }
    if (key == "zero") return set_zero(plan, text);
    if (key == "recompute") return set_recompute(plan, text);
    if (key == "schedule") return set_schedule(plan, text);
    if (key == "precision")
        return set_word(text, key, kPrecisions, [&](Precision p) {
            plan.precision.compute = p;
            plan.precision.parameters = quantised(p)           ? Precision::Bf16
                                        : p == Precision::Tf32 ? Precision::Fp32
                                                               : p;
            plan.precision.master_weights = plan.precision.parameters != Precision::Fp32;
        });
    if (key == "optimizer")
        return set_word(text, key, kOptimizers, [&](OptimizerKind kind) { plan.optimizer = kind; });
    if (key == "attention")
        return set_word(text, key, kAttention, [&](AttentionKernel kernel) { plan.attention = kernel; });
    return Error{ErrorCode::Usage, fmt::format("'{}' is not a field that can be set", key), std::string(key),
                 ""};
}

// Of full recomputation, the first blocks of a stage, -1: all; nothing where stages differ.
std::optional<int> recomputed_blocks(const ParallelPlan& plan) {
    const int blocks = plan.stages.empty() ? -1 : plan.stages.front().recompute_layers;
    const bool alike = std::ranges::all_of(plan.stages, [&](const StageSpec& stage) {
        return stage.recompute == plan.recompute && stage.recompute_layers == blocks;
    });
    return alike ? std::optional(blocks) : std::nullopt;
}

// What follows from the rest; an error where it cannot.
Status settle(const Study& study, ParallelPlan& plan) {
    const LayerGraph& graph = study.document.graph;
    const int devices = study.document.cluster.devices();
    const std::int64_t inner = std::int64_t{plan.mesh.tp} * plan.mesh.pp * plan.mesh.cp;
    if (devices % inner != 0)
        return Error{ErrorCode::Usage,
                     fmt::format("tp {} x pp {} x cp {} = {} does not divide {} devices", plan.mesh.tp,
                                 plan.mesh.pp, plan.mesh.cp, inner, devices),
                     "dp", ""};
    plan.mesh.dp = static_cast<int>(devices / inner);
    const std::int64_t together = plan.microbatch * plan.mesh.dp;
    if (plan.global_batch % together != 0)
        return Error{ErrorCode::Usage,
                     fmt::format("the global batch of {} is not a multiple of mbs {} x dp {} = {}",
                                 plan.global_batch, plan.microbatch, plan.mesh.dp, together),
                     "global_batch",
                     fmt::format("{} or {}", plan.global_batch / together * together,
                                 (plan.global_batch / together + 1) * together)};
    plan.microbatches = plan.global_batch / together;
    if (plan.zero_shard > plan.mesh.dp * plan.mesh.cp) plan.zero_shard = 0;
    const std::int64_t stages = std::int64_t{plan.mesh.pp} * plan.virtual_stages;
    if (stages > graph.size())
        return Error{ErrorCode::Usage,
                     fmt::format("pp {} x vpp {} are more stages than the model's {} layers", plan.mesh.pp,
                                 plan.virtual_stages, graph.size()),
                     "pp", ""};
    if (stages != plan.stage_count()) {
        const int blocks = recomputed_blocks(plan).value_or(-1);
        plan.stages = uniform_partition(graph, static_cast<int>(stages), plan.recompute);
        for (StageSpec& stage : plan.stages)
            stage.recompute_layers = blocks;
    }
    assign_node_groups(study.document.cluster, plan);
    return ok();
}

std::vector<std::string> numbers(const std::vector<int>& values) {
    std::vector<std::string> texts;
    for (const int value : values)
        texts.push_back(std::to_string(value));
    return texts;
}

std::vector<int> at_most(std::vector<int> values, std::int64_t most) {
    std::erase_if(values, [&](int value) { return value > most; });
    return values;
}

int largest_node(const Cluster& cluster) {
    int devices = 1;
    for (const NodeGroup& group : cluster.groups)
        devices = std::max(devices, group.type.devices);
    return devices;
}

template <class Values>
std::vector<std::string> words(const Values& values) {
    std::vector<std::string> texts;
    for (const auto value : values)
        texts.emplace_back(to_string(value));
    return texts;
}

}  // namespace

std::span<const PlanField> plan_fields() {
    return kFields;
}

std::span<const char* const> constraint_keys() {
    return kKeys;
}

const PlanField* find_field(std::string_view key) {
    const auto* found = std::ranges::find_if(kFields, [&](const PlanField& f) { return key == f.key; });
    return found == std::end(kFields) ? nullptr : found;
}

std::string field_text(const ParallelPlan& plan, std::string_view key) {
    ParallelPlan copy = plan;  // the accessors are for writing
    if (const bool* value = switch_of(copy, key)) return *value ? "on" : "off";
    if (const int* degree = degree_of(copy, key)) return std::to_string(*degree);
    if (const std::int64_t* count = count_of(copy, key)) return std::to_string(*count);
    if (key == "recompute") {
        const std::optional<int> blocks = recomputed_blocks(plan);
        if (!blocks) return "mixed";
        return recompute_text(plan.recompute, *blocks, plan.recompute_modules);
    }
    if (key == "zero")
        return fmt::format("{}{}", plan.zero_stage,
                           plan.zero_shard > 0 ? fmt::format("/{}", plan.zero_shard) : "");
    if (key == "schedule") return plan.schedule;
    if (key == "stages") return partition_text(plan, " x ");
    if (key == "precision") return std::string(to_string(plan.precision.compute));
    if (key == "optimizer") return std::string(to_string(plan.optimizer));
    if (key == "attention") return std::string(to_string(plan.attention));
    return {};
}

Result<ParallelPlan> with_field(const Study& study, const ParallelPlan& plan, std::string_view key,
                                std::string_view text) {
    ParallelPlan changed = plan;
    changed.order.clear();  // of another shape
    if (const Status set = set_field(changed, key, text); !set) return set.errors();
    if (const Status settled = settle(study, changed); !settled) return settled.errors();
    return changed;
}

std::vector<std::string> constraint_values(const Study& study, std::int64_t global_batch,
                                           std::string_view key) {
    const LayerGraph& graph = study.document.graph;
    const Cluster& cluster = study.document.cluster;
    const int devices = cluster.devices();
    const auto batch = std::max<std::int64_t>(1, global_batch);
    if (key == "tp") {
        std::vector<int> legal = legal_tp(graph, std::min(devices, 4 * largest_node(cluster)));
        std::erase_if(legal, [&](int tp) { return devices % tp != 0; });
        return numbers(legal);
    }
    if (key == "pp") return numbers(at_most(divisors_of(devices), std::max<std::int64_t>(1, graph.blocks)));
    if (key == "cp") return numbers(at_most(divisors_of(devices), graph.counts_tokens ? 64 : 1));
    if (key == "ep") return numbers(graph.experts > 0 ? legal_ep(graph, devices) : std::vector<int>{1});
    if (key == "etp") {
        std::vector<int> degrees = divisors_of(graph.experts > 0 ? devices : 1);
        return numbers(at_most(std::move(degrees), largest_node(cluster)));
    }
    if (key == "dp") {
        std::vector<int> degrees = divisors_of(devices);
        std::erase_if(degrees, [&](int dp) { return batch % dp != 0; });
        return numbers(degrees);
    }
    if (key == "mbs") return numbers(at_most(divisors_of(batch), 64));
    if (key == "vpp") {
        std::vector<int> chunks;
        for (int v = 1;
             v <= std::min<std::int64_t>(kMaxUnnamedVirtualStages, std::max<std::int64_t>(1, graph.blocks));
             ++v)
            chunks.push_back(v);
        return numbers(chunks);
    }
    if (key == "zero") {
        std::vector<std::string> stages = {"0", "1", "2", "3"};
        const int node = largest_node(cluster);  // shards inside a node, copies across nodes
        if (node > 1 && devices > node)
            for (int stage = 1; stage <= 3; ++stage)
                stages.push_back(fmt::format("{}/{}", stage, node));
        return stages;
    }
    if (key == "sp") return {"on", "off"};
    if (key == "recompute") {
        std::vector<std::string> modes = words(kModes);
        modes.pop_back();  // "modules" alone names none
        if (const RecomputeModules usual = usual_modules(graph); usual.any())
            modes.push_back(recompute_text(RecomputeMode::Modules, -1, usual));
        for (std::int64_t blocks = 1; blocks < std::min<std::int64_t>(graph.blocks, 9); blocks *= 2)
            modes.push_back(fmt::format("full:{}", blocks));
        return modes;
    }
    if (key == "schedule") return schedule_names();
    if (key == "precision") return words(kPrecisions);
    if (key == "optimizer") return words(kOptimizers);
    if (key == "attention") return words(kAttention);
    if (key.starts_with("overlap")) return {"on", "off"};
    return {};
}

std::vector<FieldValue> field_values(const Study& study, const ParallelPlan& plan, std::string_view key) {
    std::vector<std::string> texts = constraint_values(study, plan.global_batch, key);
    if (key == "zero") {  // shards of the replicas that share a node, as the search has them
        const DeviceMesh& m = plan.mesh;
        const int inside = largest_node(study.document.cluster) / (m.tp * m.cp) * m.cp;
        std::erase_if(texts, [](const std::string& text) { return text.find('/') != std::string::npos; });
        for (int stage = 1; stage <= 3 && inside > 1 && inside < m.dp * m.cp; ++stage)
            texts.push_back(fmt::format("{}/{}", stage, inside));
    }
    const std::string own = field_text(plan, key);
    if (std::ranges::find(texts, own) == texts.end() && !own.empty()) texts.insert(texts.begin(), own);
    std::vector<FieldValue> values;
    for (std::string& text : texts) {
        FieldValue value{std::move(text), ""};
        if (value.text != own) {
            const auto changed = with_field(study, plan, key, value.text);
            if (!changed) {
                value.refusal = to_string(changed.error());
            } else if (const PlanCheck check =
                           check_plan(study.document.graph, study.document.cluster, *changed);
                       !check.errors.empty()) {
                value.refusal = to_string(check.errors.front());
            }
        }
        values.push_back(std::move(value));
    }
    return values;
}

std::vector<FieldDifference> field_differences(const ParallelPlan& a, const ParallelPlan& b) {
    std::vector<FieldDifference> differences;
    for (const PlanField& field : plan_fields()) {
        std::string first = field_text(a, field.key), second = field_text(b, field.key);
        if (first != second) differences.push_back({field.title, std::move(first), std::move(second)});
    }
    return differences;
}

}  // namespace tw::gui

// From what a configuration states to the plan that it is on a cluster.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/families/model_config_json.hpp"
#include "plan/frameworks/export/export_plan.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/frameworks/import/import_config.hpp"
#include "plan/rules/keys.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

template <class Field, class Value>
void lay_over(Field& field, const std::optional<Value>& stated) {
    if (stated) field = static_cast<Field>(*stated);
}

class Completion {
  public:
    Completion(const ImportedConfig& config, const LayerGraph& graph, const Cluster& cluster, Errors& errors)
        : config_(config), s_(config.stated), graph_(graph), cluster_(cluster), errors_(errors) {}

    std::optional<ParallelPlan> all() {
        defaults();
        mesh();
        settings();
        batch();
        const std::size_t before = errors_.size();
        stages();
        if (errors_.size() > before && plan_.stages.empty()) return std::nullopt;
        return std::move(plan_);
    }

  private:
    void refuse(PlanKnob knob, std::string message, std::string hint = {}) {
        errors_.push_back({ErrorCode::Unreadable, std::move(message),
                           std::string(user_key(knob, config_.framework)), std::move(hint)});
    }

    void defaults() {
        const std::string& architecture = cluster_.groups.front().device.architecture;
        const bool hopper = architecture == "hopper" || architecture == "blackwell";
        plan_.precision.compute = s_.compute.value_or(default_precision(cluster_));
        plan_.mesh.tp = s_.tp.value_or(1);
        apply_framework(framework_defaults(config_.row), hopper, plan_);
        plan_.attention = std::min(plan_.attention, default_attention(cluster_));
        if (config_.framework == TargetFramework::DeepSpeed) plan_.cp_kind = WorkShape::Cp::AllToAll;
    }

    void mesh() {
        DeviceMesh& mesh = plan_.mesh;
        lay_over(mesh.pp, s_.pp);
        lay_over(mesh.cp, s_.cp);
        lay_over(mesh.ep, s_.ep);
        if (graph_.experts > 0) {
            mesh.etp = s_.etp.value_or(config_.framework == TargetFramework::Megatron ? mesh.tp : 1);
        } else {
            lay_over(mesh.etp, s_.etp);
        }
        const std::int64_t model = std::int64_t{mesh.tp} * mesh.pp * mesh.cp;
        const std::int64_t dp = std::max<std::int64_t>(1, cluster_.devices() / model);
        mesh.dp = s_.dp.value_or(static_cast<int>(dp));
        lay_over(plan_.cp_kind, s_.cp_kind);
    }

    void settings() {
        ParallelPlan& p = plan_;
        p.seq_len = s_.seq_len.value_or(graph_.default_seq_len > 0 ? graph_.default_seq_len : p.seq_len);
        lay_over(p.vocab_divisor, s_.vocab_divisor);
        p.sequence_parallel = s_.sequence_parallel.value_or(p.sequence_parallel) && p.mesh.tp > 1;
        lay_over(p.rank_order, s_.rank_order);
        lay_over(p.zero_stage, s_.zero_stage);
        const std::int64_t ranks = std::int64_t{p.mesh.dp} * p.mesh.cp;
        if (s_.shard_replicas && *s_.shard_replicas > 1 && p.zero_stage > 0) {
            if (ranks % *s_.shard_replicas != 0) {
                refuse(PlanKnob::ZeroShard,
                       fmt::format("{} data-parallel ranks are not a multiple of {} copies of their states",
                                   ranks, *s_.shard_replicas));
            } else {
                p.zero_shard = static_cast<int>(ranks / *s_.shard_replicas);
            }
        }
        if (s_.shard_ranks && *s_.shard_ranks != ranks) p.zero_shard = *s_.shard_ranks;
        lay_over(p.recompute, s_.recompute);
        modules();
        if (p.precision.compute != Precision::Fp32) {
            lay_over(p.precision.gradient_fp32, s_.gradient_fp32);
            lay_over(p.precision.gradient_reduce, s_.gradient_reduce);
        }
        lay_over(p.precision.optimizer_states, s_.optimizer_states);
        lay_over(p.optimizer, s_.optimizer);
        lay_over(p.overlap.grad_reduce, s_.overlap_grad_reduce);
        lay_over(p.overlap.param_gather, s_.overlap_param_gather);
        lay_over(p.overlap.p2p, s_.overlap_p2p);
        lay_over(p.overlap.tp, s_.overlap_tp);
        if (s_.bucket_elements) p.bucket_bytes = *s_.bucket_elements * (p.precision.gradient_fp32 ? 4 : 2);
        lay_over(p.offload_optimizer, s_.offload_optimizer);
        lay_over(p.attention, s_.attention);
        lay_over(p.dropout, s_.dropout);
        lay_over(p.microbatch_group, s_.microbatch_group);
    }

    // Megatron refuses "mla_up_proj" and "moe_act" of a model without latent attention and experts; of other
    // modules that the model lacks nothing comes.
    void modules() {
        if (plan_.recompute != RecomputeMode::Modules) return;
        const RecomputeModules legal = graph_.recompute_modules();
        const RecomputeModules refused = {RecomputeModule::LatentUpProjection,
                                          RecomputeModule::ExpertActivation};
        for (const RecomputeModule module : kRecomputeModules) {
            const bool kept = legal.has(module) || (refused.has(module) && config_.model_missing.empty());
            if (s_.recompute_modules.has(module) && kept) plan_.recompute_modules.add(module);
        }
        if (!plan_.recompute_modules.any()) plan_.recompute = RecomputeMode::None;
    }

    // global_batch = microbatch * microbatches * dp: two of them make the third.
    void batch() {
        const std::int64_t dp = plan_.mesh.dp;
        std::optional<std::int64_t> global = s_.global_batch, mbs = s_.microbatch, count = s_.microbatches;
        if (!global && s_.rank_batch) global = *s_.rank_batch * dp;
        if (!mbs && global && count) mbs = std::max<std::int64_t>(1, *global / (*count * dp));
        plan_.microbatch = mbs.value_or(1);
        const std::int64_t pass = plan_.microbatch * dp;
        if (!count && global) count = std::clamp<std::int64_t>(*global / pass, 1, kMostOfAPlan);
        plan_.microbatches = count.value_or(1);
        plan_.global_batch = global.value_or(pass * plan_.microbatches);
    }

    void stages() {
        const std::optional<std::vector<int>> split = blocks();
        if (!split) return;
        const std::int64_t count = std::int64_t{plan_.mesh.pp} * plan_.virtual_stages;
        const std::int64_t most = graph_.blocks > 0 ? graph_.blocks : graph_.size();
        schedule();
        if (split->empty()) {
            if (count > most) {
                return refuse(PlanKnob::Pp,
                              fmt::format("{} stages (pp {} * vpp {}) are more than the model's {} blocks",
                                          count, plan_.mesh.pp, plan_.virtual_stages, most),
                              fmt::format("at most {} stages", most));
            }
            plan_.stages = uniform_partition(graph_, static_cast<int>(count), plan_.recompute);
        } else {
            auto made = explicit_partition(graph_, *split, plan_.recompute);
            if (!made) {
                for (const Error& error : made.errors())
                    refuse(PlanKnob::Stages, error.message, error.hint);
                return;
            }
            plan_.stages = std::move(*made);
        }
        if (!s_.recompute_layers) return;
        for (StageSpec& stage : plan_.stages)
            stage.recompute_layers = *s_.recompute_layers;
    }

    void schedule() {
        lay_over(plan_.schedule, s_.schedule);
        if (!s_.schedule) plan_.schedule = plan_.virtual_stages > 1 ? "interleaved" : "1f1b";
        const bool own_loop = config_.framework == TargetFramework::Megatron;
        if (own_loop && plan_.virtual_stages == 1) plan_.overlap.p2p = false;
        if (own_loop && plan_.virtual_stages > 1) plan_.overlap.p2p = s_.overlap_p2p.value_or(true);
    }

    // Blocks of each stage; none: as even as can be. Sets virtual_stages. Nothing after an error.
    std::optional<std::vector<int>> blocks() {
        const int pp = plan_.mesh.pp;
        const auto all = static_cast<std::int64_t>(graph_.blocks);
        plan_.virtual_stages = s_.vpp.value_or(1);
        if (s_.layers_per_virtual_stage) {
            const std::int64_t chunk = *s_.layers_per_virtual_stage * pp;
            if (all % chunk != 0) {
                refuse(PlanKnob::Vpp,
                       fmt::format("{} layers are not a multiple of pp {} * {} layers a virtual stage", all,
                                   pp, *s_.layers_per_virtual_stage));
                return std::nullopt;
            }
            plan_.virtual_stages = static_cast<int>(all / chunk);
        }
        if (s_.layers_per_stage) return weighted();
        if (!s_.blocks_per_stage.empty()) return s_.blocks_per_stage;
        const std::int64_t count = std::int64_t{pp} * plan_.virtual_stages;
        if (count > std::max<std::int64_t>(all, graph_.size())) return std::vector<int>{};
        if (config_.framework == TargetFramework::Megatron) return megatron_blocks();
        if (s_.first_weight || s_.last_weight)
            return torchtitan_split(static_cast<int>(all), static_cast<int>(count),
                                    s_.first_weight.value_or(1), s_.last_weight.value_or(1));
        const auto own = own_split(graph_, config_.framework, static_cast<int>(count));
        return own.value_or(std::vector<int>{});
    }

    std::optional<std::vector<int>> weighted() {
        const int first = s_.first_weight.value_or(1), last = s_.last_weight.value_or(1);
        const std::int64_t weight = std::int64_t{graph_.blocks} + first + last;
        const std::int64_t count = (weight + *s_.layers_per_stage - 1) / *s_.layers_per_stage;
        if (count % plan_.mesh.pp != 0 || count > graph_.blocks) {
            refuse(
                PlanKnob::Vpp,
                fmt::format("{} blocks, embedding and head among them, at {} a stage make {} stages, not a "
                            "multiple of {} ranks",
                            weight, *s_.layers_per_stage, count, plan_.mesh.pp));
            return std::nullopt;
        }
        plan_.virtual_stages = static_cast<int>(count / plan_.mesh.pp);
        return torchtitan_split(static_cast<int>(graph_.blocks), static_cast<int>(count), first, last);
    }

    // transformer_config.py and transformer_block.py (get_num_layers_to_build): equal parts, less what the
    // ends are told to hold.
    std::optional<std::vector<int>> megatron_blocks() {
        const int pp = plan_.mesh.pp, vpp = plan_.virtual_stages;
        const auto all = static_cast<int>(graph_.blocks);
        if (pp == 1 && vpp == 1) return std::vector<int>{};
        const int embedding = s_.embedding_counts ? 1 : 0, loss = s_.loss_counts ? 1 : 0;
        const int ends = (s_.first_blocks ? 1 : 0) + (s_.last_blocks ? 1 : 0);
        std::vector<int> ranks(static_cast<std::size_t>(pp), 0);
        const std::int64_t middle =
            std::int64_t{all} + embedding + loss - s_.first_blocks.value_or(0) - s_.last_blocks.value_or(0);
        const int parts = pp - ends;
        const bool divides =
            parts > 0 ? middle >= 0 && middle % (std::int64_t{parts} * vpp) == 0 : middle == 0;
        const bool ends_divide =
            s_.first_blocks.value_or(0) % vpp == 0 && s_.last_blocks.value_or(0) % vpp == 0;
        if (!divides || !ends_divide) {
            if (config_.row.starts_with("megatron-deepspeed")) return std::vector<int>{};  // it balances them
            uneven(middle, parts);
            return std::vector<int>{};  // for the other rules
        }
        std::fill(ranks.begin(), ranks.end(), parts > 0 ? static_cast<int>(middle / parts) : 0);
        if (s_.first_blocks) ranks.front() = *s_.first_blocks;
        if (s_.last_blocks) ranks.back() = *s_.last_blocks;
        std::vector<int> stages;
        for (int chunk = 0; chunk < vpp; ++chunk) {
            for (const int count : ranks)
                stages.push_back(count / vpp);
        }
        stages.front() -= embedding;
        stages.back() -= loss;
        if (*std::min_element(stages.begin(), stages.end()) >= 0) return stages;
        uneven(middle, parts);
        return std::vector<int>{};  // for the other rules
    }

    // A split that is legal, in the flags that make it.
    void uneven(std::int64_t middle, int parts) {
        const int count = plan_.mesh.pp * plan_.virtual_stages;
        const auto blocks = static_cast<int>(graph_.blocks);
        const std::vector<int> even =
            blocks_per_stage(graph_, uniform_partition(graph_, count, RecomputeMode::None));
        std::string hint = fmt::format("--pipeline-model-parallel-layout '{}'", megatron_layout(even, 0));
        const int ends =
            plan_.mesh.pp > 2 ? (blocks - (blocks / plan_.mesh.pp + 1) * (plan_.mesh.pp - 2)) : 0;
        if (plan_.virtual_stages == 1 && ends > 1 && ends % 2 == 0) {
            hint = fmt::format(
                "--decoder-first-pipeline-num-layers {0} --decoder-last-pipeline-num-layers {0}, or {1}",
                ends / 2, hint);
        }
        refuse(PlanKnob::Pp,
               parts == plan_.mesh.pp ? fmt::format("{} layers are not a multiple of pp {} * vpp {}", middle,
                                                    plan_.mesh.pp, plan_.virtual_stages)
                                      : fmt::format("{} layers are left for {} ranks of {} virtual stages",
                                                    middle, parts, plan_.virtual_stages),
               std::move(hint));
    }

    const ImportedConfig& config_;
    const StatedPlan& s_;
    const LayerGraph& graph_;
    const Cluster& cluster_;
    Errors& errors_;
    ParallelPlan plan_;
};

}  // namespace

std::optional<std::int64_t> StatedPlan::devices() const {
    if (nodes && devices_per_node) return *nodes * *devices_per_node;
    return world;
}

std::optional<ParallelPlan> complete_plan(const ImportedConfig& config, const LayerGraph& graph,
                                          const Cluster& cluster, Errors& errors) {
    return Completion(config, graph, cluster, errors).all();
}

std::int64_t stand_in_devices(const ImportedConfig& config) {
    const StatedPlan& s = config.stated;
    if (const auto stated = s.devices(); stated && *stated <= kMaxClusterDevices) return *stated;
    std::int64_t devices = 1;
    for (const auto& degree : {s.tp, s.pp, s.cp, s.dp})
        devices = std::min<std::int64_t>(kMaxClusterDevices, devices * degree.value_or(1));
    // Experts spread over replicas too.
    const bool whole = config.framework == TargetFramework::Megatron && s.ep.value_or(1) > 1;
    const int etp = s.etp.value_or(whole ? s.tp.value_or(1) : 1);
    const std::int64_t experts = std::int64_t{s.ep.value_or(1)} * etp * s.pp.value_or(1);
    return s.dp ? devices : std::min<std::int64_t>(kMaxClusterDevices, std::lcm(devices, experts));
}

Json stand_in_model(const ImportedConfig& config) {
    const StatedPlan& s = config.stated;
    const std::int64_t pp = s.pp.value_or(1);
    ModelConfig c;
    c.name = "stand-in";
    c.source = "suits the configuration";
    c.family = s.ep.value_or(1) > 1 ? "moe" : "llama";
    c.layers = pp * s.vpp.value_or(1) * s.layers_per_virtual_stage.value_or(s.recompute_layers.value_or(1));
    if (!s.blocks_per_stage.empty())
        c.layers = std::accumulate(s.blocks_per_stage.begin(), s.blocks_per_stage.end(), std::int64_t{0});
    if (s.first_blocks || s.last_blocks)
        c.layers = s.first_blocks.value_or(1) + s.last_blocks.value_or(1) + std::max<std::int64_t>(0, pp - 2);
    if (s.layers_per_stage) c.layers = *s.layers_per_stage * pp;
    c.layers = std::clamp<std::int64_t>(c.layers, 1, 4096);
    const std::int64_t split = std::int64_t{s.tp.value_or(1)} * s.cp.value_or(1);
    c.heads = split <= 1024 ? split * 2 : 128;
    c.hidden = c.heads * 64;
    c.ffn = c.hidden * 4;
    c.vocab = 32768;
    c.seq_len = s.seq_len.value_or(std::min<std::int64_t>(4096 * std::int64_t{s.cp.value_or(1)}, 1 << 20));
    c.norm = NormKind::Rms;
    c.gated = true;
    c.activation = ActivationKind::Silu;
    if (c.family == "moe") {
        c.experts = std::min<std::int64_t>(s.ep.value_or(1) * std::int64_t{2}, 65536);
        c.experts_per_token = 2;
        c.expert_ffn = c.hidden;
    }
    return model_config_to_json(c);
}

std::string stated_summary(const ImportedConfig& config) {
    const StatedPlan& s = config.stated;
    std::vector<std::string> words;
    const auto degree = [&words](std::string_view name, const auto& value, bool always) {
        if (value && (always || *value > 1)) words.push_back(fmt::format("{}{}", name, *value));
    };
    degree("tp", s.tp, true);
    if (s.sequence_parallel.value_or(false)) words.emplace_back("sp");
    degree("pp", s.pp, true);
    degree("dp", s.dp, true);
    degree("cp", s.cp, false);
    degree("ep", s.ep, false);
    degree("vpp", s.vpp, false);
    degree("mbs", s.microbatch, true);
    degree("zero", s.zero_stage, false);
    if (s.zero_stage == 1) words.emplace_back("zero1");
    if (s.recompute && *s.recompute != RecomputeMode::None)
        words.push_back(recompute_text(*s.recompute, -1, s.recompute_modules));
    std::string text = fmt::format("{}", fmt::join(words, " "));
    if (s.global_batch) text += fmt::format(", {} sequences a step", *s.global_batch);
    if (const auto devices = s.devices()) text += fmt::format(", {} devices", *devices);
    return text;
}

}  // namespace tw

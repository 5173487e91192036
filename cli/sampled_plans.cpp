#include "cli/sampled_plans.hpp"

#include <algorithm>
#include <array>

#include "base/prng.hpp"
#include "cli/common/load_plan.hpp"
#include "models/families/model_config_json.hpp"
#include "models/families/registry.hpp"
#include "models/hardware/profile_document.hpp"
#include "plan/check_plan.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/stage_partition.hpp"
#include "real_exec/runtime/executable.hpp"
#include "sim/simulator.hpp"

namespace tw::cli {
namespace {

template <class T, std::size_t N>
T pick(Prng& random, const std::array<T, N>& values) {
    return values[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(N) - 1))];
}

ModelConfig draw_model(Prng& random) {
    ModelConfig c;
    const bool llama = random.integer(0, 1) == 1;
    c.hidden = pick(random, std::array<std::int64_t, 4>{128, 192, 256, 384});
    const std::int64_t dim = pick(random, std::array<std::int64_t, 2>{32, 64});
    c.heads = c.hidden / dim;
    c.layers = pick(random, std::array<std::int64_t, 4>{2, 4, 6, 8});
    c.vocab = pick(random, std::array<std::int64_t, 3>{512, 1024, 2048});
    c.seq_len = pick(random, std::array<std::int64_t, 3>{64, 128, 256});
    c.family = llama ? "llama" : "gpt";
    if (llama) {
        c.ffn = c.hidden * 8 / 3 / 64 * 64;
        c.kv_heads = c.heads % 2 == 0 && random.integer(0, 1) == 1 ? c.heads / 2 : c.heads;
        c.activation = ActivationKind::Silu;
        c.gated = true;
        c.norm = NormKind::Rms;
    } else {
        c.ffn = 4 * c.hidden;
        c.positions = PositionKind::Learned;
        c.qkv_bias = c.attention_out_bias = c.mlp_bias = true;
        c.tied_embeddings = random.integer(0, 1) == 1;
    }
    c.name = c.family + "-" + std::to_string(c.layers) + "x" + std::to_string(c.hidden);
    c.source = "drawn by trainwright compare --plans";
    return c;
}

std::vector<std::string> synchronous_schedules() {
    std::vector<std::string> names;
    for (const ScheduleGenerator* generator : schedule_generators()) {
        const GeneratorInfo info = generator->info();
        if (info.semantics == Semantics::Synchronous && !info.uses_memory_limit) names.push_back(info.name);
    }
    return names;
}

// Every rank on one node of the profile's, which may have fewer cores.
Result<Cluster> cluster_for(const ProfileDocument& profile, const std::string& path, int ranks) {
    ProfileDocument crowded = profile;
    if (crowded.cluster && crowded.cluster->uniform()) {
        NodeType& node = crowded.cluster->groups.front().type;
        node.devices = std::max(node.devices, ranks);
        if (node.link == IntraNodeLink::None && ranks > 1) node.link = IntraNodeLink::SharedMemory;
    }
    return cluster_of_document(crowded, path, ranks);
}

// `ranks`: a power of two.
void draw_mesh(Prng& random, int ranks, ParallelPlan& plan) {
    plan.mesh = {};
    int left = ranks;
    while (left > 1) {
        const int axis = static_cast<int>(random.integer(0, 2));
        (axis == 0 ? plan.mesh.dp : axis == 1 ? plan.mesh.tp : plan.mesh.pp) *= 2;
        left /= 2;
    }
}

ParallelPlan draw_plan(Prng& random, int ranks, const std::vector<std::string>& schedules) {
    ParallelPlan plan;
    const FrameworkDefaults& defaults = framework_defaults("trainwright");
    plan.precision.compute = Precision::Fp32;
    draw_mesh(random, ranks, plan);
    apply_framework(defaults, false, plan);
    if (plan.mesh.pp > 1) {
        plan.schedule = schedules[static_cast<std::size_t>(
            random.integer(0, static_cast<std::int64_t>(schedules.size()) - 1))];
        plan.virtual_stages = own_virtual_stages((*find_schedule(plan.schedule))->info());
    }
    plan.microbatch = pick(random, std::array<std::int64_t, 4>{1, 2, 4, 8});
    plan.microbatches = pick(random, std::array<std::int64_t, 5>{1, 2, 4, 8, 16});
    plan.global_batch = plan.microbatch * plan.microbatches * plan.mesh.dp;
    if (plan.mesh.dp > 1) plan.zero_stage = static_cast<int>(random.integer(0, 3));
    if (plan.mesh.tp > 1) plan.sequence_parallel = random.integer(0, 1) == 1;
    plan.recompute = pick(random, std::array{RecomputeMode::None, RecomputeMode::None,
                                             RecomputeMode::Selective, RecomputeMode::Full});
    return plan;
}

}  // namespace

std::uint64_t hash_text(std::string_view text) {
    std::uint64_t hash = 14695981039346656037ULL;
    for (const char c : text)
        hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return hash;
}

Result<std::vector<PlanDocument>> draw_plans(const PlanDraw& draw, const std::string& profile_path) {
    const auto profile = load_profile_document(profile_path);
    if (!profile) return profile.errors();
    const std::vector<std::string> schedules = synchronous_schedules();
    Prng random(draw.seed);
    std::vector<PlanDocument> plans;
    Errors last;
    constexpr int kMostTries = 4000;
    for (int tries = 0; static_cast<int>(plans.size()) < draw.plans; ++tries) {
        if (tries == kMostTries) {
            last.push_back({ErrorCode::Failure, "no legal plans are found", "", "other --ranks"});
            return last;
        }
        const int ranks = draw.ranks[plans.size() % draw.ranks.size()];
        PlanDocument document;
        const ModelConfig config = draw_model(random);
        ParallelPlan plan = draw_plan(random, ranks, schedules);
        auto graph = build_model(config);
        if (!graph) continue;
        document.graph = std::move(*graph);
        document.model_name = config.name;
        document.model_document = model_config_to_json(config);
        auto cluster = cluster_for(*profile, profile_path, ranks);
        if (!cluster) return cluster.errors();
        document.cluster = std::move(*cluster);
        plan.seq_len = config.seq_len;
        const int stages = plan.mesh.pp * plan.virtual_stages;
        if (document.graph.size() < stages) continue;
        plan.stages = uniform_partition(document.graph, stages, plan.recompute);
        assign_node_groups(document.cluster, plan);
        document.plan = plan;
        if (!check_plan(document.graph, document.cluster, plan).errors.empty()) continue;
        if (!unsupported_by_executor(document.graph, plan).empty()) continue;
        auto environment = make_environment(document.graph, document.cluster);
        if (!environment) return environment.errors();
        const auto report = Simulator(*environment).simulate(plan);
        if (!report || report->step_time_s > draw.longest_step_s) continue;
        document.plan = report->plan;  // with the order, where costs decide it: the executor has none
        plans.push_back(std::move(document));
    }
    return plans;
}

}  // namespace tw::cli

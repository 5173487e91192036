// Sharded states in words.
#include <array>

#include <fmt/format.h>

#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_plan.hpp"

namespace tw {
namespace {

struct ShardingWord {
    std::string_view word;
    int stage;
};
// The first that is said. PyTorch's strategies: distributed/fsdp/api.py, ShardingStrategy.
constexpr std::array<ShardingWord, 11> kSharding = {{
    {"no_shard", 0},
    {"shard_grad_op", 2},
    {"zero2", 2},  // _HYBRID_SHARD_ZERO2
    {"fsdp", 3},
    {"hsdp", 3},
    {"full_shard", 3},
    {"fully_shard", 3},
    {"fully shard", 3},
    {"hybrid_shard", 3},
    {"hybrid shard", 3},
    {"distributed optimizer", 1},
}};

// "ZeRO-1", "zero 2", "ZeRO stage 3", "stage3".
std::optional<int> zero_said(const std::string& text) {
    for (const std::string_view word : {"zero stage", "zero-stage", "zero_stage", "zero", "stage"}) {
        const auto stage = number_after(text, word);
        if (stage && *stage <= 3) return stage;
    }
    return std::nullopt;
}

bool denies(const std::string& text) {
    return text == "no" || text == "false" || text == "off" || begins(text, "none") || begins(text, "no ") ||
           begins(text, "not ");
}

bool replicated(const std::string& text) {
    return says_any(text, {"ddp", "no_shard", "replicated data"}) && !says(text, "distributed optimizer");
}

int first_number(const std::string& text, std::initializer_list<std::string_view> words) {
    for (const std::string_view word : words) {
        if (const auto n = number_after(text, word); n && *n > 0) return *n;
    }
    return 0;
}

void read_stage(const std::string& text, StatedSharding& stated) {
    if (denies(text) || replicated(text)) {
        stated.not_whole = true;
        if (!denies(text)) stated.stage = 0;
        return;
    }
    stated.stage = zero_said(text);
    if (text.size() == 1 && text >= "0" && text <= "3") stated.stage = text[0] - '0';
    for (const auto& [word, stage] : kSharding) {
        if (!stated.stage && says(text, word)) stated.stage = stage;
    }
    if (!stated.stage && (begins(text, "full") || text == "true" || text == "yes")) stated.stage = 3;
    stated.known = stated.stage.has_value() || says(text, "zero");
}

}  // namespace

StatedSharding stated_sharding(const TruthRow& row) {
    StatedSharding stated;
    const std::string& text = row.sharding;
    if (text.empty()) {
        const std::string framework = lower(row.framework);
        stated.stage = says(framework, "zero") ? zero_said(framework) : std::nullopt;
        if (!stated.stage && says(framework, "fsdp")) stated.stage = 3;
        return stated;
    }
    read_stage(text, stated);
    stated.shard = first_number(text, {"shard group", "degree", "hybrid_shard", "hybrid shard", "shard"});
    stated.replicas = first_number(text, {"replicated", "replicate", "replicas", "replica"});
    stated.in_node = says_any(text, {"hybrid_shard", "hybrid shard", "intra-node", "within a node", "hsdp"});
    return stated;
}

Status set_sharding(const TruthRow& row, int node_devices, ParallelPlan& plan,
                    std::vector<std::string>& assumed) {
    const StatedSharding stated = stated_sharding(row);
    const auto zero = zero_said(row.sharding);
    if (row.zero_stage && says(row.sharding, "zero") && zero && *zero != *row.zero_stage)
        return reason(fmt::format("fsdp \"{}\" is not ZeRO {}", row.sharding, *row.zero_stage));
    if (row.zero_stage) {
        plan.zero_stage = *row.zero_stage;
    } else if (stated.stage) {
        plan.zero_stage = *stated.stage;
    } else if (stated.not_whole && plan.zero_stage == 3) {
        plan.zero_stage = 0;
    }
    if (!stated.known)
        assumed.push_back(fmt::format("fsdp \"{}\": ZeRO {}, {}", row.sharding, plan.zero_stage,
                                      row.zero_stage ? "as the row says" : "the framework's default"));
    const int ranks = plan.mesh.dp * plan.mesh.cp;
    int shard = stated.shard;
    const int replicas = stated.replicas > 0 ? stated.replicas : row.optimizer_instances.value_or(1);
    if (shard == 0 && replicas > 1 && ranks % replicas == 0) shard = ranks / replicas;
    if (shard == 0 && stated.in_node) shard = node_devices / plan.mesh.tp;
    plan.zero_shard = plan.zero_stage > 0 && shard > 1 && shard < ranks && ranks % shard == 0 ? shard : 0;
    return ok();
}

}  // namespace tw

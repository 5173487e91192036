#include "real_exec/runtime/groups.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/check.hpp"

namespace tw {

namespace {

// Who sends to whom among the ranks of a pipeline, in one order on all of them.
std::vector<Route> routes_of(const Schedule& schedule) {
    std::set<std::pair<int, int>> pairs;
    for (std::size_t rank = 0; rank < schedule.programs.size(); ++rank) {
        for (const Instruction& in : schedule.programs[rank].instructions) {
            if (is_send(in.opcode)) pairs.emplace(static_cast<int>(rank), in.peer);
        }
    }
    std::vector<Route> routes;
    for (const auto& [from, to] : pairs)
        routes.push_back({from, to});
    return routes;
}

}  // namespace

Result<Groups> Groups::create(Transport& transport, const RankLayout& layout, const Schedule& schedule,
                              bool replica_norms, int shard) {
    Groups groups;
    Errors errors;
    const auto make = [&](std::unique_ptr<Communicator>& into, const char* name,
                          const std::vector<int>& ranks) {
        auto made = transport.create(name, ranks);
        if (made) {
            into = std::move(*made);
        } else {
            errors.insert(errors.end(), made.errors().begin(), made.errors().end());
        }
    };
    std::vector<int> everyone(static_cast<std::size_t>(layout.world));
    std::iota(everyone.begin(), everyone.end(), 0);
    make(groups.world, "world", everyone);
    make(groups.norm, "norm", replica_norms ? layout.replica : everyone);
    make(groups.tp, "tp", layout.tp);
    make(groups.tp_grad, "tp gradients", layout.tp);
    make(groups.ep, "ep", layout.ep);
    make(groups.dp, "dp", layout.dp);
    make(groups.edp, "edp", layout.edp);
    make(groups.layer_dp, "dp layer by layer", layout.dp);
    make(groups.layer_edp, "edp layer by layer", layout.edp);
    const auto cut = [&](Cut& into, const char* name, const std::vector<int>& group) {
        const int of = std::min(shard, static_cast<int>(group.size()));
        if (shard == 0 || of == static_cast<int>(group.size())) return;
        make(into.shard, name, layout.part_of(group, of));
        make(into.copies, name, layout.copies_in(group, of));
    };
    cut(groups.dp_cut, "dp shards", layout.dp);
    cut(groups.edp_cut, "edp shards", layout.edp);
    cut(groups.layer_dp_cut, "dp shards layer by layer", layout.dp);
    cut(groups.layer_edp_cut, "edp shards layer by layer", layout.edp);
    make(groups.pipeline, "pp", layout.pipeline);
    groups.stage_dp.resize(static_cast<std::size_t>(schedule.stages));
    for (std::size_t s = 0; s < groups.stage_dp.size(); ++s) {
        if (schedule.replicas_of_stage[s] == 1) continue;
        std::vector<std::uint16_t> ranks(schedule.replicas_of_stage[s]);
        std::iota(ranks.begin(), ranks.end(), schedule.rank_of_stage[s]);
        if (std::find(ranks.begin(), ranks.end(), layout.pipeline_rank) == ranks.end()) continue;
        make(groups.stage_dp[s], "stage replicas", layout.across(ranks, true));
    }
    groups.across.resize(schedule.groups.size());
    for (std::size_t g = 1; g < schedule.groups.size(); ++g) {
        const std::vector<std::uint16_t>& ranks = schedule.groups[g];
        if (schedule.boundary == StepBoundary::None) continue;  // replicas, above
        if (std::find(ranks.begin(), ranks.end(), layout.pipeline_rank) == ranks.end()) continue;
        make(groups.across[g], "tied embeddings", layout.across(ranks, false));
    }
    if (!errors.empty()) return errors;
    if (Status opened = groups.pipeline->open_routes(routes_of(schedule)); !opened) return opened.errors();
    return groups;
}

}  // namespace tw

#include "real_exec/runtime/groups.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
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

// By Schedule::groups: whether an instruction sums over it. The norm of a step, whose ranks are a group of
// the schedule too, is the world's (Groups::norm).
std::vector<char> summed_groups(const Schedule& schedule) {
    std::vector<char> summed(schedule.groups.size(), 0);
    for (const RankProgram& program : schedule.programs) {
        for (const Instruction& in : program.instructions) {
            if (in.opcode == Opcode::AllReduce) summed[in.group] = 1;
        }
    }
    return summed;
}

}  // namespace

Result<Groups> Groups::create(Transport& transport, const RankLayout& layout, const Schedule& schedule,
                              const Options& options) {
    Groups groups;
    Errors errors;
    const auto keep = [&](std::unique_ptr<Communicator>& into, Result<std::unique_ptr<Communicator>> made) {
        if (made) {
            into = std::move(*made);
        } else {
            errors.insert(errors.end(), made.errors().begin(), made.errors().end());
        }
    };
    const auto make = [&](std::unique_ptr<Communicator>& into, const std::string& name,
                          const std::vector<int>& ranks) { keep(into, transport.create(name, ranks)); };
    std::vector<int> everyone(static_cast<std::size_t>(layout.world));
    std::iota(everyone.begin(), everyone.end(), 0);
    make(groups.world, "world", everyone);
    if (options.replica_norms && layout.replica.size() < everyone.size())
        make(groups.replica_norm, "norm", layout.replica);
    make(groups.tp, "tp", layout.tp);
    make(groups.ep, "ep", layout.ep);
    const auto replicas = [&](std::unique_ptr<Communicator>& into, Cut& cut, const std::string& name,
                              const std::vector<int>& group) {
        const int of = std::min(options.shard, static_cast<int>(group.size()));
        if (options.shard == 0 || of == static_cast<int>(group.size())) {
            make(into, name, group);
            return;
        }
        keep(into, transport.create_for_messages(name, group, {}));  // the parts exchange what there is
        make(cut.shard, name + " shards", layout.part_of(group, of));
        make(cut.copies, name + " shards", layout.copies_in(group, of));
    };
    const bool experts = options.experts && layout.edp != layout.dp;
    replicas(groups.dp, groups.dp_cut, "dp", layout.dp);
    if (experts) replicas(groups.edp, groups.edp_cut, "edp", layout.edp);
    if (options.layer_by_layer) {
        replicas(groups.layer_dp, groups.layer_dp_cut, "dp layer by layer", layout.dp);
        if (experts) replicas(groups.layer_edp, groups.layer_edp_cut, "edp layer by layer", layout.edp);
    }
    groups.stage_dp.resize(static_cast<std::size_t>(schedule.stages));
    for (std::size_t s = 0; s < groups.stage_dp.size(); ++s) {
        if (schedule.replicas_of_stage[s] == 1) continue;
        std::vector<std::uint16_t> ranks(schedule.replicas_of_stage[s]);
        std::iota(ranks.begin(), ranks.end(), schedule.rank_of_stage[s]);
        if (std::find(ranks.begin(), ranks.end(), layout.pipeline_rank) == ranks.end()) continue;
        make(groups.stage_dp[s], "stage replicas", layout.across(ranks, true));
    }
    groups.across.resize(schedule.groups.size());
    const std::vector<char> summed = summed_groups(schedule);
    for (std::size_t g = 1; g < schedule.groups.size(); ++g) {
        const std::vector<std::uint16_t>& ranks = schedule.groups[g];
        if (schedule.boundary == StepBoundary::None) continue;  // replicas, above
        if (summed[g] == 0) continue;
        if (std::find(ranks.begin(), ranks.end(), layout.pipeline_rank) == ranks.end()) continue;
        make(groups.across[g], "tied embeddings", layout.across(ranks, false));
    }
    // Last: its members meet along the routes.
    if (errors.empty())
        keep(groups.pipeline, transport.create_for_messages("pp", layout.pipeline, routes_of(schedule)));
    if (!errors.empty()) return errors;
    return groups;
}

}  // namespace tw

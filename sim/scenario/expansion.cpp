#include "sim/scenario/expansion.hpp"

#include <map>
#include <numeric>

namespace tw {
namespace {

int lockstep_members(const ParallelPlan& plan) {
    const DeviceMesh& mesh = plan.mesh;
    if (plan.zero_stage == 3) return mesh.tp * mesh.cp * mesh.dp;
    return std::lcm(mesh.tp * mesh.cp, mesh.ep * mesh.etp);
}

std::string count(int n, const std::string& what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

}  // namespace

Expansion::Expansion(const ParallelPlan& plan, const RankPlacement& placement, int pipeline_ranks,
                     const std::vector<int>& condition, bool every_replica, bool split_members)
    : pipeline_ranks_(pipeline_ranks),
      replicas_(plan.mesh.tp * plan.mesh.cp * plan.mesh.dp),
      members_(lockstep_members(plan)),
      simulated_members_(split_members ? members_ : 1) {
    ranks_.resize(static_cast<std::size_t>(pipeline_ranks_ * replicas_));
    if (pipeline_ranks_ == plan.mesh.pp) {
        for (int g = 0; g < placement.world(); ++g) {
            const int replica = placement.coordinate(g, Axis::Tp) +
                                plan.mesh.tp * (placement.coordinate(g, Axis::Cp) +
                                                plan.mesh.cp * placement.coordinate(g, Axis::Dp));
            ranks_[static_cast<std::size_t>(placement.coordinate(g, Axis::Pp) * replicas_ + replica)] = g;
        }
    } else {  // PipeDream's replicated stages: more pipeline ranks than the mesh has, in rank order
        std::iota(ranks_.begin(), ranks_.end(), 0);
    }
    std::map<std::vector<int>, std::size_t>
        seen;  // conditions of a data replica's ranks: where it is in data_
    for (int d = 0; d < replicas_ / members_; ++d) {
        std::vector<int> conditions;
        for (int p = 0; p < pipeline_ranks_; ++p) {
            for (int k = 0; k < members_; ++k) {
                const int g = ranks_[static_cast<std::size_t>(p * replicas_ + d * members_ + k)];
                conditions.push_back(condition[static_cast<std::size_t>(g)]);
            }
        }
        if (every_replica) conditions.push_back(d);
        const auto [it, first] = seen.try_emplace(std::move(conditions), data_.size());
        if (first) {
            data_.push_back(d);
            alike_.push_back(0);
        }
        ++alike_[it->second];
    }
}

int Expansion::member_of(int program, int k) const {
    const int replica = program / pipeline_ranks_;
    const int d = data_[static_cast<std::size_t>(replica / simulated_members_)];
    const int member = (every_member() ? replica % simulated_members_ + k : k) % members_;
    return ranks_[static_cast<std::size_t>(program % pipeline_ranks_ * replicas_ + d * members_ + member)];
}

std::string Expansion::describe() const {
    std::string text =
        count(static_cast<int>(data_.size()), "data replica") + " of " + std::to_string(replicas_ / members_);
    for (std::size_t i = 0; i < data_.size(); ++i) {
        if (alike_[i] > 1)
            text += ", " + std::to_string(data_[i]) + " for " + std::to_string(alike_[i]) + " that are alike";
    }
    if (members_ == 1) return text;
    if (every_member()) return text + "; each rank by itself";
    return text + "; one program for the " + std::to_string(members_) +
           " ranks in lockstep at each pipeline rank";
}

}  // namespace tw

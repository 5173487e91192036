#include "sim/scenario/plan_flows.hpp"

#include <algorithm>

#include "sim/collectives/algorithm.hpp"
#include "sim/cost/shape_cost.hpp"

namespace tw {
namespace {

Error no_such(const std::string& what, int index, int count, const std::string& where) {
    return {ErrorCode::Usage,
            what + " " + std::to_string(index) + " is not there, " + where + " has " + std::to_string(count) +
                " (0 to " + std::to_string(count - 1) + ")",
            "scenario", ""};
}

// Links of every node's interfaces, in order.
std::vector<std::vector<Topology::Ends>> interfaces(const Cluster& cluster, const Topology& topology) {
    std::vector<std::vector<Topology::Ends>> nodes(static_cast<std::size_t>(cluster.nodes()));
    int rank = 0;
    std::size_t node = 0;
    for (const NodeGroup& group : cluster.groups) {
        for (int i = 0; i < group.nodes; ++i, ++node) {
            for (int d = 0; d < group.type.devices; ++d, ++rank) {
                const Topology::Ends nic = topology.nic(rank);
                std::vector<Topology::Ends>& known = nodes[node];
                if (nic.out >= 0 && (known.empty() || known.back().out != nic.out)) known.push_back(nic);
            }
        }
    }
    return nodes;
}

class FlowBuilder {
  public:
    FlowBuilder(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                const Schedule& schedule, const CompiledSchedule& compiled, const CostTable& table,
                const Topology& topology, const NicTable& nics, const Expansion& expansion)
        : cluster_(environment.cluster),
          costs_(costs),
          schedule_(schedule),
          compiled_(compiled),
          table_(table),
          topology_(topology),
          nics_(nics),
          expansion_(expansion),
          placement_(place_plan(cluster_, plan)),
          servers_(plan.gradient_sync.starts_with("ps-")),
          chunks_(backward_chunks(schedule)),
          flows_(compiled, shared_capacities()),
          members_on_(topology.capacities().size(), 0) {
        replicas_ = placement_.group({Axis::Dp, Axis::Cp});
    }

    FlowTable build() {
        const int first_replicas = compiled_.pipeline_ranks * expansion_.replication().tensor;
        for (int r = 0; r < compiled_.ranks; ++r) {
            const int p = r % compiled_.pipeline_ranks;
            for (int k = 0; k < compiled_.classes; ++k) {
                const DurationKey& key = schedule_.duration_classes[static_cast<std::size_t>(k)];
                const std::uint32_t slot = compiled_.slot_of(r, k);
                if (table_.duration[slot] <= 0) continue;
                if (is_send(key.opcode)) {
                    if (pipeline_rank(key.stage) == p) add_transfer(r, key, slot);
                } else if (key.group > 0) {
                    if (key.opcode == Opcode::AllReduce &&
                        schedule_.groups[key.group].front() == static_cast<std::uint16_t>(p))
                        add_tied(r, key, slot);
                } else if (r < first_replicas && pipeline_rank(key.stage) == p) {
                    add_gradients(r, key, slot);  // the first data replica's slot, which the shared node has
                }
            }
        }
        for (std::size_t link = 0; link < flows_.capacities().size(); ++link) {
            const int id = static_cast<int>(link);
            if (nics_.rate(id) < 1) flows_.set_capacity(id, flows_.capacities()[link] * nics_.rate(id));
        }
        return std::move(flows_);
    }

  private:
    [[nodiscard]] int pipeline_rank(int stage) const {
        return schedule_.rank_of_stage[static_cast<std::size_t>(stage)];
    }
    [[nodiscard]] bool connected(int from, int to) const {
        return cluster_.node_of(from) == cluster_.node_of(to) ||
               (topology_.nic(from).out >= 0 && topology_.nic(to).out >= 0);
    }
    [[nodiscard]] std::vector<int> route(int from, int to) const {
        std::vector<int> links = topology_.route(from, to);
        for (int& link : links)
            link = nics_.live(link);
        return links;
    }

    // Every link with the simulated ranks' share of it.
    [[nodiscard]] std::vector<double> shared_capacities() const {
        std::vector<double> capacities(topology_.capacities().begin(), topology_.capacities().end());
        std::vector<int> users(capacities.size(), 0), simulated(capacities.size(), 0);
        const int world = expansion_.world();
        std::vector<int> node(static_cast<std::size_t>(world));
        int rank = 0, index = 0;
        for (const NodeGroup& group : cluster_.groups) {
            for (int i = 0; i < group.nodes; ++i, ++index) {
                for (int d = 0; d < group.type.devices && rank < world; ++d)
                    node[static_cast<std::size_t>(rank++)] = index;
            }
        }
        // The ways out and in of a rank: halves of its routes to and from a rank as far away as can be.
        const auto count = [&](int from, std::vector<int>& counts) {
            const auto here = node[static_cast<std::size_t>(from)];
            const int far = node.back() != here ? world - 1 : node.front() != here ? 0 : -1;
            const Topology::Ends port = topology_.port(from);
            for (const int id : {port.out, port.in})
                if (id >= 0) ++counts[static_cast<std::size_t>(id)];
            if (far < 0 || !connected(from, far)) return;
            const std::vector<int> away = route(from, far), back = route(far, from);
            for (std::size_t i = 0; i < away.size() / 2; ++i)
                ++counts[static_cast<std::size_t>(away[i])];
            for (std::size_t i = back.size() / 2; i < back.size(); ++i)
                ++counts[static_cast<std::size_t>(back[i])];
        };
        for (int g = 0; g < world; ++g)
            count(g, users);
        for (int r = 0; r < compiled_.ranks; ++r)
            count(expansion_.rank_of(r), simulated);
        for (std::size_t i = 0; i < capacities.size(); ++i) {
            if (simulated[i] > 0) capacities[i] *= static_cast<double>(simulated[i]) / users[i];
        }
        return capacities;
    }

    void add_transfer(int program, const DurationKey& key, std::uint32_t slot) {
        const int peer = pipeline_rank(key.stage2);
        const int from = expansion_.rank_of(program);
        const int to = expansion_.rank_of(program - program % compiled_.pipeline_ranks + peer);
        if (from == to || !connected(from, to)) return;
        const StageCostSet& stage = costs_.stage(key.stage);
        const double bytes =
            key.opcode == Opcode::SendActivation ? stage.send_activation.bytes : stage.send_gradient.bytes;
        const SimTime d = table_.duration[slot];
        const SimTime latency = std::min(to_sim_time(Seconds(topology_.route_latency(from, to))), d / 2);
        flows_.add(slot, route(from, to), bytes / to_seconds(d - latency).value, latency);
    }

    // Interfaces or ports of these ranks; the most that one of them serves.
    int collect(const std::vector<int>& ranks, bool network, std::vector<int>& links) {
        int most = 1;
        for (const int g : ranks) {
            Topology::Ends ends = network ? topology_.nic(g) : topology_.port(g);
            if (ends.out < 0) continue;
            if (network) ends = {nics_.live(ends.out), nics_.live(ends.in)};
            for (const int id : {ends.out, ends.in}) {
                int& here = members_on_[static_cast<std::size_t>(id)];
                if (here++ == 0) links.push_back(id);
                most = std::max(most, here);
            }
        }
        for (const int id : links)
            members_on_[static_cast<std::size_t>(id)] = 0;
        return most;
    }

    void add_collective(std::uint32_t slot, const std::vector<int>& ranks, bool network,
                        double bytes_per_rank) {
        std::vector<int> links;
        const int most = collect(ranks, network, links);
        flows_.add(slot, links, bytes_per_rank * most / to_seconds(table_.duration[slot]).value, 0);
    }

    void add_gradients(int program, const DurationKey& key, std::uint32_t slot) {
        const StageCostSet& stage = costs_.stage(key.stage);
        const double parts = chunks_[key.stage];
        CollectiveKind kind = CollectiveKind::AllReduce;
        double bytes = stage.gradient_sync.bytes / parts;
        switch (key.opcode) {
            case Opcode::AllReduce:
                break;
            case Opcode::ReduceScatter:
                kind = CollectiveKind::ReduceScatter;
                break;
            case Opcode::AllGather:
            case Opcode::Broadcast:
                kind = CollectiveKind::AllGather;
                bytes = stage.parameter_gather.bytes;
                // The rest flows inside the forward, which is no flow.
                if (key.opcode == Opcode::AllGather && bytes > 0)
                    bytes *= costs_.waited_gather(key.stage) / stage.parameter_gather.seconds;
                break;
            default:
                return;
        }
        if (replicas_.size <= 1) return;
        std::vector<int> ranks;
        const int stride = compiled_.pipeline_ranks * expansion_.replication().tensor;
        for (int r = program; r < compiled_.ranks; r += stride)
            ranks.push_back(expansion_.rank_of(r));
        const bool network = replicas_.nodes > 1;
        if (servers_) {  // messages, each through its own rank's port
            add_collective(slot, ranks, network, bytes);
            return;
        }
        add_collective(slot, ranks, network,
                       bus_factor(kind, replicas_.size) * bytes / (network ? replicas_.per_node : 1));
    }

    void add_tied(int program, const DurationKey& key, std::uint32_t slot) {
        std::vector<int> ranks;
        for (const std::uint16_t p : schedule_.groups[key.group])
            ranks.push_back(expansion_.rank_of(program - program % compiled_.pipeline_ranks + p));
        const bool network = std::any_of(ranks.begin(), ranks.end(), [&](int g) {
            return cluster_.node_of(g) != cluster_.node_of(ranks.front());
        });
        // Of a tied table, or of the replicas of PipeDream's stage.
        const bool replicated = schedule_.replicas_of_stage[key.stage] > 1;
        const double bytes = replicated
                                 ? bus_factor(CollectiveKind::AllReduce, static_cast<int>(ranks.size())) *
                                       costs_.stage(key.stage).gradient_sync.bytes
                                 : costs_.tied_embeddings().bytes;
        add_collective(slot, ranks, network, bytes);
    }

    const Cluster& cluster_;
    const PlanCost& costs_;
    const Schedule& schedule_;
    const CompiledSchedule& compiled_;
    const CostTable& table_;
    const Topology& topology_;
    const NicTable& nics_;
    const Expansion& expansion_;
    RankPlacement placement_;
    bool servers_;
    GroupPlacement replicas_;
    std::vector<int> chunks_;
    FlowTable flows_;
    std::vector<int> members_on_;
};

}  // namespace

NicTable::NicTable(const Cluster& cluster, const Topology& topology, const Scenario& scenario, Errors& errors)
    : replacement_(topology.capacities().size()),
      rate_(replacement_.size(), 1),
      role_(static_cast<std::size_t>(topology.ranks()), 0),
      rate_of_rank_(role_.size(), 1),
      share_of_rank_(role_.size(), 1) {
    for (std::size_t link = 0; link < replacement_.size(); ++link)
        replacement_[link] = static_cast<int>(link);
    if (scenario.slow_nics.empty() && scenario.dead_nics.empty()) return;
    const auto nodes = interfaces(cluster, topology);
    const auto known = [&](int node, int nic) {
        if (node < 0 || static_cast<std::size_t>(node) >= nodes.size()) {
            errors.push_back(no_such("node", node, cluster.nodes(), "the cluster"));
            return false;
        }
        const int count = static_cast<int>(nodes[static_cast<std::size_t>(node)].size());
        if (nic >= count || (nic < 0 && count == 0)) {
            errors.push_back(
                no_such("network interface", std::max(nic, 0), count, "node " + std::to_string(node)));
            return false;
        }
        return true;
    };
    std::vector<std::vector<char>> dead(nodes.size());
    for (std::size_t n = 0; n < nodes.size(); ++n)
        dead[n].assign(nodes[n].size(), 0);
    for (const Scenario::DeadNic& d : scenario.dead_nics)
        if (known(d.node, d.nic)) dead[static_cast<std::size_t>(d.node)][static_cast<std::size_t>(d.nic)] = 1;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
        const std::size_t count = nodes[n].size();
        const bool none_left =
            std::count(dead[n].begin(), dead[n].end(), 1) == static_cast<std::ptrdiff_t>(count);
        if (count > 0 && none_left) {
            errors.push_back({ErrorCode::Infeasible,
                              "node " + std::to_string(n) + " has no network interface left", "scenario",
                              "a dead node is a smaller cluster"});
            continue;
        }
        for (std::size_t i = 0; i < count; ++i) {
            std::size_t live = i;
            while (dead[n][live] != 0)
                live = (live + 1) % count;
            replacement_[static_cast<std::size_t>(nodes[n][i].out)] = nodes[n][live].out;
            replacement_[static_cast<std::size_t>(nodes[n][i].in)] = nodes[n][live].in;
        }
    }
    for (const Scenario::SlowNic& slow : scenario.slow_nics) {
        if (!known(slow.node, slow.nic)) continue;
        const std::vector<Topology::Ends>& nics = nodes[static_cast<std::size_t>(slow.node)];
        for (std::size_t i = 0; i < nics.size(); ++i) {
            if (slow.nic >= 0 && static_cast<std::size_t>(slow.nic) != i) continue;
            rate_[static_cast<std::size_t>(nics[i].out)] *= slow.rate_factor;
            rate_[static_cast<std::size_t>(nics[i].in)] *= slow.rate_factor;
        }
    }
    std::vector<char> serves(replacement_.size(), 0);
    for (std::size_t link = 0; link < replacement_.size(); ++link) {
        if (live(static_cast<int>(link)) != static_cast<int>(link))
            serves[static_cast<std::size_t>(replacement_[link])] = 1;
    }
    for (int rank = 0; rank < topology.ranks(); ++rank) {
        const int nic = topology.nic(rank).out;
        if (nic < 0) continue;
        role_[static_cast<std::size_t>(rank)] = live(nic) != nic                             ? 1
                                                : serves[static_cast<std::size_t>(nic)] != 0 ? 2
                                                                                             : 0;
        rate_of_rank_[static_cast<std::size_t>(rank)] = rate(live(nic));
    }
    std::vector<int> own(replacement_.size(), 0), served(replacement_.size(), 0);  // ranks by link
    for (int rank = 0; rank < topology.ranks(); ++rank) {
        const int nic = topology.nic(rank).out;
        if (nic < 0) continue;
        ++own[static_cast<std::size_t>(nic)];
        ++served[static_cast<std::size_t>(live(nic))];
    }
    for (int rank = 0; rank < topology.ranks(); ++rank) {
        const int nic = topology.nic(rank).out;
        if (nic < 0) continue;
        share_of_rank_[static_cast<std::size_t>(rank)] = rate(live(nic)) *
                                                         own[static_cast<std::size_t>(nic)] /
                                                         served[static_cast<std::size_t>(live(nic))];
    }
}

FlowTable plan_flows(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                     const Schedule& schedule, const CompiledSchedule& compiled, const CostTable& table,
                     const Topology& topology, const NicTable& nics, const Expansion& expansion) {
    return FlowBuilder(environment, plan, costs, schedule, compiled, table, topology, nics, expansion)
        .build();
}

}  // namespace tw

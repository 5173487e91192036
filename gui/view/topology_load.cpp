#include "gui/view/topology_load.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <variant>

#include "models/formats/nccl_tests.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/sharded_layers.hpp"

namespace tw {
namespace {

using Groups = std::vector<std::vector<int>>;

// Bytes that the links of a node's devices, and its NICs, send in a step.
struct NodeTraffic {
    double link = 0, nic = 0;
};

// One collective, or what stands for all of its kind in a step: the size that nccl-tests prints.
struct Message {
    CollectiveKind kind = CollectiveKind::AllReduce;
    double bytes = 0;
};

// The messages of the axes of layers, of all layers together: weights of what a report sums.
struct LayerTraffic {
    std::map<Axis, std::map<CollectiveKind, double>> collectives;
    double dense_parameters = 0, expert_parameters = 0;  // of a rank
};

LayerTraffic traffic_of_layers(const LayerGraph& graph, const ParallelPlan& plan) {
    LayerTraffic traffic;
    std::vector<int> count(static_cast<std::size_t>(graph.layer_classes()), 0), first(count.size(), -1);
    for (int i = 0; i < graph.size(); ++i) {
        const auto c = static_cast<std::size_t>(graph.layer(i).layer_class);
        if (count[c]++ == 0) first[c] = i;
    }
    const WorkShape shape = plan.work_shape(graph);
    for (std::size_t c = 0; c < count.size(); ++c) {
        if (first[c] < 0) continue;
        const LayerWork work = graph.layer(first[c]).model->work(shape);
        traffic.dense_parameters += static_cast<double>(work.dense_parameters) * count[c];
        traffic.expert_parameters += static_cast<double>(work.expert_parameters) * count[c];
        for (const std::vector<Op>* ops : {&work.forward, &work.backward}) {
            for (const Op& op : *ops) {
                if (const auto* collective = std::get_if<CollectiveOp>(&op.body))
                    traffic.collectives[collective->axis][collective->kind] += collective->bytes * count[c];
            }
        }
    }
    return traffic;
}

class Loader {
  public:
    Loader(const LayerGraph& graph, const Cluster& cluster, const SimulationReport& report,
           const RankPlacement& placement)
        : cluster_(cluster),
          report_(report),
          placement_(placement),
          layers_(traffic_of_layers(graph, report.plan)),
          node_of_(static_cast<std::size_t>(placement.world())),
          sum_(static_cast<std::size_t>(cluster.nodes())) {
        for (int rank = 0; rank < placement.world(); ++rank)
            node_of_[static_cast<std::size_t>(rank)] = cluster.node_of(rank);
    }

    TopologyLoad run() {
        for (const CommunicationReport& c : report_.communication) {
            if (c.kind == "pp") {
                add_pipeline(c);
            } else if (c.kind == "dp") {
                add_gradients(c);
            } else {
                add_layers(c);
            }
        }
        for (std::size_t n = 0; n < sum_.size(); ++n)
            load_.nodes.push_back(share_of(n, sum_[n]));
        return std::move(load_);
    }

  private:
    [[nodiscard]] NodeLoad share_of(std::size_t node, const NodeTraffic& traffic) const {
        std::size_t before = 0;
        for (const NodeGroup& group : cluster_.groups) {
            before += static_cast<std::size_t>(group.nodes);
            if (node >= before) continue;
            const NodeType& type = group.type;
            const double link = type.link_bandwidth.value * type.devices * report_.step_time_s;
            const double nic = type.nics * type.nic_bandwidth.value * report_.step_time_s;
            return {link > 0 ? traffic.link / link : 0, nic > 0 ? traffic.nic / nic : 0};
        }
        return {};
    }

    // A row for a kind; false where its groups are single ranks.
    bool begin(std::string_view kind, const CommunicationReport& c, bool first = true) {
        groups_ = groups_of_kind(placement_, kind);
        if (groups_.empty() || groups_.front().size() < 2) return false;
        row_ = {};
        row_.kind = kind;
        row_.size = static_cast<int>(groups_.front().size());
        row_.groups = static_cast<int>(groups_.size());
        row_.exposed_s = first ? c.exposed_s : std::numeric_limits<double>::quiet_NaN();
        row_.algorithm = c.algorithm;
        for (const auto& ranks : groups_)
            row_.nodes = std::max(row_.nodes, static_cast<int>(by_node(ranks).size()));
        traffic_.assign(sum_.size(), {});
        return true;
    }

    void end() {
        for (std::size_t n = 0; n < sum_.size(); ++n) {
            const NodeLoad share = share_of(n, traffic_[n]);
            row_.busiest.link = std::max(row_.busiest.link, share.link);
            row_.busiest.nic = std::max(row_.busiest.nic, share.nic);
            sum_[n].link += traffic_[n].link;
            sum_[n].nic += traffic_[n].nic;
        }
        load_.groups.push_back(row_);
    }

    [[nodiscard]] std::map<int, int> by_node(const std::vector<int>& ranks) const {
        std::map<int, int> local;
        for (const int rank : ranks)
            ++local[node_of_[static_cast<std::size_t>(rank)]];
        return local;
    }

    void add(const Groups& groups, const Message& message) {
        if (groups.empty() || groups.front().size() < 2 || message.bytes <= 0) return;
        const double sent = message.bytes * bus_factor(message.kind, static_cast<int>(groups.front().size()));
        row_.bytes += sent;
        for (const auto& ranks : groups) {
            const auto n = static_cast<double>(ranks.size());
            const std::map<int, int> local = by_node(ranks);
            for (const auto& [node, here] : local) {
                NodeTraffic& at = traffic_[static_cast<std::size_t>(node)];
                const double l = here;
                if (message.kind == CollectiveKind::AllToAll) {
                    at.nic += l * sent * (n - l) / (n - 1);
                    at.link += l * sent * (l - 1) / (n - 1);
                } else {
                    const double leaving = local.size() > 1 ? 1 : 0;
                    at.nic += sent * leaving;
                    at.link += sent * (l - leaving);
                }
            }
        }
    }

    // Tensor, context and expert parallel: the report's bytes over the axes and collectives of the layers.
    void add_layers(const CommunicationReport& c) {
        struct Kind {
            std::string_view report;
            Axis axis;
            CollectiveKind usual;
        };
        constexpr std::array kKinds = {Kind{"tp", Axis::Tp, CollectiveKind::AllReduce},
                                       Kind{"cp", Axis::Cp, CollectiveKind::SendRecv},
                                       Kind{"ep", Axis::Ep, CollectiveKind::AllToAll},
                                       Kind{"ep", Axis::Etp, CollectiveKind::ReduceScatter}};
        double all = 0;
        for (const Kind& kind : kKinds) {
            if (kind.report != c.kind) continue;
            for (const auto& [collective, bytes] : layers_.collectives[kind.axis])
                all += bytes;
        }
        bool first = true;
        for (const Kind& kind : kKinds) {
            if (kind.report != c.kind || !begin(to_string(kind.axis), c, first)) continue;
            if (all > 0) {
                for (const auto& [collective, bytes] : layers_.collectives[kind.axis])
                    add(groups_, {collective, c.bytes * bytes / all});
            } else if (first) {
                add(groups_, {kind.usual, c.bytes});
            }
            if (row_.bytes <= 0) continue;
            end();
            first = false;
        }
    }

    // Dense parameters over dp and cp, experts' over edp; shards of a group exchange among themselves, then
    // their shards with the other groups.
    void add_gradients(const CommunicationReport& c) {
        const ParallelPlan& plan = report_.plan;
        const ShardRanks shards = zero_shard_ranks(plan);
        const bool dense = plan.mesh.dp * plan.mesh.cp > 1, experts = plan.mesh.expert_dp() > 1;
        const double of_dense = dense ? layers_.dense_parameters : 0;
        const double of_experts = experts ? layers_.expert_parameters : 0;
        const double all = of_dense + of_experts;
        if (all <= 0) return;
        if (of_dense > 0 && begin("dp", c)) {
            exchange(c.bytes * of_dense / all, shards.dense);
            end();
        }
        if (of_experts > 0 && begin("edp", c, of_dense <= 0)) {
            exchange(c.bytes * of_experts / all, shards.expert);
            end();
        }
    }

    void exchange(double bytes, int shard) {
        const bool sharded = report_.plan.zero_stage > 0;
        if (!sharded || shard <= 1 || shard >= row_.size || row_.size % shard != 0)
            return add(groups_, {sharded ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce, bytes});
        // Scattered and gathered within a shard group; reduced between them, a shard's part alone.
        Groups inner, outer;
        const auto runs = static_cast<std::size_t>(row_.size / shard);
        for (const auto& ranks : groups_) {
            for (std::size_t run = 0; run < runs; ++run)
                inner.emplace_back(ranks.begin() + static_cast<std::ptrdiff_t>(run) * shard,
                                   ranks.begin() + static_cast<std::ptrdiff_t>(run + 1) * shard);
            for (std::size_t at = 0; at < static_cast<std::size_t>(shard); ++at) {
                outer.emplace_back();
                for (std::size_t run = 0; run < runs; ++run)
                    outer.back().push_back(ranks[run * static_cast<std::size_t>(shard) + at]);
            }
        }
        const double between = 1.0 / (2 * shard + 1);
        add(inner, {CollectiveKind::ReduceScatter, bytes * (1 - between)});
        add(outer, {CollectiveKind::AllReduce, bytes * between});
    }

    // Activations to the next stage, their gradients to the one before.
    void add_pipeline(const CommunicationReport& c) {
        if (!begin("pp", c)) return;
        row_.bytes = c.bytes;
        const std::size_t p = groups_.front().size();
        // Interleaved stages go around; those of ZB-V and DualPipeV turn back at the last rank.
        const auto generator = find_schedule(report_.plan.schedule);
        const bool turns = generator && (*generator)->info().fixed_virtual_stages > 0;
        const bool around = report_.plan.virtual_stages > 1 && !turns;
        // The rank that sends most sends both ways, unless there are but two ends.
        const double each = p > 2 || around ? c.bytes / 2 : c.bytes;
        for (const auto& ranks : groups_) {
            for (std::size_t s = 0; s < p; ++s) {
                const auto send = [&](std::size_t to) {
                    const int from_node = node_of_[static_cast<std::size_t>(ranks[s])];
                    const bool inside = from_node == node_of_[static_cast<std::size_t>(ranks[to])];
                    NodeTraffic& at = traffic_[static_cast<std::size_t>(from_node)];
                    (inside ? at.link : at.nic) += each;
                };
                if (s + 1 < p || around) send((s + 1) % p);
                if (s > 0 || around) send((s + p - 1) % p);
            }
        }
        end();
    }

    const Cluster& cluster_;
    const SimulationReport& report_;
    const RankPlacement& placement_;
    LayerTraffic layers_;
    std::vector<int> node_of_;
    std::vector<NodeTraffic> sum_, traffic_;  // by node: of all rows; of the row at hand
    Groups groups_;                           // of the row at hand
    GroupLoad row_;
    TopologyLoad load_;
};

}  // namespace

AxisSet axes_of_kind(std::string_view kind) {
    if (kind == "tp") return {Axis::Tp};
    if (kind == "cp") return {Axis::Cp};
    if (kind == "ep") return {Axis::Ep};
    if (kind == "etp") return {Axis::Etp};
    if (kind == "edp") return {Axis::Edp};
    if (kind == "pp") return {Axis::Pp};
    return {Axis::Dp, Axis::Cp};
}

Result<RankPlacement> placement_of(const Cluster& cluster, const ParallelPlan& plan) {
    const auto order = parse_rank_order(plan.rank_order);
    if (!order) return order.errors();
    const DeviceMesh& m = plan.mesh;
    return RankPlacement::make(cluster, *order, {m.tp, m.cp, m.dp, m.pp, m.ep, m.etp});
}

std::vector<std::vector<int>> groups_of_kind(const RankPlacement& placement, std::string_view kind) {
    return placement.groups(axes_of_kind(kind));
}

std::vector<std::string> kinds_of(const ParallelPlan& plan) {
    const DeviceMesh& m = plan.mesh;
    const bool experts = m.ep > 1 || m.etp > 1;
    std::vector<std::string> kinds;
    const auto add = [&](const char* kind, int size) {
        if (size > 1) kinds.emplace_back(kind);
    };
    add("tp", m.tp);
    add("cp", m.cp);
    add("dp", m.dp * m.cp);
    add("pp", m.pp);
    add("ep", m.ep);
    add("etp", m.etp);
    add("edp", experts ? m.expert_dp() : 1);
    return kinds;
}

TopologyLoad topology_load(const LayerGraph& graph, const Cluster& cluster, const SimulationReport& report) {
    const auto placement = placement_of(cluster, report.plan);
    if (!placement || report.step_time_s <= 0) return {};
    return Loader(graph, cluster, report, *placement).run();
}

}  // namespace tw

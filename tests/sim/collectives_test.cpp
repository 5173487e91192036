#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "models/hardware/cluster.hpp"
#include "plan/collective_choice.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/links.hpp"
#include "sim/collectives/nccl_tuner.hpp"
#include "sim/collectives/registry.hpp"

namespace tw {
namespace {

constexpr CollectiveKind kKinds[] = {CollectiveKind::AllReduce,     CollectiveKind::AllGather,
                                     CollectiveKind::ReduceScatter, CollectiveKind::AllToAll,
                                     CollectiveKind::Broadcast,     CollectiveKind::Reduce,
                                     CollectiveKind::SendRecv};

NodeType h100_node() {
    NodeType type;
    type.name = "test-h100";
    type.device = "h100";
    type.devices = 8;
    type.link = IntraNodeLink::NvSwitch;
    type.link_bandwidth = BytesPerSecond(450e9);
    type.nics = 8;
    type.nic_bandwidth = BytesPerSecond(50e9);
    type.nvls = true;
    type.pcie_bandwidth = BytesPerSecond(55e9);
    return type;
}

NodeType a100_node() {
    NodeType type = h100_node();
    type.name = "test-a100";
    type.device = "a100";
    type.link_bandwidth = BytesPerSecond(300e9);
    type.nic_bandwidth = BytesPerSecond(25e9);
    type.nvls = false;
    return type;
}

NodeType host_node() {
    NodeType type;
    type.name = "test-host";
    type.device = "cpu";
    type.devices = 4;
    type.link = IntraNodeLink::SharedMemory;
    type.link_bandwidth = BytesPerSecond(8e9);
    type.link_latency_s = 1e-6;
    type.nics = 1;
    type.nic_bandwidth = BytesPerSecond(1.25e9);
    type.nic_latency_s = 30e-6;
    return type;
}

GroupPlacement placed(int size, int per_node, double nic_share = 1, int pods = 1) {
    const int nodes = (size + per_node - 1) / per_node;
    return {size, nodes, std::min(size, per_node), pods, nic_share};
}

const CollectiveAlgorithm& algorithm(std::string_view name) {
    return **find_collective_algorithm(name);
}

CollectiveCost forced(std::string_view name, std::string_view protocol, CollectiveKind kind, double bytes,
                      const GroupPlacement& at, const NodeType& node) {
    return collective_cost(kind, bytes, at, node, nullptr, *collective_options(name, protocol));
}

TEST(CollectiveRegistry, NamesAreUniqueAndFound) {
    std::set<std::string> names;
    for (const std::string& name : collective_algorithm_names()) {
        EXPECT_TRUE(names.insert(name).second);
        EXPECT_EQ(algorithm(name).name, name);
    }
    EXPECT_EQ(names.size(), 10U);
    const auto unknown = find_collective_algorithm("rign");
    ASSERT_FALSE(unknown);
    EXPECT_NE(unknown.error().hint.find("ring"), std::string::npos);
}

TEST(CollectiveRegistry, TableStatesTermsAndSources) {
    const auto rows = collective_table();
    ASSERT_EQ(rows.size(), collective_algorithms().size());
    for (const CollectiveRow& row : rows) {
        EXPECT_FALSE(row.kinds.empty());
        EXPECT_FALSE(row.latency_term.empty());
        EXPECT_FALSE(row.bandwidth_term.empty());
        EXPECT_FALSE(row.source.empty());
    }
    EXPECT_EQ(rows[1].name, "tree");
    EXPECT_EQ(rows[1].kinds, "all_reduce, broadcast, reduce");
}

// Conformance of every algorithm: bytes scale with the size, nothing leaves a node that there is only one of,
// and no rank can do with less than its lower bound (all-gather and reduce-scatter: (n-1)/n S must enter or
// leave each rank).
TEST(CollectiveAlgorithms, TrafficIsPlausible) {
    const Fabric everything{true, true};
    for (const CollectiveAlgorithm* a : collective_algorithms()) {
        for (const CollectiveKind kind : kKinds) {
            if (!a->kinds.contains(kind)) continue;
            for (const GroupPlacement& at :
                 {placed(2, 8), placed(8, 8), placed(16, 8), placed(4, 1), placed(64, 8)}) {
                if (!a->applies(at, everything)) continue;
                SCOPED_TRACE(std::string(a->name) + " " + std::string(to_string(kind)) + " " +
                             std::to_string(at.size));
                const CollectiveTraffic one = a->traffic(kind, 1e6, at);
                const CollectiveTraffic two = a->traffic(kind, 2e6, at);
                EXPECT_DOUBLE_EQ(two.rank_bytes, 2 * one.rank_bytes);
                EXPECT_DOUBLE_EQ(two.link_bytes, 2 * one.link_bytes);
                EXPECT_DOUBLE_EQ(two.node_bytes, 2 * one.node_bytes);
                EXPECT_DOUBLE_EQ(two.intra_steps + two.inter_steps, one.intra_steps + one.inter_steps);
                EXPECT_GT(one.rank_bytes, 0);
                EXPECT_GT(one.intra_steps + one.inter_steps, 0);
                EXPECT_EQ(one.node_bytes > 0, at.nodes > 1);
                if (at.per_node == 1) {
                    EXPECT_EQ(one.link_bytes, 0);
                }
            }
        }
    }
}

// Thakur et al. 2005, section 4.5: 2(n-1) steps and 2(n-1)/n S sent by each rank, exactly.
TEST(CollectiveAlgorithms, RingMovesTwoNMinusOneOverN) {
    for (const int n : {2, 3, 8, 16, 1000}) {
        const CollectiveTraffic t = algorithm("ring").traffic(CollectiveKind::AllReduce, 1e9, placed(n, 8));
        EXPECT_DOUBLE_EQ(t.rank_bytes, 2.0 * (n - 1) / n * 1e9);
        EXPECT_DOUBLE_EQ(t.link_bytes, t.rank_bytes);
        EXPECT_EQ(t.intra_steps + t.inter_steps, 2.0 * (n - 1));
        const CollectiveTraffic g = algorithm("ring").traffic(CollectiveKind::AllGather, 1e9, placed(n, 8));
        EXPECT_DOUBLE_EQ(g.rank_bytes, t.rank_bytes / 2);
    }
}

TEST(CollectiveAlgorithms, RingCrossesEachNodeOnce) {
    const CollectiveTraffic t = algorithm("ring").traffic(CollectiveKind::AllReduce, 1e9, placed(32, 8));
    EXPECT_EQ(t.inter_steps, 6);
    EXPECT_EQ(t.intra_steps, 56);
    EXPECT_DOUBLE_EQ(t.node_bytes, 2 * 31.0 / 32 * 1e9);
}

// Two nodes are each the root of one tree: half of what more nodes move.
TEST(CollectiveAlgorithms, TreeOnTwoNodesMovesTheSizeOnce) {
    EXPECT_DOUBLE_EQ(algorithm("tree").traffic(CollectiveKind::AllReduce, 1e9, placed(16, 8)).node_bytes,
                     1e9);
    EXPECT_DOUBLE_EQ(algorithm("tree").traffic(CollectiveKind::AllReduce, 1e9, placed(24, 8)).node_bytes,
                     2e9);
    EXPECT_EQ(algorithm("tree").traffic(CollectiveKind::AllReduce, 1e9, placed(128, 8)).inter_steps, 8);
}

TEST(CollectiveAlgorithms, NaiveRootIsTheBottleneck) {
    const CollectiveTraffic t =
        algorithm("reduce-broadcast").traffic(CollectiveKind::AllReduce, 1e6, placed(8, 8));
    EXPECT_DOUBLE_EQ(t.link_bytes, 14e6);
    EXPECT_DOUBLE_EQ(t.rank_bytes, 2 * 7.0 / 8 * 1e6);
}

TEST(CollectiveAlgorithms, AllToAllSendsEachPeerItsShare) {
    const CollectiveTraffic t = algorithm("pairwise").traffic(CollectiveKind::AllToAll, 64e6, placed(64, 8));
    EXPECT_DOUBLE_EQ(t.rank_bytes, 63e6);
    EXPECT_DOUBLE_EQ(t.link_bytes, 7e6);
    EXPECT_DOUBLE_EQ(t.node_bytes, 8 * 56e6);
}

TEST(CollectiveAlgorithms, BusFactorsAreNcclTests) {
    EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::AllReduce, 8), 1.75);
    EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::AllGather, 8), 0.875);
    EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::SendRecv, 2), 1);
    EXPECT_EQ(ceil_log2(1), 0);
    EXPECT_EQ(ceil_log2(5), 3);
}

// UC: H100 HGX "783 of 900 GB/s" counts both ways; per direction NCCL counts 18 links of 20.6 GB/s.
TEST(LinkRates, SharesOfTheDatasheet) {
    const LinkRates h100 = link_rates(h100_node(), placed(8, 8), 1, false);
    EXPECT_NEAR(h100.link, 370.8e9, 1e6);
    EXPECT_NEAR(link_rates(a100_node(), placed(8, 8), 1, false).link, 240e9, 1e6);
    EXPECT_NEAR(link_rates(a100_node(), placed(16, 8), 1, false).node, 8 * 24e9, 1);
    EXPECT_EQ(h100.generation, GpuGeneration::Hopper);
    NodeType unknown = h100_node();
    unknown.device = "x1";
    EXPECT_EQ(gpu_generation(unknown), GpuGeneration::Hopper);
}

TEST(LinkRates, NicsAreShared) {
    NodeType node = h100_node();
    EXPECT_DOUBLE_EQ(node_network_rate(node, placed(16, 8), 1), 400e9);
    EXPECT_DOUBLE_EQ(node_network_rate(node, placed(2, 1), 1), 50e9);  // its own NIC
    EXPECT_DOUBLE_EQ(node_network_rate(node, placed(2, 1, 8), 1),
                     50e9);  // all eight devices at once: still its own
    node.nics = 4;
    EXPECT_DOUBLE_EQ(node_network_rate(node, placed(2, 1), 1), 50e9);
    EXPECT_DOUBLE_EQ(node_network_rate(node, placed(2, 1, 8), 1), 25e9);  // two devices a NIC
    EXPECT_DOUBLE_EQ(node_network_rate(node, placed(4, 2, 4), 1), 50e9);
    EXPECT_DOUBLE_EQ(node_network_rate(node, placed(16, 8, 1, 2), 4), 50e9);  // oversubscribed between pods
    EXPECT_DOUBLE_EQ(node_network_rate(node, placed(16, 8, 1, 1), 4), 200e9);
}

TEST(LinkRates, BridgedPairsFallBackToPcieForMore) {
    NodeType node = a100_node();
    node.link = IntraNodeLink::NvLinkPairs;
    EXPECT_NEAR(link_rates(node, placed(2, 8), 1, false).link, 240e9, 1);
    EXPECT_DOUBLE_EQ(link_rates(node, placed(4, 8), 1, false).link, 55e9);
    EXPECT_FALSE(link_rates(node, placed(4, 8), 1, false).nvlink);
}

TEST(LinkRates, MeshPairsUseTheirOwnBundle) {
    NodeType node = a100_node();
    node.link = IntraNodeLink::NvLinkMesh;
    node.devices = 4;
    EXPECT_NEAR(link_rates(node, placed(2, 4), 1, false).link, 80e9, 1);
    EXPECT_NEAR(link_rates(node, placed(4, 4), 1, false).link, 240e9, 1);
}

TEST(NcclChoice, SmallIsLowLatencyLargeIsSimple) {
    const auto small = collective_cost(CollectiveKind::AllReduce, 1024, placed(8, 8), a100_node(), nullptr);
    EXPECT_EQ(small.protocol, "ll");
    const auto middle =
        collective_cost(CollectiveKind::AllReduce, 4 << 20, placed(8, 8), a100_node(), nullptr);
    EXPECT_EQ(middle.protocol, "ll128");
    const auto large =
        collective_cost(CollectiveKind::AllReduce, 1 << 30, placed(8, 8), a100_node(), nullptr);
    EXPECT_EQ(large.protocol, "simple");
    EXPECT_EQ(large.algorithm, "ring");
}

TEST(NcclChoice, NvlsOnHopperTreeNeverForGathers) {
    EXPECT_EQ(
        collective_cost(CollectiveKind::AllReduce, 1 << 30, placed(8, 8), h100_node(), nullptr).algorithm,
        "nvls");
    EXPECT_EQ(
        collective_cost(CollectiveKind::AllReduce, 1 << 30, placed(16, 8), h100_node(), nullptr).algorithm,
        "nvls-tree");
    for (double bytes = 64; bytes < 1e10; bytes *= 4) {
        for (const CollectiveKind kind : {CollectiveKind::AllGather, CollectiveKind::ReduceScatter}) {
            for (const GroupPlacement& at : {placed(8, 8), placed(64, 8), placed(16, 1)}) {
                const auto cost = collective_cost(kind, bytes, at, a100_node(), nullptr);
                EXPECT_NE(cost.algorithm, "tree");
                EXPECT_NE(cost.algorithm, "nvls-tree");
            }
        }
    }
}

TEST(NcclChoice, PatForManyNodesOfOneRank) {
    EXPECT_EQ(
        collective_cost(CollectiveKind::AllGather, 16 << 20, placed(64, 1), a100_node(), nullptr).algorithm,
        "pat");
    EXPECT_NE(
        collective_cost(CollectiveKind::AllGather, 16 << 20, placed(64, 8), a100_node(), nullptr).algorithm,
        "pat");
}

TEST(NcclChoice, CollNetOnlyWhereTheNetworkReduces) {
    CollectiveOptions options;
    const GroupPlacement at = placed(64, 8);
    EXPECT_NE(
        collective_cost(CollectiveKind::AllReduce, 1 << 28, at, a100_node(), nullptr, options).algorithm,
        "collnet");
    options.collnet = true;
    const auto with = collective_cost(CollectiveKind::AllReduce, 1 << 28, at, a100_node(), nullptr, options);
    EXPECT_EQ(with.algorithm, "collnet");
}

TEST(NcclChoice, TheLeastOfAllItsCombinations) {
    const NodeType node = h100_node();
    for (const GroupPlacement& at : {placed(8, 8), placed(32, 8)}) {
        const LinkRates rates = link_rates(node, at, 1, false);
        for (double bytes = 256; bytes < 4e9; bytes *= 3) {
            const NcclEstimate best = nccl_choice(CollectiveKind::AllReduce, bytes, at, node, rates);
            for (const CollectiveAlgorithm* a : collective_algorithms()) {
                if (!a->nccl_kinds.contains(CollectiveKind::AllReduce) || !a->applies(at, rates.fabric))
                    continue;
                for (const double seconds :
                     nccl_seconds(*a, CollectiveKind::AllReduce, bytes, at, node, rates))
                    EXPECT_LE(best.seconds, seconds);
            }
        }
    }
}

TEST(NcclChoice, ForcedByName) {
    const auto tree = forced("tree", "ll", CollectiveKind::AllReduce, 1e8, placed(16, 8), h100_node());
    EXPECT_EQ(tree.algorithm, "tree");
    EXPECT_EQ(tree.protocol, "ll");
    const auto hierarchical =
        forced("hierarchical", "simple", CollectiveKind::AllReduce, 1e8, placed(16, 8), h100_node());
    EXPECT_EQ(hierarchical.algorithm, "hierarchical");
    // As with NCCL_ALGO, a collective that the algorithm cannot do falls back to the choice.
    EXPECT_EQ(forced("tree", "", CollectiveKind::AllGather, 1e8, placed(16, 8), h100_node()).algorithm,
              "ring");
    EXPECT_EQ(collective_options("", "ll12").error().hint.find("did you mean 'll128'"), 0U);
    EXPECT_EQ(collective_options("rang", "fast").errors().size(), 2U);
}

TEST(CollectiveCost, NothingForOneRankOrNoBytes) {
    EXPECT_EQ(collective_cost(CollectiveKind::AllReduce, 1e9, placed(1, 8), h100_node(), nullptr).seconds, 0);
    EXPECT_EQ(collective_cost(CollectiveKind::AllReduce, 0, placed(8, 8), h100_node(), nullptr).seconds, 0);
}

TEST(CollectiveCost, BusBandwidthIsSizeOverTimeTimesFactor) {
    const auto cost = collective_cost(CollectiveKind::AllReduce, 1e9, placed(16, 8), a100_node(), nullptr);
    EXPECT_DOUBLE_EQ(cost.bus_bandwidth.value, 1e9 / cost.seconds * 2 * 15 / 16);
    EXPECT_GT(cost.relative_sigma, 0);
    EXPECT_FALSE(cost.out_of_range);
    EXPECT_TRUE(
        collective_cost(CollectiveKind::AllReduce, 1e12, placed(16, 8), a100_node(), nullptr).out_of_range);
}

// More bytes never cost less, and the bus bandwidth never exceeds the port or, in trees on two nodes, twice
// the network.
TEST(CollectiveCost, MonotoneInSizeAndBounded) {
    for (const NodeType& node : {h100_node(), a100_node(), host_node()}) {
        for (const CollectiveKind kind : kKinds) {
            for (const GroupPlacement& at :
                 {placed(2, node.devices), placed(4, node.devices), placed(32, node.devices)}) {
                double before = 0;
                for (double bytes = 64; bytes < 2e10; bytes *= 4) {
                    const auto cost = collective_cost(kind, bytes, at, node, nullptr);
                    // NCCL's correction of trees jumps at powers of two; a small step back is NCCL's own.
                    EXPECT_GE(cost.seconds, before * 0.98)
                        << node.name << " " << to_string(kind) << " " << bytes;
                    EXPECT_TRUE(std::isfinite(cost.seconds));
                    before = cost.seconds;
                }
            }
        }
    }
    const auto cost = collective_cost(CollectiveKind::AllGather, 16e9, placed(8, 8), a100_node(), nullptr);
    EXPECT_LT(cost.bus_bandwidth.value, 240e9);
    EXPECT_GT(cost.bus_bandwidth.value, 200e9);
}

TEST(CollectiveCost, SharedNicsAndOversubscriptionSlowLargeTransfers) {
    const NodeType node = a100_node();
    CollectiveOptions options;
    const auto alone = collective_cost(CollectiveKind::AllReduce, 1e9, placed(32, 8), node, nullptr);
    options.oversubscription = 4;
    const auto same_pod =
        collective_cost(CollectiveKind::AllReduce, 1e9, placed(32, 8), node, nullptr, options);
    const auto pods =
        collective_cost(CollectiveKind::AllReduce, 1e9, placed(32, 8, 1, 2), node, nullptr, options);
    EXPECT_DOUBLE_EQ(alone.seconds, same_pod.seconds);
    EXPECT_NEAR(pods.seconds / alone.seconds, 4, 0.5);
    NodeType few = node;
    few.nics = 4;
    const double full =
        collective_cost(CollectiveKind::SendRecv, 1e9, placed(2, 1, 8), node, nullptr).seconds;
    const double half = collective_cost(CollectiveKind::SendRecv, 1e9, placed(2, 1, 8), few, nullptr).seconds;
    EXPECT_NEAR(half / full, 2, 0.02);
}

// A ring of neighbours over two nodes: between them one pair sends, over one device's port, however many
// devices of the ring a node has; rings beside it have ports of their own.
TEST(CollectiveCost, NeighboursOfARingLeaveANodeOverOnePort) {
    const NodeType node = h100_node();
    const auto seconds = [&](const GroupPlacement& at) {
        return collective_cost(CollectiveKind::SendRecv, 1e9, at, node, nullptr).seconds;
    };
    const double pair = seconds(placed(2, 1));
    EXPECT_DOUBLE_EQ(seconds(placed(16, 8)), pair);
    EXPECT_DOUBLE_EQ(seconds(placed(8, 4, 2)), pair);
    EXPECT_NEAR(pair, 1e9 / (node.nic_bandwidth.value * nccl::kNetworkShare), 0.02 * pair);
}

// Hockney between hosts, by hand: 4 ranks on one host, ring all-reduce of 8 MB: 6 us and 1.5 * 8 MB at 8
// GB/s.
TEST(CollectiveCost, HostsByPlainAlphaBeta) {
    const auto ring = forced("ring", "", CollectiveKind::AllReduce, 8e6, placed(4, 4), host_node());
    EXPECT_DOUBLE_EQ(ring.seconds, 6e-6 + 1.5 * 8e6 / 8e9);
    EXPECT_EQ(ring.protocol, "");
    // Large messages: bandwidth-optimal; the hierarchical one wins over two hosts only through fewer network
    // hops.
    EXPECT_EQ(collective_cost(CollectiveKind::AllReduce, 1e9, placed(4, 4), host_node(), nullptr).algorithm,
              "ring");
    const auto small = collective_cost(CollectiveKind::AllReduce, 8, placed(64, 4), host_node(), nullptr);
    EXPECT_EQ(small.algorithm, "tree");
}

TEST(CollectiveCost, MeasuredCurveInsideANodeAndAsABoundAcross) {
    HardwareProfile profile;
    CollectiveEntry entry;
    entry.kind = CollectiveKind::AllReduce;
    entry.group_size = 8;
    entry.curve.lines = {{20e-6, 100e9}};
    entry.bytes = {1e3, 1e9};
    profile.collectives = {entry};
    const auto inside = collective_cost(CollectiveKind::AllReduce, 1e8, placed(8, 8), h100_node(), &profile);
    EXPECT_EQ(inside.algorithm, "measured");
    EXPECT_DOUBLE_EQ(inside.seconds, 20e-6 + 1e-3);
    EXPECT_TRUE(
        collective_cost(CollectiveKind::AllReduce, 1e10, placed(8, 8), h100_node(), &profile).out_of_range);
    // No curve for four: the model. Forced: the model.
    EXPECT_NE(collective_cost(CollectiveKind::AllReduce, 1e8, placed(4, 8), h100_node(), &profile).algorithm,
              "measured");
    EXPECT_EQ(collective_cost(CollectiveKind::AllReduce, 1e8, placed(8, 8), h100_node(), &profile,
                              *collective_options("ring", ""))
                  .algorithm,
              "ring");
    // Across nodes this slow node is the bottleneck.
    const auto across = collective_cost(CollectiveKind::AllReduce, 1e8, placed(16, 8), h100_node(), &profile);
    // The algorithm is still the one that NCCL would choose, and to force it makes it no faster.
    const auto model = collective_cost(CollectiveKind::AllReduce, 1e8, placed(16, 8), h100_node(), nullptr);
    EXPECT_LT(model.seconds, across.seconds);
    EXPECT_EQ(across.algorithm, model.algorithm);
    EXPECT_EQ(across.protocol, model.protocol);
    EXPECT_GE(across.seconds, (20e-6 + 1e-3) * (15.0 / 16) / (7.0 / 8));
    EXPECT_DOUBLE_EQ(collective_cost(CollectiveKind::AllReduce, 1e8, placed(16, 8), h100_node(), &profile,
                                     *collective_options(model.algorithm, model.protocol))
                         .seconds,
                     across.seconds);
    // Of a gather each rank copies its own share too, an eighth inside the node, a sixteenth of two: as two
    // nodes of H200 reach 329 GB/s of bus bandwidth (gke a3-ultra, nccl-tests) where one reaches 316.
    profile.collectives.front().kind = CollectiveKind::AllGather;
    const auto gather = collective_cost(CollectiveKind::AllGather, 1e8, placed(16, 8), h100_node(), &profile);
    EXPECT_NEAR(gather.seconds, (20e-6 + 1e-3) * (15.0 / 16 * (1 + 0.95 / 16)) / (7.0 / 8 * (1 + 0.95 / 8)),
                20e-6);
    profile.collectives.front().kind = CollectiveKind::AllReduce;
    // With a network that is slower still, the network decides.
    NodeType slow = h100_node();
    slow.nic_bandwidth = BytesPerSecond(1e9);
    EXPECT_DOUBLE_EQ(collective_cost(CollectiveKind::AllReduce, 1e8, placed(16, 8), slow, &profile).seconds,
                     collective_cost(CollectiveKind::AllReduce, 1e8, placed(16, 8), slow, nullptr).seconds);
}

// plan/collective_choice.hpp cannot ask the registry.
TEST(CollectiveChoice, NamesAreTheRegistrys) {
    const std::vector<std::string> names = collective_algorithm_names();
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()),
              std::set<std::string>(kCollectiveAlgorithmNames.begin(), kCollectiveAlgorithmNames.end()));
    for (const std::string_view protocol : kCollectiveProtocolNames)
        EXPECT_TRUE(collective_options("", protocol)) << protocol;
    const AxisCollectives forced({{"ep", "ring/simple"}, {"dp", "/ll128"}, {"tp", "tree"}});
    for (const Axis axis : {Axis::Ep, Axis::Etp}) {
        EXPECT_EQ(forced.of(axis).algorithm->name, "ring");
        EXPECT_EQ(forced.of(axis).protocol, Protocol::Simple);
    }
    for (const Axis axis : {Axis::Dp, Axis::Edp}) {
        EXPECT_EQ(forced.of(axis).algorithm, nullptr);
        EXPECT_EQ(forced.of(axis).protocol, Protocol::Ll128);
    }
    EXPECT_EQ(forced.of(Axis::Tp).algorithm->name, "tree");
    EXPECT_EQ(forced.of(Axis::Pp).algorithm, nullptr);
}

}  // namespace
}  // namespace tw

#include <algorithm>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "sim/network/fair_share.hpp"
#include "sim/network/topology.hpp"

namespace tw {
namespace {

constexpr double kFree = std::numeric_limits<double>::infinity();

int add(FairShare& share, std::vector<int> links, double demand = kFree) {
    return share.add(links, demand);
}

// Bertsekas and Gallager 1992, section 6.5.2: a line of links of capacity 1, one flow over all and one on
// each; the long one gets no more than the most crowded link leaves it.
TEST(FairShare, LineOfLinks) {
    FairShare share({1, 1, 2});
    const int through = add(share, {0, 1, 2});
    const int first = add(share, {0});
    const int second = add(share, {1});
    const int second_too = add(share, {1});
    const int third = add(share, {2});
    EXPECT_DOUBLE_EQ(share.rate(through), 1.0 / 3);
    EXPECT_DOUBLE_EQ(share.rate(second), 1.0 / 3);
    EXPECT_DOUBLE_EQ(share.rate(second_too), 1.0 / 3);
    EXPECT_DOUBLE_EQ(share.rate(first), 2.0 / 3);
    EXPECT_DOUBLE_EQ(share.rate(third), 5.0 / 3);
}

// Demands 2, 2.6, 4 and 5 on a link of 10: 2, 2.6, 2.7, 2.7 (the usual textbook example).
TEST(FairShare, DemandsOnOneLink) {
    FairShare share({10});
    const int a = add(share, {0}, 2);
    const int b = add(share, {0}, 2.6);
    const int c = add(share, {0}, 4);
    const int d = add(share, {0}, 5);
    EXPECT_DOUBLE_EQ(share.rate(a), 2);
    EXPECT_DOUBLE_EQ(share.rate(b), 2.6);
    EXPECT_DOUBLE_EQ(share.rate(c), 2.7);
    EXPECT_DOUBLE_EQ(share.rate(d), 2.7);
    EXPECT_DOUBLE_EQ(share.load(0), 10);
}

TEST(FairShare, WithoutLinksTheDemandIsTheRate) {
    FairShare share({1});
    EXPECT_DOUBLE_EQ(share.rate(add(share, {}, 7)), 7);
}

TEST(FairShare, RemovingAFlowReturnsItsRate) {
    FairShare share({8});
    const int a = add(share, {0});
    const int b = add(share, {0});
    EXPECT_DOUBLE_EQ(share.rate(a), 4);
    share.remove(b);
    EXPECT_DOUBLE_EQ(share.rate(a), 8);
    EXPECT_EQ(add(share, {0}), b);  // its id is used again
    EXPECT_DOUBLE_EQ(share.rate(b), 4);
}

TEST(FairShare, AFlowThatHasNotStartedLoadsNothing) {
    FairShare share({8});
    const int a = add(share, {0});
    const int later = share.make(std::vector<int>{0}, kFree);
    EXPECT_DOUBLE_EQ(share.rate(a), 8);
    EXPECT_EQ(share.flows(), 1);
    share.start(later);
    EXPECT_DOUBLE_EQ(share.rate(a), 4);
    EXPECT_DOUBLE_EQ(share.rate(later), 4);
    EXPECT_DOUBLE_EQ(share.load(0), 8);
    const int waiting = share.make(std::vector<int>{0}, kFree);
    EXPECT_NE(add(share, {0}), waiting);  // its id is its own
}

TEST(FairShare, AFlowMayCrossManyLinks) {
    FairShare share({6, 6, 6, 6, 2, 6, 6, 6, 6, 6, 6, 6});
    const int across = add(share, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    const int first = add(share, {0});
    EXPECT_DOUBLE_EQ(share.rate(across), 2);
    EXPECT_DOUBLE_EQ(share.rate(first), 4);
    share.remove(across);
    EXPECT_DOUBLE_EQ(share.rate(first), 6);
    const int narrow = add(share, {4, 5});  // under the id of the one across
    EXPECT_EQ(narrow, across);
    EXPECT_DOUBLE_EQ(share.rate(narrow), 2);
    EXPECT_DOUBLE_EQ(share.load(3), 0);
}

TEST(FairShare, NamesTheFlowsWhoseRatesChange) {
    FairShare share({1, 1, 1});
    const auto changed = [&] {
        share.solve();
        std::vector<int> flows(share.changed().begin(), share.changed().end());
        std::sort(flows.begin(), flows.end());
        return flows;
    };
    const int a = add(share, {0, 1});
    const int b = add(share, {1});
    const int apart = add(share, {2});
    EXPECT_EQ(changed(), (std::vector<int>{a, b, apart}));
    const int c = add(share, {0});
    EXPECT_EQ(changed(), std::vector<int>{c});  // half a link each, as before
    const int d = add(share, {0});
    EXPECT_EQ(changed(), (std::vector<int>{a, b, c, d}));
    EXPECT_DOUBLE_EQ(share.rate(apart), 1);
    EXPECT_EQ(changed(), std::vector<int>{});
    share.remove(add(share, {0}));  // gone before it was solved
    EXPECT_EQ(changed(), std::vector<int>{});
    share.remove(d);
    EXPECT_EQ(changed(), (std::vector<int>{a, b, c}));
}

// On random instances: no link above its capacity, no flow above its demand, and every flow is stopped by its
// demand or by a full link on which no other flow is faster. The incremental result is that of solving all at
// once.
TEST(FairShare, MaxMinPropertyOnRandomInstances) {
    Prng prng(7);
    for (int instance = 0; instance < 40; ++instance) {
        const int links = 2 + static_cast<int>(prng.integer(0, 11));
        std::vector<double> capacities;
        for (int l = 0; l < links; ++l)
            capacities.push_back(1 + prng.uniform() * 9);
        FairShare share(capacities);
        struct Added {
            int id;
            std::vector<int> links;
            double demand;
        };
        std::vector<Added> flows;
        for (int step = 0; step < 60; ++step) {
            if (!flows.empty() && prng.uniform() < 0.3) {
                const auto victim =
                    static_cast<std::size_t>(prng.integer(0, static_cast<std::int64_t>(flows.size()) - 1));
                share.remove(flows[victim].id);
                flows.erase(flows.begin() + static_cast<std::ptrdiff_t>(victim));
                continue;
            }
            std::vector<int> way;
            for (int l = 0; l < links; ++l)
                if (prng.uniform() < 0.3) way.push_back(l);
            if (way.empty()) way.push_back(0);
            const double demand = prng.uniform() < 0.3 ? prng.uniform() * 3 : kFree;
            flows.push_back({share.add(way, demand), way, demand});
            if (step % 5 == 0) share.solve();
        }
        FairShare afresh(capacities);
        std::vector<int> ids;
        for (const Added& flow : flows)
            ids.push_back(afresh.add(flow.links, flow.demand));
        for (int l = 0; l < links; ++l)
            EXPECT_LE(share.load(l), capacities[static_cast<std::size_t>(l)] * (1 + 1e-9));
        for (std::size_t f = 0; f < flows.size(); ++f) {
            const double rate = share.rate(flows[f].id);
            EXPECT_NEAR(rate, afresh.rate(ids[f]), 1e-9);
            EXPECT_GT(rate, 0);
            if (rate >= flows[f].demand * (1 - 1e-9)) {
                EXPECT_LE(rate, flows[f].demand);
                continue;
            }
            const bool stopped = std::any_of(flows[f].links.begin(), flows[f].links.end(), [&](int l) {
                if (share.load(l) < capacities[static_cast<std::size_t>(l)] * (1 - 1e-9)) return false;
                return std::all_of(flows.begin(), flows.end(), [&](const Added& other) {
                    const bool here =
                        std::find(other.links.begin(), other.links.end(), l) != other.links.end();
                    return !here || share.rate(other.id) <= rate * (1 + 1e-9);
                });
            });
            EXPECT_TRUE(stopped);
        }
    }
}

NodeType node_type(int nics) {
    NodeType type;
    type.name = "test";
    type.device = "h100";
    type.devices = 8;
    type.link = IntraNodeLink::NvSwitch;
    type.link_bandwidth = BytesPerSecond(450e9);
    type.link_latency_s = 1e-6;
    type.nics = nics;
    type.nic_bandwidth = BytesPerSecond(50e9);
    type.nic_latency_s = 4e-6;
    type.pcie_bandwidth = BytesPerSecond(64e9);
    return type;
}

Cluster cluster_of(int nodes, int nics, int nodes_per_pod = 0, double oversubscription = 1) {
    Cluster cluster;
    cluster.groups = {{node_type(nics), Device{}, nodes}};
    cluster.nodes_per_pod = nodes_per_pod;
    cluster.oversubscription = oversubscription;
    return cluster;
}

// Rate of each of eight flows from node 0's ranks to node 1's when all send at once.
double rate_between_nodes(const Topology& topology, int to_node) {
    FairShare share({topology.capacities().begin(), topology.capacities().end()});
    std::vector<int> flows;
    for (int r = 0; r < 8; ++r)
        flows.push_back(share.add(topology.route(r, 8 * to_node + r)));
    for (const int flow : flows)
        EXPECT_DOUBLE_EQ(share.rate(flow), share.rate(flows[0]));
    return share.rate(flows[0]);
}

TEST(Topology, FourNicsForEightDevicesHalveTheRate) {
    const double eight = rate_between_nodes(Topology(cluster_of(2, 8)), 1);
    const double four = rate_between_nodes(Topology(cluster_of(2, 4)), 1);
    EXPECT_DOUBLE_EQ(eight, 48e9);  // 12 of 12.5 GB/s, NCCL's topo.h
    EXPECT_DOUBLE_EQ(four, eight / 2);
}

TEST(Topology, OversubscriptionHalvesTheRateBetweenPods) {
    const Topology topology(cluster_of(4, 8, 2, 4));
    EXPECT_DOUBLE_EQ(rate_between_nodes(topology, 1), 48e9);  // same pod
    EXPECT_DOUBLE_EQ(rate_between_nodes(topology, 2),
                     48e9 * 2 / 4);  // two nodes' rate over 4, used by one node
}

TEST(Topology, RoutesAreSymmetricAndEndAtTheirRanks) {
    const Topology topology(cluster_of(4, 4, 2, 2));
    ASSERT_EQ(topology.ranks(), 32);
    EXPECT_TRUE(topology.route(3, 3).empty());
    EXPECT_EQ(topology.route(0, 5), (std::vector<int>{topology.port(0).out, topology.port(5).in}));
    EXPECT_EQ(topology.route(0, 8).size(), 6U);
    EXPECT_EQ(topology.route(0, 16).size(), 8U);
    EXPECT_EQ(topology.nic(0).out, topology.nic(1).out);  // shared
    EXPECT_NE(topology.nic(1).out, topology.nic(2).out);
    for (const int to : {1, 8, 17, 31}) {
        const std::vector<int> there = topology.route(0, to);
        const std::vector<int> back = topology.route(to, 0);
        ASSERT_EQ(there.size(), back.size());
        for (std::size_t i = 0; i < there.size(); ++i) {
            EXPECT_NE(there[i], back[back.size() - 1 - i]);  // every cable is two links
            EXPECT_DOUBLE_EQ(topology.capacities()[static_cast<std::size_t>(there[i])],
                             topology.capacities()[static_cast<std::size_t>(back[back.size() - 1 - i])]);
        }
    }
    EXPECT_DOUBLE_EQ(topology.route_latency(0, 1), 1e-6);
    EXPECT_DOUBLE_EQ(topology.route_latency(0, 8), 4e-6);
    EXPECT_EQ(topology.link_name(topology.port(9).out), "rank 9 -> node 1 fabric");
}

// Every route is a path of the graph.
TEST(Topology, RoutesFollowTheGraph) {
    const Topology topology(cluster_of(3, 8, 1, 2));
    const auto& graph = topology.graph();
    EXPECT_EQ(boost::num_edges(graph), topology.capacities().size());
    std::vector<std::pair<std::size_t, std::size_t>> ends(topology.capacities().size());
    for (const auto edge : boost::make_iterator_range(boost::edges(graph)))
        ends[static_cast<std::size_t>(graph[edge].id)] = {boost::source(edge, graph),
                                                          boost::target(edge, graph)};
    for (int from = 0; from < topology.ranks(); ++from) {
        for (int to = 0; to < topology.ranks(); ++to) {
            const std::vector<int> links = topology.route(from, to);
            if (links.empty()) continue;
            EXPECT_EQ(graph[ends[static_cast<std::size_t>(links.front())].first].index, from);
            EXPECT_EQ(graph[ends[static_cast<std::size_t>(links.back())].second].index, to);
            for (std::size_t i = 0; i + 1 < links.size(); ++i)
                EXPECT_EQ(ends[static_cast<std::size_t>(links[i])].second,
                          ends[static_cast<std::size_t>(links[i + 1])].first);
        }
    }
}

TEST(Topology, MoreNicsThanDevicesAddUp) {
    NodeType type = node_type(16);
    type.nic_bandwidth = BytesPerSecond(25e9);
    Cluster cluster;
    cluster.groups = {{type, Device{}, 2}};
    EXPECT_DOUBLE_EQ(rate_between_nodes(Topology(cluster), 1), 48e9);
}

}  // namespace
}  // namespace tw

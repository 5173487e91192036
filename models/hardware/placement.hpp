// Where the ranks of a mesh sit on a cluster: which communicator spans how many nodes and shares the NICs
// with how many others.
//
// Ranks are numbered in mixed radix by a rank order, innermost axis first. "tp-cp-ep-dp-pp" is Megatron's
// default (core/parallel_state.py, RankGenerator): rank = tp + TP (cp + CP (dp + DP pp)). Expert layers
// factor the same ranks anew without cp, tp becoming etp and dp becoming edp = tp cp dp / (etp ep): rank =
// etp + ETP (ep + EP (edp + EDP pp)). Both must agree on pp, which an order with pp inside of dp allows only
// where the axes inside of pp multiply to the same (Megatron asserts the same). Where ep = etp = 1, edp is
// the product of tp, cp and dp. Axes: Tp, Cp, Dp, Pp belong to the dense factoring, Etp, Ep, Edp to the
// expert one, Pp to both.
//
// Rank r lives on the cluster's r-th device. A mesh is regular on a cluster where all nodes have N devices
// and N cuts one digit of the mixed radix evenly; all groups of an axis are then alike and a placement is
// O(1), no allocation. Elsewhere the groups are enumerated and the worst of them is returned: O(world).
#pragma once

#include <array>
#include <vector>

#include "base/result.hpp"
#include "models/hardware/cluster.hpp"
#include "models/hardware/rank_order.hpp"

namespace tw {

class RankPlacement {
  public:
    // Refuses degrees below 1, a mesh larger than the cluster and ep * etp that does not divide tp * cp * dp.
    // Keeps a pointer to the cluster.
    static Result<RankPlacement> make(const Cluster& cluster, const RankOrder& order,
                                      const MeshDegrees& degrees);

    // The communicators of an axis or of a product of axes: {Axis::Dp, Axis::Cp} is the dense gradients'
    // group, {Axis::Edp} that of the experts. CHECKs that dense and expert axes are not mixed.
    [[nodiscard]] GroupPlacement group(AxisSet axes) const;
    // The group's ranks cut into runs of `shard` in rank order (HSDP, partial distributed optimizers): one
    // run, and the ranks of equal position in all runs. `shard` divides the group's size.
    [[nodiscard]] GroupPlacement shard_group(AxisSet axes, int shard) const;
    [[nodiscard]] GroupPlacement replica_group(AxisSet axes, int shard) const;
    // Transfers from pipeline stage `stage` to the next (the last one's next is the first) as a group of two:
    // nodes is 1 or 2, nic_share the number of such transfers that leave a node at once. One stage: a group
    // of one.
    [[nodiscard]] GroupPlacement pipeline_link(int stage) const;

    [[nodiscard]] int world() const { return world_; }
    [[nodiscard]] int extent(Axis axis) const;
    [[nodiscard]] int coordinate(int rank, Axis axis) const;

    // Every group as its ranks in ascending order, the groups by their first rank.
    [[nodiscard]] std::vector<std::vector<int>> groups(AxisSet axes) const;

  private:
    struct Digit {
        int stride = 1, extent = 1;
        Axis axis = Axis::Tp;
        bool member = false;
    };
    // Innermost first; one entry more than axes because a member may be cut in two.
    struct Digits {
        std::array<Digit, 6> items;
        int count = 0;
    };

    RankPlacement() = default;
    [[nodiscard]] const std::array<Digit, 4>& factoring_of(Axis axis) const;
    [[nodiscard]] int pipeline_stride() const;
    [[nodiscard]] Digits digits_of(AxisSet axes) const;
    [[nodiscard]] bool regular(const Digits& digits, GroupPlacement& placement) const;
    // Cuts the members after `shard` ranks and keeps one side as members; false where a digit cannot be cut
    // there.
    static bool cut(Digits& digits, int shard, bool keep_inner);
    [[nodiscard]] GroupPlacement placement_of(const Digits& digits) const;
    [[nodiscard]] GroupPlacement enumerated_link(int stage) const;
    // The ranks of rank 0's group and the first ranks of all groups, ascending.
    static void offsets_of(const Digits& digits, std::vector<int>& members, std::vector<int>& firsts);

    const Cluster* cluster_ = nullptr;
    std::array<Digit, 4> dense_;   // Tp, Cp, Dp, Pp in rank order
    std::array<Digit, 4> expert_;  // Etp, Ep, Edp, Pp in rank order; Edp three times where ep = etp = 1
    int world_ = 1;
    int node_devices_ = 0;  // 0: the cluster's nodes differ
};

// The worst of groups given by their ranks, by definition: pods and nodes are the most that one group spans,
// per_node the largest share of a group that spans so many nodes, nic_share the most groups of more than one
// node that meet on a node.
GroupPlacement placement_of_groups(const Cluster& cluster, const std::vector<std::vector<int>>& groups);

}  // namespace tw

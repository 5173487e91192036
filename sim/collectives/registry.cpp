#include "sim/collectives/registry.hpp"

#include <array>

#include "base/nearest.hpp"

namespace tw {

extern const CollectiveAlgorithm kRing, kTree, kNvls, kNvlsTree, kCollNet, kPat, kPairwise, kHierarchical,
    kReduceBroadcast, kPointToPoint;

namespace {

constexpr std::array<const CollectiveAlgorithm*, 10> kTable = {
    &kRing, &kTree,     &kNvls,         &kNvlsTree,        &kCollNet,
    &kPat,  &kPairwise, &kHierarchical, &kReduceBroadcast, &kPointToPoint,
};

constexpr std::array kAllKinds = {CollectiveKind::AllReduce,     CollectiveKind::AllGather,
                                  CollectiveKind::ReduceScatter, CollectiveKind::AllToAll,
                                  CollectiveKind::Broadcast,     CollectiveKind::Reduce,
                                  CollectiveKind::SendRecv};

}  // namespace

std::span<const CollectiveAlgorithm* const> collective_algorithms() {
    return kTable;
}

Result<const CollectiveAlgorithm*> find_collective_algorithm(std::string_view name) {
    for (const CollectiveAlgorithm* algorithm : kTable)
        if (algorithm->name == name) return algorithm;
    return Error{ErrorCode::Usage, "unknown collective algorithm '" + std::string(name) + "'", "",
                 unknown_name_hint(name, collective_algorithm_names())};
}

std::vector<std::string> collective_algorithm_names() {
    std::vector<std::string> names;
    for (const CollectiveAlgorithm* algorithm : kTable)
        names.emplace_back(algorithm->name);
    return names;
}

std::vector<CollectiveRow> collective_table() {
    std::vector<CollectiveRow> rows;
    for (const CollectiveAlgorithm* algorithm : kTable) {
        std::string kinds;
        for (CollectiveKind kind : kAllKinds) {
            if (!algorithm->kinds.contains(kind)) continue;
            if (!kinds.empty()) kinds += ", ";
            kinds += to_string(kind);
        }
        rows.push_back({std::string(algorithm->name), std::move(kinds), std::string(algorithm->latency_term),
                        std::string(algorithm->bandwidth_term), std::string(algorithm->source)});
    }
    return rows;
}

}  // namespace tw

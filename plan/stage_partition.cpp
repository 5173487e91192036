#include "plan/stage_partition.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tw {
namespace {

// Vertices that count as blocks, ascending: those with role Block, or all where there are none.
std::vector<int> block_vertices(const LayerGraph& graph) {
    std::vector<int> vertices;
    for (int i = 0; i < graph.size(); ++i) {
        if (graph.layer(i).role == LayerRole::Block) vertices.push_back(i);
    }
    if (vertices.empty()) {
        vertices.resize(static_cast<std::size_t>(graph.size()));
        std::iota(vertices.begin(), vertices.end(), 0);
    }
    return vertices;
}

// `counts` sums to the number of blocks. A stage begins at its first block; the first one at the first layer.
std::vector<StageSpec> stages_of_counts(const LayerGraph& graph, const std::vector<int>& vertices,
                                        std::span<const int> counts, RecomputeMode recompute) {
    // Where the k-th block begins; past the last block everything that follows it (final norm, head) begins.
    const auto begin_of = [&](std::size_t k) {
        if (k < vertices.size()) return vertices[k];
        return vertices.empty() ? 0 : vertices.back() + 1;
    };
    std::vector<StageSpec> stages(counts.size());
    std::size_t blocks = 0;
    for (std::size_t s = 0; s < counts.size(); ++s) {
        stages[s].first_layer = s == 0 ? 0 : stages[s - 1].last_layer;
        blocks += static_cast<std::size_t>(counts[s]);
        stages[s].last_layer = s + 1 == counts.size() ? graph.size() : begin_of(blocks);
        stages[s].recompute = recompute;
    }
    return stages;
}

std::vector<int> even_counts(int blocks, int stages) {
    std::vector<int> counts(static_cast<std::size_t>(stages), blocks / stages);
    const int remainder = blocks % stages;
    const int first = (stages - remainder) / 2;
    for (int s = first; s < first + remainder; ++s)
        ++counts[static_cast<std::size_t>(s)];
    return counts;
}

}  // namespace

std::vector<StageSpec> uniform_partition(const LayerGraph& graph, int stages, RecomputeMode recompute) {
    TW_CHECK(stages >= 1);
    const std::vector<int> vertices = block_vertices(graph);
    const std::vector<int> counts = even_counts(static_cast<int>(vertices.size()), stages);
    return stages_of_counts(graph, vertices, counts, recompute);
}

Result<std::vector<StageSpec>> explicit_partition(const LayerGraph& graph,
                                                  std::span<const int> blocks_per_stage,
                                                  RecomputeMode recompute) {
    const std::vector<int> vertices = block_vertices(graph);
    Errors errors;
    std::int64_t sum = 0;
    for (std::size_t s = 0; s < blocks_per_stage.size(); ++s) {
        sum += blocks_per_stage[s];
        if (blocks_per_stage[s] < 0) {
            errors.push_back({ErrorCode::Unreadable,
                              fmt::format("a stage cannot hold {} layers", blocks_per_stage[s]),
                              fmt::format("stage {}", s), ""});
        }
    }
    if (blocks_per_stage.empty())
        errors.push_back({ErrorCode::Unreadable, "a partition needs at least one stage", "stages", ""});
    if (errors.empty() && sum != static_cast<std::int64_t>(vertices.size())) {
        const int stages = static_cast<int>(blocks_per_stage.size());
        errors.push_back(
            {ErrorCode::Unreadable,
             fmt::format("the stages hold {} layers ({}), the model has {}", sum,
                         fmt::join(blocks_per_stage, ","), vertices.size()),
             "stages",
             fmt::format("a legal split is {}",
                         fmt::join(even_counts(static_cast<int>(vertices.size()), stages), ","))});
    }
    if (!errors.empty()) return errors;
    return stages_of_counts(graph, vertices, blocks_per_stage, recompute);
}

std::vector<int> torchtitan_split(int blocks, int stages, int first_weight, int last_weight) {
    TW_CHECK(blocks >= 0 && stages >= 1 && first_weight >= 0 && last_weight >= 0);
    const int effective = blocks + first_weight + last_weight;
    std::vector<int> counts(static_cast<std::size_t>(stages), effective / stages);
    for (int s = 0; s < effective % stages; ++s)
        ++counts[static_cast<std::size_t>(s)];
    counts.front() -= first_weight;
    counts.back() -= last_weight;
    if (*std::min_element(counts.begin(), counts.end()) < 1) return {};
    return counts;
}

std::string partition_text(const ParallelPlan& plan, std::string_view times) {
    const auto layers = [&](std::size_t i) { return plan.stages[i].last_layer - plan.stages[i].first_layer; };
    std::string text;
    for (std::size_t i = 0; i < plan.stages.size();) {
        std::size_t end = i;
        while (end < plan.stages.size() && layers(end) == layers(i))
            ++end;
        if (!text.empty()) text += ", ";
        text += end - i > 1 ? fmt::format("{}{}{}", layers(i), times, end - i) : std::to_string(layers(i));
        i = end;
    }
    return text;
}

std::vector<int> blocks_per_stage(const LayerGraph& graph, std::span<const StageSpec> stages) {
    const std::vector<int> vertices = block_vertices(graph);
    std::vector<int> counts;
    counts.reserve(stages.size());
    for (const StageSpec& stage : stages) {
        const auto first = std::lower_bound(vertices.begin(), vertices.end(), stage.first_layer);
        const auto last = std::lower_bound(vertices.begin(), vertices.end(), stage.last_layer);
        counts.push_back(static_cast<int>(std::max<std::ptrdiff_t>(0, last - first)));
    }
    return counts;
}

namespace {

std::vector<double> prefix_sums(std::span<const double> values) {
    std::vector<double> sums(values.size() + 1, 0.0);
    for (std::size_t i = 0; i < values.size(); ++i)
        sums[i + 1] = sums[i] + values[i];
    return sums;
}

// Without capacities, weights >= 0: parts as long as a bottleneck allows need the fewest, and fewer parts can
// always be cut further. So the least bottleneck is the first of a rising sequence under which they suffice;
// each candidate is the smallest value that lengthens some part of the one before.
std::vector<int> min_max_parts(const std::vector<double>& before, std::size_t stages) {
    const std::size_t n = before.size() - 1;
    // No partition beats its longest layer or the mean (less the roundings of a sum).
    double bottleneck = before[n] / static_cast<double>(stages) * (1 - 1e-12);
    for (std::size_t i = 0; i < n; ++i)
        bottleneck = std::max(bottleneck, before[i + 1] - before[i]);
    while (true) {
        double next = std::numeric_limits<double>::infinity();
        std::size_t end = 0;
        for (std::size_t s = 0; s < stages && end < n; ++s) {
            const std::size_t first = end;
            while (end < n && before[end + 1] - before[first] <= bottleneck)
                ++end;
            if (end < n) next = std::min(next, before[end + 1] - before[first]);
        }
        if (end == n) break;
        bottleneck = next;
    }
    // Fewest parts of layers [i, n) under the bottleneck.
    std::vector<std::size_t> parts(n + 1, 0);
    for (std::size_t i = n, end = n; i-- > 0;) {
        while (before[end] - before[i] > bottleneck)
            --end;
        parts[i] = parts[end] + 1;
    }
    std::vector<int> bounds{0};
    std::size_t end = 0;
    for (std::size_t left = stages; left-- > 0;) {  // the shortest part that leaves a partition of the rest
        ++end;
        while (parts[end] > left)
            ++end;
        bounds.push_back(static_cast<int>(end));
    }
    return bounds;
}

}  // namespace

namespace {

// Dynamic programming over cuts. cost(stage, first, end) is what layers [first, end) weigh on a stage,
// infinite where they must not stand there; `grows`: it never falls as `end` rises.
template <class Cost>
std::vector<int> min_max_cuts(int n, int stages, bool grows, const Cost& cost) {
    constexpr double kInfeasible = std::numeric_limits<double>::infinity();
    const auto at = [](const std::vector<double>& values, int i) {
        return values[static_cast<std::size_t>(i)];
    };
    // best[s][i]: the smallest bottleneck of layers [i, n) on stages [s, stages).
    std::vector<std::vector<double>> best(static_cast<std::size_t>(stages) + 1,
                                          std::vector<double>(static_cast<std::size_t>(n) + 1, kInfeasible));
    best.back().back() = 0;
    for (int s = stages - 1; s >= 0; --s) {
        const std::vector<double>& rest = best[static_cast<std::size_t>(s) + 1];
        for (int i = s; i <= n - (stages - s); ++i) {
            double& here = best[static_cast<std::size_t>(s)][static_cast<std::size_t>(i)];
            for (int end = i + 1; end <= n - (stages - s - 1); ++end) {
                const double own = cost(s, i, end);
                if (grows && own >= here) break;
                here = std::min(here, std::max(own, at(rest, end)));
            }
        }
    }
    const double bottleneck = best[0][0];
    if (bottleneck == kInfeasible) return {};

    std::vector<int> bounds{0};
    for (int s = 0; s < stages; ++s) {
        int end = bounds.back() + 1;
        while (std::max(cost(s, bounds.back(), end), at(best[static_cast<std::size_t>(s) + 1], end)) >
               bottleneck)
            ++end;
        bounds.push_back(end);
    }
    return bounds;
}

}  // namespace

std::vector<int> min_max_partition(std::span<const double> weights, int stages, std::span<const double> bytes,
                                   std::span<const double> capacity) {
    const int n = static_cast<int>(weights.size());
    TW_CHECK(stages >= 1);
    TW_CHECK_MSG(bytes.empty() || bytes.size() == weights.size(), "bytes: one entry a layer");
    TW_CHECK_MSG(capacity.empty() || capacity.size() == static_cast<std::size_t>(stages),
                 "capacity: one entry a stage");
    if (stages > n) return {};

    const std::vector<double> weight_before = prefix_sums(weights);
    const auto simple = [](double w) { return w >= 0; };
    if (capacity.empty() && std::all_of(weights.begin(), weights.end(), simple) &&
        weight_before.back() < std::numeric_limits<double>::infinity())
        return min_max_parts(weight_before, static_cast<std::size_t>(stages));
    const std::vector<double> bytes_before = prefix_sums(bytes);
    const auto between = [](const std::vector<double>& before, int first, int end) {
        return before[static_cast<std::size_t>(end)] - before[static_cast<std::size_t>(first)];
    };
    return min_max_cuts(n, stages, /*grows=*/false, [&](int stage, int first, int end) {
        if (!capacity.empty() &&
            between(bytes_before, first, end) > capacity[static_cast<std::size_t>(stage)])
            return std::numeric_limits<double>::infinity();
        return between(weight_before, first, end);
    });
}

std::vector<int> min_max_partition_by_stage(std::span<const std::vector<double>> weights_of_stage) {
    TW_CHECK(!weights_of_stage.empty());
    const std::size_t n = weights_of_stage.front().size();
    std::vector<std::vector<double>> before;
    for (const std::vector<double>& weights : weights_of_stage) {
        TW_CHECK_MSG(weights.size() == n, "every stage weighs every layer");
        before.push_back(prefix_sums(weights));
    }
    if (weights_of_stage.size() > n) return {};
    return min_max_cuts(static_cast<int>(n), static_cast<int>(before.size()), /*grows=*/true,
                        [&](int stage, int first, int end) {
                            const std::vector<double>& sums = before[static_cast<std::size_t>(stage)];
                            return sums[static_cast<std::size_t>(end)] -
                                   sums[static_cast<std::size_t>(first)];
                        });
}

}  // namespace tw

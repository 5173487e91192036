#include <algorithm>
#include <numeric>

#include "plan/stage_partition.hpp"
#include "planner/partitions/partition_strategy.hpp"

namespace tw {
namespace {

class RankLoads {
  public:
    RankLoads(std::span<const std::span<const double>> before, std::span<const std::uint16_t> rank_of_stage,
              std::vector<int> cuts)
        : before_(before), rank_of_stage_(rank_of_stage), cuts_(std::move(cuts)) {
        add_loads(loads_);
        half_layer_ = before.front().back() / static_cast<double>(2 * before.front().size());
        // The same number for each rank, from the last one on.
        const std::size_t each = stages() / loads_.size();
        outer_first_.resize(stages());
        std::vector<std::size_t> next(loads_.size());
        for (std::size_t s = stages(); s-- > 0;) {
            const std::size_t rank = rank_of_stage[s], k = next[rank]++;
            outer_first_[rank * each + (k == 0 ? 0 : k + 1 == each ? 1 : k + 1)] = s;
        }
    }

    [[nodiscard]] const std::vector<int>& cuts() const { return cuts_; }

    // Moves layers from the busiest rank while that levels the ranks. Of equally busy ones those from
    // `preferred` on are given layers first. Returns the first rank that was given any; as many as there are
    // ranks where none was.
    std::size_t level(std::size_t preferred) {
        std::size_t first_given = loads_.size();
        while (true) {
            const auto busiest =
                static_cast<std::size_t>(std::max_element(loads_.begin(), loads_.end()) - loads_.begin());
            const std::size_t from = longest_stage(busiest);
            if (from == stages()) return first_given;
            std::vector<char> tried(loads_.size());
            bool moved = false;
            while (!moved) {
                const std::size_t rank = least_busy(preferred, tried);
                if (rank == busiest) return first_given;
                const std::size_t to = shortest_stage(rank);
                if (loads_[rank] + entering(from, to) >= loads_[busiest]) return first_given;
                tried[rank] = 1;
                moved = try_move(from, to, /*must_level=*/true);
                if (moved) first_given = std::min(first_given, rank);
            }
        }
    }

    // A layer of each of the first so many ranks goes from the rank's first stage to its last.
    void relieve_first_stages(std::size_t ranks) {
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            const std::size_t last = own(rank)[0], first = own(rank)[1];
            if (cuts_[first + 1] - cuts_[first] > 1) try_move(first, last, /*must_level=*/false);
        }
    }

  private:
    [[nodiscard]] std::size_t stages() const { return rank_of_stage_.size(); }
    // A rank's last stage, its first, the others.
    [[nodiscard]] std::span<const std::size_t> own(std::size_t rank) const {
        const std::size_t each = stages() / loads_.size();
        return std::span(outer_first_).subspan(rank * each, each);
    }
    [[nodiscard]] double between(std::size_t stage, int first, int last) const {
        return before_[stage][static_cast<std::size_t>(last)] -
               before_[stage][static_cast<std::size_t>(first)];
    }
    [[nodiscard]] double time(std::size_t stage) const {
        return between(stage, cuts_[stage], cuts_[stage + 1]);
    }
    void add_loads(std::vector<double>& loads) const {
        for (std::size_t s = 0; s < stages(); ++s) {
            if (rank_of_stage_[s] >= loads.size()) loads.resize(rank_of_stage_[s] + std::size_t{1});
            loads[rank_of_stage_[s]] += time(s);
        }
    }

    // Times that differ by less than half a layer's mean are equal. Among equals a rank's last stage comes
    // first, then its first one: that others of their chunk are shorter or longer disturbs the steady phase
    // least. stages() where no stage can give a layer away.
    [[nodiscard]] std::size_t longest_stage(std::size_t rank) const {
        std::size_t longest = stages();
        for (const std::size_t s : own(rank)) {
            if (cuts_[s + 1] - cuts_[s] < 2) continue;
            if (longest == stages() || time(s) > time(longest) + half_layer_) longest = s;
        }
        return longest;
    }
    [[nodiscard]] std::size_t shortest_stage(std::size_t rank) const {
        std::size_t shortest = own(rank).front();
        for (const std::size_t s : own(rank)) {
            if (time(s) < time(shortest) - half_layer_) shortest = s;
        }
        return shortest;
    }
    // Of those that were not tried; among equals the first from `preferred` on.
    [[nodiscard]] std::size_t least_busy(std::size_t preferred, const std::vector<char>& tried) const {
        const std::size_t ranks = loads_.size();
        std::size_t least = ranks;
        for (std::size_t k = 0; k < ranks; ++k) {
            const std::size_t rank = (preferred + k) % ranks;
            if (tried[rank] == 0 && (least == ranks || loads_[rank] < loads_[least])) least = rank;
        }
        return least;
    }

    // What the stage `to` is given when `from` gives a layer away: stages between them pass on one each.
    [[nodiscard]] double entering(std::size_t from, std::size_t to) const {
        return from < to ? between(to, cuts_[to] - 1, cuts_[to])
                         : between(to, cuts_[to + 1], cuts_[to + 1] + 1);
    }
    void move(std::size_t from, std::size_t to) {
        for (std::size_t s = from + 1; s <= to; ++s)
            --cuts_[s];
        for (std::size_t s = to + 1; s <= from; ++s)
            ++cuts_[s];
    }
    // Unless the busiest rank became busier, or the ranks less level.
    bool try_move(std::size_t from, std::size_t to, bool must_level) {
        const auto squares = [](const std::vector<double>& loads) {
            return std::inner_product(loads.begin(), loads.end(), loads.begin(), 0.0);
        };
        move(from, to);
        after_.assign(loads_.size(), 0);
        add_loads(after_);
        const bool busier =
            *std::max_element(after_.begin(), after_.end()) > *std::max_element(loads_.begin(), loads_.end());
        // Differences below the roundings of sums are none.
        if (busier || (must_level && squares(after_) >= squares(loads_) * (1 - 1e-9))) {
            move(to, from);
            return false;
        }
        loads_.swap(after_);
        return true;
    }

    std::span<const std::span<const double>> before_;  // by stage
    std::span<const std::uint16_t> rank_of_stage_;
    std::vector<int> cuts_;
    std::vector<double> loads_;             // by rank
    std::vector<double> after_;             // of a move
    double half_layer_ = 0;                 // of a layer's mean time
    std::vector<std::size_t> outer_first_;  // stages, rank by rank
};

}  // namespace

std::vector<double> sums_before(std::span<const double> times) {
    std::vector<double> sums = {0};
    for (const double time : times)
        sums.push_back(sums.back() + time);
    return sums;
}

std::vector<std::vector<int>> level_rank_cuts(std::span<const std::span<const double>> before,
                                              std::span<const std::uint16_t> rank_of_stage,
                                              const std::vector<int>& uniform_cuts) {
    const std::size_t ranks = *std::max_element(rank_of_stage.begin(), rank_of_stage.end()) + std::size_t{1};
    if (ranks == rank_of_stage.size()) return {};  // one stage a rank: min-max levels them
    RankLoads level(before, rank_of_stage, uniform_cuts);
    RankLoads lean = level;
    if (level.level(0) == ranks) return {};
    const std::size_t half = (ranks - 1) / 2;
    lean.relieve_first_stages(std::min(half, lean.level(half)));
    return {level.cuts(), lean.cuts()};
}

std::vector<std::vector<StageSpec>> level_rank_partitions(const LayerGraph& graph, StageShapes shapes,
                                                          std::span<const std::uint16_t> rank_of_stage,
                                                          RecomputeMode recompute) {
    const auto stages = static_cast<int>(shapes.size());
    if (graph.size() < stages) return {};
    std::vector<std::vector<double>> sums;
    std::vector<std::span<const double>> before;
    sums.reserve(shapes.size());
    for (std::size_t s = 0; s < shapes.size(); ++s) {
        if (s == 0 || shapes[s] != shapes[s - 1])
            sums.push_back(sums_before(layer_times(graph, *shapes[s], recompute)));
        before.emplace_back(sums.back());
    }
    std::vector<std::vector<StageSpec>> result;
    const std::vector<int> uniform = cuts_of_stages(uniform_partition(graph, stages, recompute));
    for (const std::vector<int>& cuts : level_rank_cuts(before, rank_of_stage, uniform))
        result.push_back(stages_of_cuts(cuts, recompute));
    return result;
}

}  // namespace tw

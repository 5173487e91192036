// Which point to measure next: the candidate that a fit knows least about. In logarithms of the sizes, the
// points measured near a candidate disagree about the rate by some amount, and lie some distance away; the
// candidate with the largest sum is next. (Local disagreement plus distance: query by committee with a
// nearest-neighbour committee, Seung et al. 1992.)
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "models/hardware/profile_document.hpp"
#include "models/hardware/sample_statistics.hpp"

namespace tw {

template <std::size_t N>
class LeastCertain {
  public:
    using Sizes = std::array<std::int64_t, N>;

    explicit LeastCertain(std::vector<Sizes> candidates) : candidates_(std::move(candidates)) {}

    void add_measured(const Sizes& sizes, double seconds) {
        double work = 1;
        for (const std::int64_t size : sizes)
            work *= static_cast<double>(size);
        known_.push_back({logs(sizes), std::log(work / seconds)});
        std::erase(candidates_, sizes);
    }
    // The first N numbers of its shape.
    void add_measured(const SampleSeries& point) {
        if (point.shape.size() < N || point.values.empty()) return;
        Sizes sizes{};
        for (std::size_t i = 0; i < N; ++i)
            sizes[i] = static_cast<std::int64_t>(point.shape[i].second);
        add_measured(sizes, median_of(point.values));
    }

    [[nodiscard]] std::optional<Sizes> next() const {
        std::optional<Sizes> best;
        double most = -1;
        for (const Sizes& candidate : candidates_) {
            const double doubt = doubt_of(candidate);
            if (doubt > most) most = doubt, best = candidate;
        }
        return best;
    }

    // Octaves to the nearest known point times what an octave usually hides, plus how far the nearest few
    // differ.
    [[nodiscard]] double doubt_of(const Sizes& sizes) const {
        constexpr double kPerOctave = 0.05;
        constexpr std::size_t kNeighbours = N + 1;
        if (known_.empty()) return 1;
        const auto at = logs(sizes);
        std::vector<std::pair<double, double>> near;  // distance, rate
        for (const Known& k : known_) {
            double distance = 0;
            for (std::size_t i = 0; i < N; ++i)
                distance += std::abs(at[i] - k.at[i]);
            near.emplace_back(distance, k.rate);
        }
        std::sort(near.begin(), near.end());
        near.resize(std::min(near.size(), kNeighbours));
        double low = near.front().second, high = low;
        for (const auto& [distance, rate] : near)
            low = std::min(low, rate), high = std::max(high, rate);
        return kPerOctave * near.front().first + (high - low) * std::min(1.0, near.front().first);
    }

  private:
    struct Known {
        std::array<double, N> at;
        double rate;  // logarithm
    };
    static std::array<double, N> logs(const Sizes& sizes) {
        std::array<double, N> result{};
        for (std::size_t i = 0; i < N; ++i)
            result[i] = std::log2(static_cast<double>(std::max<std::int64_t>(1, sizes[i])));
        return result;
    }
    std::vector<Sizes> candidates_;
    std::vector<Known> known_;
};

}  // namespace tw

#include "profiler/bench/pace.hpp"

#include <algorithm>

namespace tw {

bool Pace::undisturbed() {
    if (!probe_) return true;
    latest_s_ = probe_();
    sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), latest_s_), latest_s_);
    return latest_s_ <= kTolerance * best_s();
}

double Pace::best_s() const {
    return sorted_.empty() ? 0 : sorted_[sorted_.size() / 20];
}

double Pace::latest() const {
    return sorted_.empty() ? 1 : latest_s_ / best_s();
}

double Pace::share_disturbed() const {
    if (sorted_.empty()) return 0;
    const auto slow = std::upper_bound(sorted_.begin(), sorted_.end(), kTolerance * best_s());
    return static_cast<double>(sorted_.end() - slow) / static_cast<double>(sorted_.size());
}

void Pace::settle(const Clock& clock, double seconds) {
    const double end = clock() + seconds;
    while (watches() && clock() < end)
        undisturbed();
}

Pace::Probe reference_product(Backend& backend, const Clock& clock) {
    if (!backend.host_memory()) return {};
    constexpr std::int64_t kSize = 64;
    constexpr std::size_t kMatrices = 3;
    const auto matrices = std::make_shared<Buffer>(
        backend.allocate(kMatrices * kSize * kSize * sizeof(float), MemoryUse::Temporaries));
    backend.fill({matrices->data(), DType::F32, Shape{kMatrices * kSize * kSize}}, 0.01);
    return [&backend, &clock, matrices] {
        auto* first = static_cast<float*>(matrices->data());
        const auto matrix = [&](std::int64_t i) {
            return MatrixView{first + i * kSize * kSize, DType::F32, kSize, kSize, kSize};
        };
        // Whatever ran before has taken the caches: the first products bring the operands back. Of the others
        // the shortest: what interrupts one is no pace.
        constexpr int kWarmUp = 4, kProducts = 6;
        double shortest = 1e9;
        for (int i = 0; i < kWarmUp + kProducts; ++i) {
            const double begin = clock();
            backend.gemm(matrix(0), false, matrix(1), false, matrix(2), false);
            if (i >= kWarmUp) shortest = std::min(shortest, clock() - begin);
        }
        return shortest;
    };
}

}  // namespace tw

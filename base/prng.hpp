// Counter-based random numbers: the value depends on (seed, stream, counter) alone, never on the order of
// calls, so results do not depend on threads. SplitMix64's finaliser (Steele, Lea, Flood 2014, "Fast
// splittable pseudorandom number generators", Fig. 13-16) applied to a Weyl sequence.
#pragma once

#include <cmath>
#include <cstdint>

namespace tw {

constexpr std::uint64_t mix64(std::uint64_t z) {
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
}

constexpr std::uint64_t counter_random(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
    return mix64(mix64(seed ^ mix64(stream + 0x9e3779b97f4a7c15ULL)) + (counter + 1) * 0x9e3779b97f4a7c15ULL);
}

// A sequential view of one stream.
class Prng {
  public:
    explicit constexpr Prng(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}
    constexpr std::uint64_t next() { return counter_random(seed_, stream_, counter_++); }
    // Uniform in [0, 1), 53 bits.
    constexpr double uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }
    // Uniform in [low, high], both included; high >= low. The bias of the modulo is below 2^-32 for ranges
    // below 2^32.
    constexpr std::int64_t integer(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(next() % (static_cast<std::uint64_t>(high - low) + 1));
    }
    // Standard normal (Box-Muller).
    double normal() {
        const double u = 1.0 - uniform();
        return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * uniform());
    }

  private:
    std::uint64_t seed_;
    std::uint64_t stream_;
    std::uint64_t counter_ = 0;
};

}  // namespace tw

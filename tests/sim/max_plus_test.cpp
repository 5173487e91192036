#include "sim/cost/max_plus.hpp"

#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace tw {
namespace {

MaxPlus random_matrix(Prng& random) {
    MaxPlus m;
    for (auto& row : m.at) {
        for (SimTime& x : row)
            x = random.integer(0, 2) == 0 ? kUnreachable : random.integer(0, 1'000'000);
    }
    return m;
}

// out[i] = max_j (in[j] + at[i][j]), by the definition.
MaxPlus::Row ready_after(const MaxPlus& m, const MaxPlus::Row& in) {
    MaxPlus::Row out;
    for (std::size_t i = 0; i < kCostStreams; ++i) {
        out[i] = kUnreachable;
        for (std::size_t j = 0; j < kCostStreams; ++j) {
            if (m.at[i][j] != kUnreachable) out[i] = std::max(out[i], in[j] + m.at[i][j]);
        }
    }
    return out;
}

TEST(MaxPlus, ACompositionIsOneAfterTheOther) {
    Prng random(4);
    for (int round = 0; round < 200; ++round) {
        const MaxPlus a = random_matrix(random), b = random_matrix(random);
        MaxPlus::Row in;
        for (SimTime& x : in)
            x = random.integer(0, 1'000'000);
        MaxPlus::Row there = ready_after(a, in);
        bool all = true;
        for (const SimTime x : there)
            all &= x != kUnreachable;
        if (all) {
            EXPECT_EQ(ready_after(compose(a, b), in), ready_after(b, there));
        }
        EXPECT_EQ(compose(a, MaxPlus::identity()), a);
        EXPECT_EQ(compose(MaxPlus::identity(), a), a);
        MaxPlus repeated = MaxPlus::identity();
        for (int n = 0; n <= 12; ++n) {
            EXPECT_EQ(power(a, n), repeated);
            repeated = compose(repeated, a);
        }
    }
}

}  // namespace
}  // namespace tw

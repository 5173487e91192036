// What a search takes for a lower bound of an order's memory: the order of fewer microbatches.
#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "plan/schedule/generator.hpp"
#include "sim/memory/ledger.hpp"
#include "tests/support/test_scale.hpp"

namespace tw {
namespace {

constexpr std::uint64_t kSeed = 20250817;

// Sizes of stages on devices other than processors.
std::vector<StageFootprint> random_stages(Prng& random, int stages) {
    std::vector<StageFootprint> result(static_cast<std::size_t>(stages));
    for (StageFootprint& f : result) {
        f.activations = static_cast<double>(random.integer(1, 100));
        f.held_for_weight = f.activations * static_cast<double>(random.integer(0, 4)) / 4;
        f.transient_forward = static_cast<double>(random.integer(0, 100));
        f.transient_backward = static_cast<double>(random.integer(0, 300));
        f.transient_backward_input = f.transient_backward_input_beside = f.transient_backward;
    }
    return result;
}

TEST(LeastMemory, AnOrderOfFewerMicrobatchesHoldsNoMoreAtOnce) {
    Prng random(kSeed);
    int compared = 0, equal = 0;
    for (int draw = 0; draw < scaled(3000); ++draw) {
        const auto generators = schedule_generators();
        const ScheduleGenerator& generator =
            *generators[static_cast<std::size_t>(random.integer(0, std::ssize(generators) - 1))];
        const GeneratorInfo info = generator.info();
        if (info.boundary == StepBoundary::None || info.uses_costs) continue;
        ScheduleShape shape;
        shape.ranks = static_cast<int>(random.integer(1, 8));
        shape.virtual_stages = info.virtual_stages ? static_cast<int>(random.integer(2, 5))
                                                   : std::max(1, info.fixed_virtual_stages);
        shape.microbatches = static_cast<int>(random.integer(2 * shape.ranks + 1, 8 * shape.ranks));
        ScheduleShape fewer = shape;
        fewer.microbatches = 2 * shape.ranks;
        if (!generator.check(shape).empty() || !generator.check(fewer).empty()) continue;
        const auto all = memory_profile(generator.generate(shape, nullptr));
        const auto some = memory_profile(generator.generate(fewer, nullptr));
        const int stages = shape.ranks * shape.virtual_stages;
        const std::vector<StageFootprint> sizes = random_stages(random, stages);
        const std::vector<double> weights(sizes.size(), 0);
        ASSERT_EQ(all.size(), some.size());
        for (std::size_t r = 0; r < all.size(); ++r) {
            const double held = dynamic_peak(all[r], sizes, weights).total();
            const double least = dynamic_peak(some[r], sizes, weights).total();
            EXPECT_LE(least, held * (1 + 1e-12))
                << info.name << " p" << shape.ranks << " v" << shape.virtual_stages << " m"
                << shape.microbatches << " rank " << r;
            equal += least >= held * (1 - 1e-12) ? 1 : 0;
            ++compared;
        }
    }
    EXPECT_GE(compared, 2000);
    // But for those that hold all microbatches it is what they hold.
    EXPECT_GE(equal, compared / 2);
}

}  // namespace
}  // namespace tw

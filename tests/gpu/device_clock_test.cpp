// Moments of the device under test, by the host's clock.
#include <chrono>
#include <vector>

#include "tests/gpu/twin.hpp"

namespace tw::testing {
namespace {

using std::chrono::steady_clock;

// What clocks may differ by: half a round trip through the device, and the resolution of its events.
constexpr std::chrono::microseconds kSlack(100);

class DeviceClock : public Twin {};
INSTANTIATE_TEST_SUITE_P(Types, DeviceClock, ::testing::Values(DType::F32));

TEST_P(DeviceClock, MomentsAreInOrder) {
    device->align_clocks();
    Both x = random(DType::F32, {1 << 16}), y = zeros(DType::F32, {1 << 16});
    for (int round = 0; round < 3; ++round) {
        const auto before = steady_clock::now();
        const auto start = device->moment();
        for (int i = 0; i < 20; ++i)
            device->axpby(1, x[1], 1, y[1]);
        const auto end = device->moment();
        device->mark();
        while (!device->reached_mark()) {
        }
        const auto after = steady_clock::now();
        ASSERT_TRUE(start->time() && end->time());  // whatever is ahead of a mark
        EXPECT_GE(*start->time(), before - kSlack);
        EXPECT_LE(*start->time(), *end->time());
        EXPECT_LE(*end->time(), after + kSlack);
        if (round == 1) device->align_clocks();  // moments before it keep theirs
        EXPECT_LE(*end->time(), after + kSlack);
    }
}

}  // namespace
}  // namespace tw::testing

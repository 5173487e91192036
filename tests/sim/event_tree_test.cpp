#include "sim/engine/event_tree.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace tw {
namespace {

// Against a list of all times, while it grows and while it is used again.
TEST(EventTree, GivesTheFirst) {
    EventTree tree;
    EXPECT_EQ(tree.time(), kNever);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Prng random(seed);
        std::vector<SimTime> expected;
        tree.clear();
        for (int i = 0; i < 3000; ++i) {
            const std::int64_t ids = 1 + i / (seed % 2 == 0 ? 300 : 10);
            const auto id = static_cast<std::size_t>(random.integer(0, ids));
            const SimTime time = random.uniform() < 0.4 ? kNever : random.integer(0, 200);
            expected.resize(std::max<std::size_t>(expected.size(), id + 1), kNever);
            expected[id] = time;
            tree.set(static_cast<int>(id), time);
            ASSERT_EQ(tree.time(), *std::min_element(expected.begin(), expected.end()));
            ASSERT_EQ(expected[static_cast<std::size_t>(tree.id())], tree.time());
        }
    }
}

}  // namespace
}  // namespace tw

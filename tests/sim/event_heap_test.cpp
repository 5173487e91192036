#include "sim/engine/event_heap.hpp"

#include <queue>

#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace tw {
namespace {

// Against std::priority_queue, with all mixes of pushes and pops.
TEST(EventHeap, GivesTheLeastFirst) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Prng random(seed);
        EventHeap<int> heap;
        std::priority_queue<int, std::vector<int>, std::greater<>> expected;
        const double growth = 0.3 + 0.02 * static_cast<double>(seed);
        for (int i = 0; i < 3000; ++i) {
            if (random.uniform() < growth || expected.empty()) {
                const int value = static_cast<int>(random.integer(0, 200));
                heap.push(value);
                expected.push(value);
            } else {
                heap.pop();
                expected.pop();
            }
            ASSERT_EQ(heap.empty(), expected.empty());
            if (expected.empty()) continue;
            ASSERT_EQ(heap.top(), expected.top());
            ASSERT_EQ(heap.top_key(), expected.top());
        }
        while (!expected.empty()) {
            ASSERT_EQ(heap.top(), expected.top());
            ASSERT_EQ(heap.take(), expected.top());
            expected.pop();
        }
        EXPECT_TRUE(heap.empty());
        heap.push(3);
        heap.clear();
        EXPECT_TRUE(heap.empty());
    }
}

}  // namespace
}  // namespace tw

// A frame's rows on several threads: each once, all done at the end.
#include "gui/widgets/in_parallel.hpp"

#include <atomic>
#include <vector>

#include <gtest/gtest.h>

namespace tw::gui {
namespace {

TEST(InParallel, EachIsDoneOnceBeforeItReturns) {
    for (const std::size_t count : {0U, 1U, 7U, 64U, 1000U}) {
        for (int round = 0; round < 50; ++round) {
            std::vector<int> times(count, 0);  // each written by one call alone
            std::atomic<std::size_t> calls{0};
            in_parallel(count, [&](std::size_t n) {
                ++times[n];
                ++calls;
            });
            ASSERT_EQ(calls, count);
            for (const int time : times)
                ASSERT_EQ(time, 1);
        }
    }
}

}  // namespace
}  // namespace tw::gui

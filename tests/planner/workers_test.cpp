#include "planner/workers.hpp"

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tw {
namespace {

TEST(Workers, RunEveryBodyOnce) {
    for (const int threads : {0, 1, 2, 5}) {
        Workers workers(threads);
        for (const std::size_t count : {0U, 1U, 2U, 1000U}) {
            std::vector<std::atomic<int>> runs(count);
            workers.for_each(count, [&](std::size_t i) { ++runs[i]; });
            for (std::size_t i = 0; i < count; ++i)
                ASSERT_EQ(runs[i], 1) << "body " << i << " of " << count << " on " << threads << " threads";
        }
    }
}

TEST(Workers, AreAtMostAsManyThreadsAsAsked) {
    Workers workers(2);
    std::mutex mutex;
    std::set<std::thread::id> threads;
    workers.for_each(500, [&](std::size_t) {
        std::this_thread::yield();
        const std::scoped_lock lock(mutex);
        threads.insert(std::this_thread::get_id());
    });
    EXPECT_LE(threads.size(), 2U);
}

}  // namespace
}  // namespace tw

#include "real_exec/backend/cuda/bounded_map.hpp"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace tw::cuda {
namespace {

TEST(BoundedMap, KeepsWhatWasUsedLast) {
    BoundedMap<int, std::unique_ptr<int>> map(3);
    std::vector<int> made;
    const auto use = [&](int key) {
        return *map.get(key, [&] {
            made.push_back(key);
            return std::make_unique<int>(10 * key);
        });
    };
    for (const int key : {1, 2, 3, 1})
        EXPECT_EQ(use(key), 10 * key);
    EXPECT_EQ(made, (std::vector<int>{1, 2, 3}));
    EXPECT_EQ(use(4), 40);  // in the place of 2
    EXPECT_EQ(map.size(), 3U);
    EXPECT_EQ(use(1), 10);
    EXPECT_EQ(use(3), 30);
    EXPECT_EQ(made, (std::vector<int>{1, 2, 3, 4}));
    EXPECT_EQ(use(2), 20);
    EXPECT_EQ(made, (std::vector<int>{1, 2, 3, 4, 2}));
    EXPECT_EQ(map.size(), 3U);
}

// Products whose rows change with every batch (experts that drop no token).
TEST(BoundedMap, StaysSmallWhateverComes) {
    BoundedMap<int, int> map(16);
    for (int key = 0; key < 1000; ++key)
        EXPECT_EQ(map.get(key, [&] { return key; }), key);
    EXPECT_EQ(map.size(), 16U);
}

}  // namespace
}  // namespace tw::cuda

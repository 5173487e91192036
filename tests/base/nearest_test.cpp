#include "base/nearest.hpp"

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace tw {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
    EXPECT_EQ(edit_distance("", ""), 0);
    EXPECT_EQ(edit_distance("", "abc"), 3);
    EXPECT_EQ(edit_distance("abc", ""), 3);
    EXPECT_EQ(edit_distance("zb-h1", "zb-h1"), 0);
    EXPECT_EQ(edit_distance("zb-h1", "zb-h2"), 1);
    EXPECT_EQ(edit_distance("gpiep", "gpipe"), 1);
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
    EXPECT_EQ(edit_distance("heasd", "heads"), 1);
    EXPECT_EQ(edit_distance("H100", "h100"), 0);
}

std::string random_word(Prng& prng) {
    std::string word;
    const auto length = prng.integer(0, 8);
    for (int i = 0; i < length; ++i)
        word += static_cast<char>('a' + prng.integer(0, 3));
    return word;
}

TEST(EditDistance, IsSymmetricAndBoundedByTheLongerWord) {
    Prng prng(5);
    for (int i = 0; i < 1000; ++i) {
        const std::string a = random_word(prng), b = random_word(prng);
        const int distance = edit_distance(a, b);
        EXPECT_EQ(distance, edit_distance(b, a)) << a << ' ' << b;
        EXPECT_EQ(distance == 0, a == b);
        EXPECT_LE(distance, static_cast<int>(std::max(a.size(), b.size())));
        EXPECT_GE(distance, std::abs(static_cast<int>(a.size()) - static_cast<int>(b.size())));
        EXPECT_LE(edit_distance(a + 'x', b), distance + 1);
    }
}

TEST(Nearest, TakesTheFirstOfEquals) {
    const std::vector<std::string> names = {"gpipe", "1f1b", "zb-h1", "zb-h2"};
    EXPECT_EQ(nearest("zb-h3", names), "zb-h1");
    EXPECT_EQ(nearest("1F1B", names), "1f1b");
    EXPECT_EQ(nearest("gpip", names), "gpipe");
    EXPECT_EQ(nearest("anything", std::vector<std::string>{}), "");
}

TEST(UnknownNameHint, SuggestsAndLists) {
    EXPECT_EQ(unknown_name_hint("zb-h3", {"gpipe", "zb-h1"}), "did you mean 'zb-h1'? known: gpipe, zb-h1");
    EXPECT_EQ(unknown_name_hint("x", {}), "");
}

}  // namespace
}  // namespace tw

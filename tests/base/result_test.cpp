#include "base/result.hpp"

#include <memory>

#include <gtest/gtest.h>

namespace tw {
namespace {

Error error(ErrorCode code, std::string message) {
    return {code, std::move(message), "", ""};
}

TEST(Result, HoldsAValue) {
    Result<int> result = 3;
    ASSERT_TRUE(result.has_value());
    EXPECT_TRUE(static_cast<bool>(result));
    EXPECT_EQ(*result, 3);
    *result += 1;
    EXPECT_EQ(result.value(), 4);
    const Result<std::string> text = std::string("abc");
    EXPECT_EQ(text->size(), 3U);
}

TEST(Result, HoldsEveryErrorInOrder) {
    const Result<int> one = error(ErrorCode::Usage, "first");
    ASSERT_FALSE(one.has_value());
    EXPECT_EQ(one.errors().size(), 1U);
    const Result<int> two = Errors{error(ErrorCode::Unreadable, "first"), error(ErrorCode::Usage, "second")};
    ASSERT_EQ(two.errors().size(), 2U);
    EXPECT_EQ(two.error().message, "first");
    EXPECT_EQ(two.errors()[1].message, "second");
    EXPECT_EQ(exit_code(two.errors()), 5);
}

TEST(Result, MovesWhatCannotBeCopied) {
    Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
    const std::unique_ptr<int> taken = std::move(result).value();
    EXPECT_EQ(*taken, 5);
    Result<std::unique_ptr<int>> other = std::make_unique<int>(6);
    EXPECT_EQ(*std::unique_ptr<int>(*std::move(other)), 6);
}

TEST(Result, StatusIsAResultWithoutAValue) {
    const Status good = ok();
    EXPECT_TRUE(good.has_value());
    const Status bad = error(ErrorCode::Failure, "no");
    EXPECT_FALSE(bad.has_value());
}

TEST(Result, PrintsContextMessageAndHint) {
    EXPECT_EQ(to_string(Error{ErrorCode::Usage, "is 3", "/a/b", "use 4"}), "/a/b: is 3 (hint: use 4)");
    EXPECT_EQ(to_string(Error{ErrorCode::Usage, "is 3", "", ""}), "is 3");
    EXPECT_EQ(to_string(Error{ErrorCode::Usage, "is 3", "--tp", ""}), "--tp: is 3");
    EXPECT_EQ(to_string(Errors{error(ErrorCode::Usage, "a"), error(ErrorCode::Usage, "b")}), "a\nb");
}

TEST(ExitCode, FollowsTheKindOfError) {
    EXPECT_EQ(exit_code(ErrorCode::Failure), 1);
    EXPECT_EQ(exit_code(ErrorCode::Usage), 2);
    EXPECT_EQ(exit_code(ErrorCode::Infeasible), 3);
    EXPECT_EQ(exit_code(ErrorCode::Tolerance), 4);
    EXPECT_EQ(exit_code(ErrorCode::Unreadable), 5);
    EXPECT_EQ(exit_code(ErrorCode::Interrupted), 130);
    EXPECT_EQ(exit_code(Errors{}), 1);
}

TEST(ResultDeathTest, WrongAccessIsABrokenInvariant) {
    const Result<int> failed = error(ErrorCode::Usage, "tp 3 does not divide 64 heads");
    EXPECT_DEATH(static_cast<void>(failed.value()), "tp 3 does not divide 64 heads");
    const Result<int> good = 1;
    EXPECT_DEATH(static_cast<void>(good.errors()), "has_value");
    EXPECT_DEATH(static_cast<void>(Result<int>(Errors{})), "at least one error");
}

}  // namespace
}  // namespace tw

#include "real_exec/comm/call_guard.hpp"

#include <chrono>
#include <map>
#include <thread>

#include <gtest/gtest.h>

namespace tw {
namespace {

using namespace std::chrono_literals;

TEST(CallGuardDeathTest, EndsARankThatMeetsNobody) {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            const CallGuard guard(0.1, 3, "creating group 'dp'");
            std::this_thread::sleep_for(30s);
        },
        ::testing::ExitedWithCode(1),
        "rank 3 has not met the others for 0 s: still creating group 'dp' \\(is every rank of the run");
}

// MPI_Abort that does not return: the run's own exit code stands.
TEST(CallGuardDeathTest, EndsWithTheExitCodeThatItWasGiven) {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            const CallGuard guard(0.1, 2, "in MPI_Abort", 5);
            std::this_thread::sleep_for(30s);
        },
        ::testing::ExitedWithCode(5), "rank 2 has not met the others for 0 s: still in MPI_Abort");
}

TEST(CallGuard, HasNoDeadlineWhereNoneIsGiven) {
    const CallGuard guard(0, 0, "in MPI_Init");
    std::this_thread::sleep_for(50ms);
}

TEST(CallGuard, LetsGoOfARankThatHasMetThem) {
    { const CallGuard guard(0.05, 0, "in MPI_Init"); }
    std::this_thread::sleep_for(100ms);
    const auto begin = std::chrono::steady_clock::now();
    { const CallGuard guard(60, 0, "in MPI_Init"); }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST(CallGuard, KnowsItsRankBeforeMpiDoes) {
    std::map<std::string, std::string> variables;
    const auto environment = [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    };
    EXPECT_EQ(rank_of_launcher(environment), 0);
    variables["PMIX_RANK"] = "7";
    EXPECT_EQ(rank_of_launcher(environment), 7);
    variables["OMPI_COMM_WORLD_RANK"] = "5";
    EXPECT_EQ(rank_of_launcher(environment), 5);
    variables["OMPI_COMM_WORLD_RANK"] = "x";
    EXPECT_EQ(rank_of_launcher(environment), 7);
}

}  // namespace
}  // namespace tw

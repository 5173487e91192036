// What counts as one request to end, and what a second one does.
#include "cli/common/stop_requests.hpp"

#include <chrono>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include "cli/common/interrupt.hpp"

namespace tw::cli {
namespace {

void wait_for_another_request() {
    std::this_thread::sleep_for(std::chrono::duration<double>(kOneRequest_s + 0.1));
}

TEST(StopRequests, WhatFollowsAtOnceRepeatsTheFirst) {
    StopRequests requests;
    EXPECT_EQ(requests.note(), StopRequests::Kind::First);
    EXPECT_EQ(requests.note(), StopRequests::Kind::Repeated);
    wait_for_another_request();
    EXPECT_EQ(requests.note(), StopRequests::Kind::Again);
    requests.reset();
    EXPECT_EQ(requests.note(), StopRequests::Kind::First);
}

// timeout(1) sends its signal to the command, then to the group that it belongs to.
TEST(StopRequests, LongWorkGoesOnUntilItLooksAfterASignalSentTwice) {
    for (const int signal : {SIGTERM, SIGINT}) {
        const InterruptGuard interrupt;
        std::raise(signal);
        std::raise(signal);
        EXPECT_TRUE(interrupt.flag());
    }
}

TEST(StopRequestsDeathTest, ASecondRequestEndsTheProcessAtOnce) {
    for (const int signal : {SIGTERM, SIGINT}) {
        EXPECT_EXIT(
            {
                const InterruptGuard interrupt;
                std::raise(signal);
                wait_for_another_request();
                std::raise(signal);
            },
            ::testing::KilledBySignal(signal), "");
    }
}

}  // namespace
}  // namespace tw::cli

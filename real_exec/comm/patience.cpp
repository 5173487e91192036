#include "real_exec/comm/patience.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include <sched.h>
#include <sys/prctl.h>

namespace tw {
namespace {

using namespace std::chrono_literals;

std::atomic<bool> shares_cores{false};

constexpr unsigned kPollsPerYield = 16;
constexpr auto kAtOnce = 20us, kShortest = 20us, kLongest = 100us;

}  // namespace

void set_shared_cores(bool shared) {
    shares_cores = shared;
    // The system rounds sleeps up by the thread's slack, 50 us unless told otherwise (prctl(2)).
    if (shared) prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
}

bool shared_cores() {
    return shares_cores;
}

std::chrono::nanoseconds Patience::sleep_after(std::chrono::nanoseconds waited) {
    if (waited < kAtOnce) return 0ns;
    return std::clamp<std::chrono::nanoseconds>(waited / 8, kShortest, kLongest);
}

void Patience::pause() {
    ++polls_;
    if (!shares_cores) {
        if (polls_ % kPollsPerYield == 0) sched_yield();
        return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (began_ == std::chrono::steady_clock::time_point{}) began_ = now;
    const auto sleep = sleep_after(now - began_);
    if (sleep > 0ns) std::this_thread::sleep_for(sleep);
}

}  // namespace tw

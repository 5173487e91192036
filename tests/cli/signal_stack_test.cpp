// Handlers leave the heap alone that oneDNN's products use as their stack.
#include <algorithm>
#include <array>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "cli/common/interrupt.hpp"
#include "cli/common/stop_signals.hpp"

namespace tw::cli {
namespace {

// Less than the registers that the kernel saves for a handler, enough for one system call.
constexpr std::size_t kStack = 1024;
constexpr std::size_t kBelow = 32768;
constexpr std::byte kUntouched{0x5a};

alignas(64) std::array<std::byte, kBelow + kStack> memory;
int to_send = 0;
ucontext_t caller, borrower;

void send_to_this_thread() {
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), to_send);
}

// Sends a signal to this thread while its stack is a part of `memory`; whether what lies below is untouched.
bool spares_what_lies_below(int signal) {
    to_send = 0;
    send_to_this_thread();  // the linker resolves the names, for which it takes kilobytes of stack
    memory.fill(kUntouched);
    to_send = signal;
    getcontext(&borrower);
    borrower.uc_stack.ss_sp = memory.data() + kBelow;
    borrower.uc_stack.ss_size = kStack;
    borrower.uc_link = &caller;
    makecontext(&borrower, send_to_this_thread, 0);
    swapcontext(&caller, &borrower);
    return std::all_of(memory.begin(), memory.begin() + kBelow, [](std::byte b) { return b == kUntouched; });
}

class SignalStackTest : public ::testing::Test {
  protected:
    void TearDown() override {
        for (const int signal : {SIGTERM, SIGUSR1, SIGINT})
            std::signal(signal, SIG_DFL);
    }
};

TEST_F(SignalStackTest, StopSignalsWriteNothingBelowABorrowedStack) {
    for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
        const StopSignals signals;
        EXPECT_FALSE(signals.flag());
        EXPECT_TRUE(spares_what_lies_below(signal)) << signal;
        EXPECT_TRUE(signals.flag());
    }
}

TEST_F(SignalStackTest, SoDoesTheInterruptOfLongWork) {
    for (const int signal : {SIGTERM, SIGINT}) {
        const InterruptGuard interrupt;
        EXPECT_TRUE(spares_what_lies_below(signal)) << signal;
        EXPECT_TRUE(interrupt.flag());
    }
}

// What the test is worth: without a stack of its own the handler's frame lies below.
TEST_F(SignalStackTest, AnyOtherHandlerWrites) {
    struct sigaction plain {
    }, before{};
    plain.sa_handler = [](int) {};
    sigaction(SIGUSR2, &plain, &before);
    EXPECT_FALSE(spares_what_lies_below(SIGUSR2));
    sigaction(SIGUSR2, &before, nullptr);
}

TEST_F(SignalStackTest, IsGivenBack) {
    stack_t before{}, now{};
    sigaltstack(nullptr, &before);
    { const StopSignals signals; }
    sigaltstack(nullptr, &now);
    EXPECT_EQ(now.ss_sp, before.ss_sp);
    EXPECT_EQ(now.ss_flags, before.ss_flags);
}

}  // namespace
}  // namespace tw::cli

#include "cli/common/interrupt.hpp"

#include <csignal>

namespace tw::cli {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void note_signal(int signal) {
    interrupted.store(true);
    std::signal(signal, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
    interrupted.store(false);
    struct sigaction note {};
    note.sa_handler = note_signal;
    note.sa_flags = SA_RESTART | SA_ONSTACK;
    sigaction(SIGINT, &note, nullptr);
    sigaction(SIGTERM, &note, nullptr);
}

InterruptGuard::~InterruptGuard() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
}

const std::atomic<bool>& InterruptGuard::flag() const {
    return interrupted;
}

}  // namespace tw::cli

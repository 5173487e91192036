#include "cli/common/interrupt.hpp"

#include <csignal>

#include "cli/common/stop_requests.hpp"

namespace tw::cli {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

StopRequests requests;

void note_signal(int signal) {
    interrupted.store(true);
    if (requests.note() != StopRequests::Kind::Again) return;
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // delivered as this returns
}

}  // namespace

InterruptGuard::InterruptGuard() {
    interrupted.store(false);
    requests.reset();
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

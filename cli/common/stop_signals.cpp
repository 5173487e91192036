#include "cli/common/stop_signals.hpp"

#include <unistd.h>

#include "cli/common/stop_requests.hpp"

namespace tw::cli {
namespace {

std::atomic<bool> asked{false};
StopRequests asked_by_key;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void note_signal(int signal) {
    asked.store(true);
    if (signal == SIGINT && asked_by_key.note() == StopRequests::Kind::Again) _exit(130);
}

}  // namespace

StopSignals::StopSignals() {
    asked.store(false);
    asked_by_key.reset();
    struct sigaction note {};
    note.sa_handler = note_signal;
    note.sa_flags = SA_RESTART | SA_ONSTACK;
    for (std::size_t s = 0; s < kSignals.size(); ++s)
        sigaction(kSignals[s], &note, &before_[s]);
}

// What was asked for too late is not to kill a rank that is about to end.
StopSignals::~StopSignals() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (std::size_t s = 0; s < kSignals.size(); ++s)
        sigaction(kSignals[s], asked.load() ? &ignore : &before_[s], nullptr);
}

const std::atomic<bool>& StopSignals::flag() const {
    return asked;
}

}  // namespace tw::cli

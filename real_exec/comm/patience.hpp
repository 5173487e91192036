// How a rank waits for others: polls follow each other at once, then the processor is given away. Where every
// rank has a core of its own a yield does (the executor's other threads run); where ranks share cores the
// rank sleeps, the longer the longer it has waited. A yield there hands over a whole slice of the scheduler's
// and counts against the rank that yields, so that its answer waits for others' slices; a sleeper owes
// nothing and is run soon after it wakes.
#pragma once

#include <chrono>

namespace tw {

// Whether this host has more ranks than cores for them; set by the transport before anybody waits.
void set_shared_cores(bool shared);
bool shared_cores();

// While it lives, waits are those of ranks with a core each: some of a host's ranks work together, no more
// than it has cores, and the others sleep.
class OwnCores {
  public:
    OwnCores() : before_(shared_cores()) { set_shared_cores(false); }
    ~OwnCores() { set_shared_cores(before_); }
    OwnCores(const OwnCores&) = delete;
    OwnCores& operator=(const OwnCores&) = delete;

  private:
    bool before_;
};

// One wait. Not thread-safe.
class Patience {
  public:
    // After a poll that found nothing.
    void pause();
    // Something moved: what comes next is near.
    void encouraged() { began_ = {}; }
    // How long a rank that has waited for so long sleeps at once; 0: not yet. An eighth of the wait, so that
    // what a sleep adds stays a small part of it, and at most 100 us, which a message of some hundred KB
    // takes anyway.
    static std::chrono::nanoseconds sleep_after(std::chrono::nanoseconds waited);

  private:
    std::chrono::steady_clock::time_point began_{};
    unsigned polls_ = 0;
};

}  // namespace tw

// Lanes: what of a step's program runs beside the host: transfers and collectives. Each (stream,
// communicator) is a FIFO whose instructions start in program order, one at a time, when what they wait for
// is done. One thread drives them: pump() starts and completes what can be, and every wait pumps.
//
// A wait that sees nothing happen for the watchdog's time ends the whole run and says which rank waits before
// which instruction for whom. An operation that fails ends it too, with its error.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "plan/schedule/schedule.hpp"
#include "plan/trace/trace.hpp"
#include "real_exec/comm/communicator.hpp"
#include "real_exec/runtime/clock.hpp"

namespace tw {

// What runs the instructions of lanes.
class LaneHandler {
  public:
    virtual ~LaneHandler() = default;
    // Posts the instruction's operations; none: it is done at once.
    virtual std::vector<RequestPtr> start(std::uint32_t index) = 0;
    virtual void complete(std::uint32_t index) = 0;
    // What the rank does for others beside its program, between any two things; true where it did something.
    virtual bool serve() { return false; }
};

class Lanes {
  public:
    // `who`: "rank 3 (PP1 DP0 TP1)". Instructions, transport, clock and handler outlive this.
    Lanes(Transport& transport, const RunClock& clock, LaneHandler& handler, std::string who,
          double watchdog_s);
    ~Lanes();
    Lanes(const Lanes&) = delete;
    Lanes& operator=(const Lanes&) = delete;

    // A new run through a program; the one before has been drained.
    void begin(const RankProgram& program, std::int32_t step);
    void enqueue(std::uint32_t index);
    // The instruction is not run: whoever waits for it need not, and it leaves no event.
    void leave_out(std::uint32_t index);
    // The host's own instructions.
    void host_started(std::uint32_t index);
    // `times`: when a device ran it; empty: the host did. The host's time of asking for it is its arrival.
    void host_finished(std::uint32_t index, const std::optional<DeviceTimes>& times = std::nullopt);
    // Blocks until everything that an instruction waits for is done.
    void wait_for_dependencies(std::uint32_t index);
    void wait(Request& request, const char* what);
    // Whether it has completed; a request that has failed ends the run.
    [[nodiscard]] bool completed(Request& request);
    // `waiting_for`: who is missing, for the watchdog's message; may be empty.
    void wait_until(const std::function<bool()>& done, const char* what,
                    const Request* waiting_for = nullptr);
    // A wait for this rank's own device: the lanes go on, and its time is computation. The watchdog sees an
    // instruction that has not returned.
    void compute_until(const std::function<bool()>& done);
    // A wait for what takes the time that it takes, a disk: the lanes go on, and no watchdog ends the run.
    void rest_until(const std::function<bool()>& done);
    void drain();
    void pump();

    // Of the instruction that the host is at: of a program of several steps, its own.
    [[nodiscard]] std::int32_t step() const {
        return current_ < events_.size() ? events_[current_].step : step_;
    }
    // Seconds spent in waits and in driving transfers since begin(): communication (and imbalance) that no
    // computation hides.
    [[nodiscard]] double waited_s() const { return waited_s_; }
    // Events of the program, by index; complete after drain(). Those left out end before they start.
    [[nodiscard]] std::vector<TraceEvent>& events() { return events_; }

  private:
    struct Lane {
        std::uint32_t key = 0;
        std::deque<std::uint32_t> queue;
        std::vector<RequestPtr> active;  // of `running`
        std::uint32_t running = 0;
        bool busy = false;
        // Of the operations of `running` that have completed: when a device ran them, where all of them say.
        std::optional<DeviceTimes> times;
        bool on_device = true;
    };
    [[nodiscard]] bool ready(std::uint32_t index) const;
    bool advance(Lane& lane);
    static void add_times(Lane& lane, const Request& completed);
    void has_waited_since(SimTime began);
    void host_is_at(std::uint32_t index);
    void finish(std::uint32_t index, const std::optional<DeviceTimes>& times);
    [[noreturn]] void give_up(const char* what, const Request* waiting_for, double waited);
    void watch();

    Transport& transport_;
    const RunClock& clock_;
    LaneHandler& handler_;
    std::string who_;
    double watchdog_s_;
    const RankProgram* program_ = nullptr;
    std::int32_t step_ = 0;
    std::deque<Lane> lanes_;
    std::vector<char> done_;
    std::vector<TraceEvent> events_;
    std::uint64_t moves_ = 0;  // instructions started and completed: whether anything happens
    std::uint32_t current_ = 0;
    double waited_s_ = 0;
    SimTime waited_ = 0, waited_before_ = 0;  // of all steps: so far, and when the last compute ended
    int waiting_ = 0;                         // depth of waits
    bool pumping_ = false;

    // The thread that notices a host that neither computes on nor waits.
    std::atomic<std::int64_t> beat_{0};
    std::atomic<std::int64_t> beat_step_{0};
    std::atomic<std::uint32_t> beat_index_{0};
    std::atomic<bool> stop_{false};
    std::thread watcher_;
};

}  // namespace tw

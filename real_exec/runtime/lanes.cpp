#include "real_exec/runtime/lanes.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>

#include <fmt/format.h>

#include "base/check.hpp"
#include "real_exec/comm/patience.hpp"

namespace tw {

Lanes::Lanes(Transport& transport, const RunClock& clock, LaneHandler& handler, std::string who,
             double watchdog_s)
    : transport_(transport),
      clock_(clock),
      handler_(handler),
      who_(std::move(who)),
      watchdog_s_(watchdog_s),
      watcher_([this] { watch(); }) {}

Lanes::~Lanes() {
    stop_ = true;
    watcher_.join();
}

void Lanes::begin(const RankProgram& program, std::int32_t step) {
    program_ = &program;
    step_ = step;
    current_ = 0;
    done_.assign(program.instructions.size(), 0);
    events_.assign(program.instructions.size(), TraceEvent{});
    for (std::uint32_t i = 0; i < events_.size(); ++i) {
        events_[i].instruction = program.instructions[i];
        events_[i].step = step;
        events_[i].index = i;
    }
    waited_s_ = 0;
    beat_step_ = step;
}

bool Lanes::ready(std::uint32_t index) const {
    const auto waits = program_->waits_of(index);
    return std::all_of(waits.begin(), waits.end(), [&](std::uint32_t w) { return done_[w] != 0; });
}

void Lanes::enqueue(std::uint32_t index) {
    current_ = index;
    const Instruction& in = program_->instructions[index];
    const std::uint32_t key = static_cast<std::uint32_t>(in.stream) << 16U | in.communicator;
    auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) { return l.key == key; });
    if (lane == lanes_.end()) {
        lanes_.emplace_back();
        lane = lanes_.end() - 1;
        lane->key = key;
    }
    lane->queue.push_back(index);
    pump();
}

void Lanes::leave_out(std::uint32_t index) {
    done_[index] = 1;
    events_[index].end = -1;
}

void Lanes::host_is_at(std::uint32_t index) {
    current_ = index;
    beat_index_ = index;
    beat_step_ = events_[index].step;
}

void Lanes::host_started(std::uint32_t index) {
    host_is_at(index);
    beat_ = clock_.now();
    events_[index].start = clock_.now();
    if (events_[index].arrival == 0) events_[index].arrival = events_[index].start;
}

void Lanes::host_finished(std::uint32_t index, const std::optional<DeviceTimes>& times) {
    beat_ = clock_.now();
    finish(index, times);
    events_[index].waited = waited_ - waited_before_;
    waited_before_ = waited_;
    pump();
}

void Lanes::finish(std::uint32_t index, const std::optional<DeviceTimes>& times) {
    done_[index] = 1;
    ++moves_;
    TraceEvent& event = events_[index];
    event.end = clock_.now();
    if (!times) return;
    // The host saw it later. The two clocks agree nearly: nothing runs before it is asked for.
    event.start = std::clamp(clock_.at(times->start), event.arrival, event.end);
    event.end = std::clamp(clock_.at(times->end), event.start, event.end);
}

void Lanes::add_times(Lane& lane, const Request& completed) {
    const std::optional<DeviceTimes> times = completed.device_times();
    lane.on_device = lane.on_device && times.has_value();
    if (!times) return;
    lane.times = !lane.times ? *times
                             : DeviceTimes{std::min(lane.times->start, times->start),
                                           std::max(lane.times->end, times->end)};
}

bool Lanes::advance(Lane& lane) {
    bool moved = false;
    while (true) {
        if (lane.busy) {
            while (!lane.active.empty() && completed(*lane.active.back())) {
                add_times(lane, *lane.active.back());
                lane.active.pop_back();
            }
            if (!lane.active.empty()) return moved;
            lane.busy = false;
            handler_.complete(lane.running);
            finish(lane.running, lane.on_device ? lane.times : std::nullopt);
            moved = true;
        }
        if (lane.queue.empty() || !ready(lane.queue.front())) return moved;
        lane.running = lane.queue.front();
        lane.queue.pop_front();
        lane.busy = true;
        lane.times.reset();
        lane.on_device = true;
        events_[lane.running].arrival = events_[lane.running].start = clock_.now();
        lane.active = handler_.start(lane.running);
        ++moves_;
        moved = true;
    }
}

void Lanes::has_waited_since(SimTime began) {
    const SimTime time = clock_.now() - began;
    waited_ += time;
    waited_s_ += static_cast<double>(time) * 1e-12;
}

void Lanes::pump() {
    if (pumping_ || program_ == nullptr) return;
    pumping_ = true;
    // A library that yields when it is idle gives the processor away in here.
    const SimTime began = waiting_ == 0 ? clock_.now() : 0;
    if (handler_.serve()) ++moves_;
    // What one lane completes may let another one start.
    for (bool moved = true; moved;) {
        moved = false;
        for (Lane& lane : lanes_)
            moved |= advance(lane);
    }
    if (waiting_ == 0) has_waited_since(began);
    pumping_ = false;
}

void Lanes::wait_until(const std::function<bool()>& done, const char* what, const Request* waiting_for) {
    if (done()) return;
    const SimTime began = clock_.now();
    SimTime last_move = began;
    std::uint64_t moves = moves_;
    ++waiting_;
    Patience patience;
    for (int spins = 1; !done(); ++spins) {
        const std::uint64_t before = moves_;
        pump();
        if (done()) break;
        if (moves_ == before) {
            patience.pause();
        } else {
            patience.encouraged();
        }
        if (spins % 16 != 0) continue;
        const SimTime now = clock_.now();
        beat_ = now;
        if (moves != moves_) {
            moves = moves_;
            last_move = now;
        }
        const double still = static_cast<double>(now - last_move) * 1e-12;
        if (still > watchdog_s_) give_up(what, waiting_for, still);
    }
    --waiting_;
    beat_ = clock_.now();
    if (waiting_ == 0) has_waited_since(began);
}

void Lanes::wait_for_dependencies(std::uint32_t index) {
    host_is_at(index);
    // No pump() beside the wait's own: the library may give the processor away inside of it.
    wait_until([&] { return ready(index); }, "");
    events_[index].arrival = clock_.now();
}

void Lanes::wait(Request& request, const char* what) {
    wait_until([&] { return completed(request); }, what, &request);
}

bool Lanes::completed(Request& request) {
    if (!request.test()) return false;
    if (const Status status = request.wait(); !status) {
        transport_.abort(exit_code(status.errors()),
                         fmt::format("{}, step {}: {}", who_, step(), to_string(status.errors())));
        std::_Exit(1);  // GCC does not see that a virtual function never returns
    }
    return true;
}

void Lanes::compute_until(const std::function<bool()>& done) {
    ++waiting_;  // what pump() takes meanwhile is hidden
    Patience patience;
    while (!done()) {
        const std::uint64_t before = moves_;
        pump();
        if (moves_ == before) {
            patience.pause();
        } else {
            patience.encouraged();
        }
    }
    --waiting_;
}

void Lanes::rest_until(const std::function<bool()>& done) {
    using namespace std::chrono_literals;
    while (!done()) {
        pump();
        beat_ = clock_.now();
        std::this_thread::sleep_for(1ms);
    }
}

void Lanes::drain() {
    wait_until(
        [&] {
            return std::all_of(lanes_.begin(), lanes_.end(),
                               [](const Lane& lane) { return !lane.busy && lane.queue.empty(); });
        },
        "the end of the step");
}

void Lanes::give_up(const char* what, const Request* waiting_for, double waited) {
    std::string text = fmt::format("{}, step {}: nothing has happened for {:.0f} s", who_, step(), waited);
    if (*what != '\0') {
        text += fmt::format(" while it waits for {}", what);
        if (waiting_for != nullptr) text += ": " + waiting_for->waiting_for();
    } else if (current_ < program_->instructions.size()) {
        text += fmt::format(" before {}", to_string(program_->instructions[current_]));
    }
    for (const Lane& lane : lanes_) {
        if (lane.busy) {
            text += fmt::format("\n  {} is under way", to_string(program_->instructions[lane.running]));
            for (const RequestPtr& request : lane.active) {
                const std::string missing = request->waiting_for();
                if (!missing.empty()) text += ": " + missing;
            }
        } else if (!lane.queue.empty()) {
            text +=
                fmt::format("\n  {} has not started", to_string(program_->instructions[lane.queue.front()]));
        }
    }
    transport_.abort(1, text);
    std::_Exit(1);  // GCC does not see that a virtual function never returns
}

void Lanes::watch() {
    using namespace std::chrono_literals;
    // A wait ends the run by itself; a kernel that never returns does not.
    while (!stop_) {
        std::this_thread::sleep_for(20ms);
        const std::int64_t beat = beat_;
        if (beat == 0) continue;
        const double still = static_cast<double>(clock_.now() - beat) * 1e-12;
        if (still < watchdog_s_ + 5 || watchdog_s_ <= 0) continue;
        std::cerr << fmt::format("{}, step {}: instruction {} has not returned for {:.0f} s\n", who_,
                                 beat_step_.load(), beat_index_.load(), still)
                  << std::flush;
        std::_Exit(1);
    }
}

}  // namespace tw

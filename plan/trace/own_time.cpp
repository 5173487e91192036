#include "plan/trace/own_time.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "plan/trace/event_text.hpp"

namespace tw {
namespace {

// The tensor that a compute waits for.
using Tensor = std::tuple<bool, std::int32_t, std::int32_t>;  // gradient?, stage, microbatch

// Lane events whose outcome nobody has waited for yet.
class Pending {
  public:
    explicit Pending(const RankTrace& rank) {
        for (const TraceEvent& event : rank.events) {
            if (event.inside_another()) continue;
            const auto [found, is_new] = fastest_.try_emplace(kind_of(event), event.end - event.start);
            if (!is_new) found->second = std::min(found->second, event.end - event.start);
        }
    }

    void add(const TraceEvent& event) {
        const Instruction& i = event.instruction;
        if (is_receive(i.opcode)) {
            tensors_[{i.opcode == Opcode::RecvGrad, i.stage, i.microbatch}] = here(event);
        } else if (is_collective(i.opcode)) {
            // The norm joins more ranks than the meeting shows.
            const bool replicas = i.group == 0 && i.opcode != Opcode::GradNorm;
            const SimTime done = replicas ? here(event) : event.end;
            SimTime& latest = is_sum(i.opcode) ? sums_ : parameters_;
            latest = std::max(latest, done);
            if (is_sum(i.opcode)) sums_step_ = event.step;
        }
    }

    // When the last of what this compute needs was there; -kNever: it needs nothing.
    SimTime inputs_of(const Instruction& i, std::int32_t step) {
        SimTime ready = -kNever;
        // Where no update is in the trace, what comes after it waits for the sums.
        if (is_compute(i.opcode) && step > sums_step_) {
            ready = sums_;
            sums_ = -kNever;
        }
        const SimTime inputs = own_inputs_of(i);
        return std::max(ready, inputs);
    }

  private:
    SimTime own_inputs_of(const Instruction& i) {
        SimTime ready = -kNever;
        if (i.opcode == Opcode::OptimizerStep) {
            ready = sums_;
            sums_ = -kNever;
        } else if (i.opcode == Opcode::OverlapForwardBackward) {
            ready = std::max(tensor({false, i.stage, i.microbatch}), tensor({true, i.stage2, i.microbatch2}));
        } else if (is_compute(i.opcode)) {
            ready = tensor({i.opcode != Opcode::Forward, i.stage, i.microbatch});
        }
        if (is_compute(i.opcode)) {
            ready = std::max(ready, parameters_);
            parameters_ = -kNever;
        }
        return ready;
    }

    using Kind = std::tuple<Opcode, std::uint16_t, std::uint16_t>;
    static Kind kind_of(const TraceEvent& event) {
        return {event.instruction.opcode, event.instruction.stage, event.instruction.size_class};
    }
    static bool is_sum(Opcode opcode) {
        return opcode == Opcode::AllReduce || opcode == Opcode::ReduceScatter || opcode == Opcode::GradNorm;
    }
    [[nodiscard]] SimTime here(const TraceEvent& event) const {
        return std::min(event.end, event.start + fastest_.at(kind_of(event)));
    }
    SimTime tensor(const Tensor& wanted) {
        const auto found = tensors_.find(wanted);
        if (found == tensors_.end()) return -kNever;
        const SimTime ready = found->second;
        tensors_.erase(found);
        return ready;
    }

    std::map<Kind, SimTime> fastest_;
    std::map<Tensor, SimTime> tensors_;
    SimTime sums_ = -kNever, parameters_ = -kNever;
    std::int32_t sums_step_ = 0;
};

}  // namespace

OwnTime::OwnTime(const RankTrace& rank, SimTime origin) {
    Pending pending(rank);
    SimTime before = origin;
    const auto wait = [&](SimTime begin, SimTime end) {
        if (!waits_.empty()) begin = std::max(begin, waits_.back().end);
        if (end <= begin) return;
        const SimTime sum =
            waits_.empty() ? 0 : waits_.back().before + waits_.back().end - waits_.back().begin;
        waits_.push_back({begin, end, sum});
    };
    const bool measured = std::any_of(rank.events.begin(), rank.events.end(),
                                      [](const TraceEvent& event) { return event.waited > 0; });
    for (const TraceEvent& event : rank.events) {
        if (event.inside_another()) continue;
        if (is_communication(work_of(event.instruction))) {
            pending.add(event);
            continue;
        }
        const auto step = static_cast<std::size_t>(std::max(0, event.step));
        if (step >= steps_.size()) steps_.resize(step + 1);
        Step& s = steps_[step];
        if (!s.any) s.begin = before;
        s.any = true;
        if (measured) {
            const SimTime gap = std::max<SimTime>(0, event.start - before);
            const SimTime outside = std::min(event.waited, gap);
            if (gap > 0) wait(before, before + outside);
            wait(event.end - std::min(event.waited - outside, event.end - event.start), event.end);
        } else {
            wait(before, std::min(event.start, pending.inputs_of(event.instruction, event.step)));
        }
        s.end = before = std::max(before, event.end);
    }
}

SimTime OwnTime::waited_until(SimTime time) const {
    const auto after = std::partition_point(waits_.begin(), waits_.end(),
                                            [time](const Wait& wait) { return wait.begin < time; });
    if (after == waits_.begin()) return 0;
    const Wait& last = *(after - 1);
    return last.before + std::min(time, last.end) - last.begin;
}

SimTime OwnTime::until(int step, SimTime time) const {
    const auto s = static_cast<std::size_t>(step);
    if (step < 0 || s >= steps_.size() || !steps_[s].any) return 0;
    return time - steps_[s].begin - (waited_until(time) - waited_until(steps_[s].begin));
}

SimTime OwnTime::of_step(int step) const {
    const auto s = static_cast<std::size_t>(step);
    return step < 0 || s >= steps_.size() ? 0 : until(step, steps_[s].end);
}

}  // namespace tw

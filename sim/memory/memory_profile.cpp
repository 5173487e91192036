#include "sim/memory/memory_profile.hpp"

#include <algorithm>
#include <numeric>

namespace tw {
namespace {

constexpr std::size_t kOpcodes = static_cast<std::size_t>(Opcode::Wait) + 1;

// Fed with a rank's instructions twice: all to see(), then all to step().
class Profiler {
  public:
    explicit Profiler(int stages)
        : slot_(static_cast<std::size_t>(stages), -1), last_part_(slot_.size(), 0) {}

    void see(const Instruction& in) {
        if (!is_compute(in.opcode)) return;
        if (is_backward(in.opcode)) last_part_[in.stage] = std::max(last_part_[in.stage], in.part);
        slot_[in.stage] = 0;
        if (in.opcode == Opcode::OverlapForwardBackward) slot_[in.stage2] = 0;
    }

    void all_seen() {
        for (std::size_t s = 0; s < slot_.size(); ++s) {
            if (slot_[s] < 0) continue;
            slot_[s] = static_cast<int>(profile_.stages.size());
            profile_.stages.push_back(static_cast<std::uint16_t>(s));
        }
        stages_ = profile_.stages.size();
        now_.assign(3 * stages_, 0);
        finished_.assign(stages_, false);
        candidates_.resize(stages_ * kOpcodes);
    }

    void step(const Instruction& in, std::uint32_t index) {
        if (slot_[in.stage] < 0) return;
        const MemoryEffect effect = memory_effect(in.opcode, last(in));
        if (!effect.any()) return;
        const std::size_t s = slot(in.stage);
        offload(in.opcode, s);
        const auto apply = [&](const MemoryEffect::Counts& delta) {
            change(s, delta.held);
            change(stages_ + s, delta.held_for_weight);
            change(2 * stages_ + s, delta.stashed);
        };
        apply(effect.before);
        profile_.weight_versions = std::max(profile_.weight_versions, now_[2 * stages_ + s] + 1);
        if (effect.may_peak) record(in, index);
        apply(effect.after);
        if (effect.after2_held != 0) change(slot(in.stage2), effect.after2_held);
        if (effect.ends_backward) finished_[effect.after2_held != 0 ? slot(in.stage2) : s] = true;
    }

    RankMemoryProfile result() {
        // Snapshots of all candidates by their instructions.
        struct Place {
            std::uint32_t instruction;
            std::size_t list, index;
        };
        std::vector<Place> places;
        for (std::size_t list = 0; list < candidates_.size(); ++list) {
            for (std::size_t i = 0; i < candidates_[list].snapshots.size(); ++i)
                places.push_back({candidates_[list].snapshots[i].instruction, list, i});
        }
        std::sort(places.begin(), places.end(),
                  [](const Place& a, const Place& b) { return a.instruction < b.instruction; });
        profile_.snapshots.reserve(places.size());
        profile_.counts.reserve(places.size() * now_.size());
        for (const Place& place : places) {
            const Candidates& from = candidates_[place.list];
            profile_.snapshots.push_back(from.snapshots[place.index]);
            const auto counts = from.counts.begin() + static_cast<std::ptrdiff_t>(place.index * now_.size());
            profile_.counts.insert(profile_.counts.end(), counts,
                                   counts + static_cast<std::ptrdiff_t>(now_.size()));
        }
        return std::move(profile_);
    }

  private:
    void offload(Opcode opcode, std::size_t s) {
        if (opcode != Opcode::Offload && opcode != Opcode::Reload) return;
        away_.resize(stages_, 0);
        away_[s] = static_cast<std::uint16_t>(std::max(0, away_[s] + (opcode == Opcode::Offload ? 1 : -1)));
        const int now = std::accumulate(away_.begin(), away_.end(), 0);
        if (now <= most_away_) return;
        most_away_ = now;
        profile_.offloaded = away_;
    }

    void change(std::size_t count, int delta) {
        const int before = now_[count], after = std::max(0, before + delta);
        now_[count] = static_cast<std::uint16_t>(after);
        if (count < 2 * stages_) in_flight_ += after - before;
    }

    // States that run the same thing, none of which covers another; counts as in RankMemoryProfile.
    struct Candidates {
        std::vector<MemorySnapshot> snapshots;
        std::vector<std::uint16_t> counts;
    };

    [[nodiscard]] std::size_t slot(std::uint16_t stage) const {
        return static_cast<std::size_t>(slot_[stage]);
    }
    [[nodiscard]] bool last(const Instruction& in) const {
        return in.part == 0 || in.part == last_part_[in.stage];
    }
    // Whether no count of `b` exceeds that of `a`, which comes after a backward where `b` does.
    [[nodiscard]] bool covers(const std::uint16_t* a, bool a_again, const std::uint16_t* b,
                              bool b_again) const {
        if (b_again && !a_again) return false;
        unsigned less = 0;  // without an early end: most are covered, and the loop runs on vectors
        for (std::size_t i = 0; i < now_.size(); ++i)
            less |= static_cast<unsigned>(a[i] < b[i]);
        return less == 0;
    }

    void record(const Instruction& in, std::uint32_t index) {
        profile_.peak_in_flight = std::max(profile_.peak_in_flight, in_flight_);
        Candidates& kept = candidates_[slot(in.stage) * kOpcodes + static_cast<std::size_t>(in.opcode)];
        const std::size_t width = now_.size();
        const bool again = finished_[slot(in.stage)];
        for (std::size_t k = 0; k < kept.snapshots.size(); ++k) {
            const MemorySnapshot& one = kept.snapshots[k];
            if (one.stage2 == in.stage2 && covers(&kept.counts[k * width], one.again, now_.data(), again))
                return;
        }
        std::size_t left = 0;
        for (std::size_t k = 0; k < kept.snapshots.size(); ++k) {
            const MemorySnapshot& one = kept.snapshots[k];
            if (one.stage2 == in.stage2 && covers(now_.data(), again, &kept.counts[k * width], one.again))
                continue;
            if (left != k) {
                kept.snapshots[left] = kept.snapshots[k];
                std::copy_n(&kept.counts[k * width], width, &kept.counts[left * width]);
            }
            ++left;
        }
        kept.snapshots.resize(left);
        kept.counts.resize(left * width);
        kept.snapshots.push_back({in.opcode, in.stage, in.stage2, index, again});
        kept.counts.insert(kept.counts.end(), now_.begin(), now_.end());
    }

    std::vector<int> slot_;  // of each virtual stage in this rank; -1: runs elsewhere
    std::vector<std::uint32_t> last_part_;
    std::size_t stages_ = 0;           // of this rank
    std::vector<std::uint16_t> now_;   // counts as in RankMemoryProfile
    std::vector<std::uint16_t> away_;  // of each stage, microbatches whose activations are on the host
    int most_away_ = 0;
    int in_flight_ = 0;                   // sum of the counts held whole or in part
    std::vector<bool> finished_;          // a backward of the stage has ended
    std::vector<Candidates> candidates_;  // [stage][kind]
    RankMemoryProfile profile_;
};

}  // namespace

MemoryEffect memory_effect(Opcode opcode, bool last_chunk) {
    MemoryEffect e;
    switch (opcode) {
        case Opcode::Forward:
        case Opcode::Reload:
            e.before.held = 1;
            e.may_peak = true;
            break;
        case Opcode::Backward:
            e.after.held = last_chunk ? -1 : 0;
            e.may_peak = true;
            e.ends_backward = last_chunk;
            break;
        case Opcode::BackwardInput:
            e.after = {-1, 1, 0};
            e.may_peak = true;
            break;
        case Opcode::BackwardWeight:
            e.after.held_for_weight = last_chunk ? -1 : 0;
            e.ends_backward = last_chunk;
            break;
        case Opcode::OverlapForwardBackward:
            e.before.held = 1;
            e.after2_held = -1;
            e.may_peak = true;
            e.ends_backward = true;
            break;
        case Opcode::StashWeights:
            e.before.stashed = 1;
            e.may_peak = true;
            break;
        case Opcode::Free:
            e.after.stashed = -1;
            break;
        case Opcode::Offload:
            e.after.held = -1;
            break;
        default:
            break;
    }
    return e;
}

std::vector<std::uint32_t> last_chunks(const RankProgram& program, int stages) {
    std::vector<std::uint32_t> last(static_cast<std::size_t>(stages), 0);
    for (const Instruction& in : program.instructions) {
        if (is_backward(in.opcode)) last[in.stage] = std::max(last[in.stage], in.part);
    }
    return last;
}

std::vector<RankMemoryProfile> memory_profile(const Schedule& schedule) {
    std::vector<RankMemoryProfile> profiles;
    for (const RankProgram& program : schedule.programs) {
        Profiler profiler(schedule.stages);
        for (const Instruction& in : program.instructions)
            profiler.see(in);
        profiler.all_seen();
        std::uint32_t index = 0;
        for (const Instruction& in : program.instructions)
            profiler.step(in, index++);
        profiles.push_back(profiler.result());
    }
    return profiles;
}

std::vector<RankMemoryProfile> memory_profile(const ComputeOrder& order) {
    std::vector<RankMemoryProfile> profiles;
    Instruction in;
    const auto as_instruction = [&in](const Action& a) -> const Instruction& {
        in.opcode = a.opcode;
        in.stage = a.stage;
        in.stage2 = a.stage2;
        return in;
    };
    for (const std::vector<Action>& actions : order.ranks) {
        Profiler profiler(order.stages);
        for (const Action& a : actions)
            profiler.see(as_instruction(a));
        profiler.all_seen();
        std::uint32_t index = 0;
        for (const Action& a : actions)
            profiler.step(as_instruction(a), index++);
        profiles.push_back(profiler.result());
    }
    return profiles;
}

std::vector<RankMemoryProfile> one_in_flight_profile(std::span<const std::uint16_t> rank_of_stage) {
    ComputeOrder order;
    order.stages = static_cast<int>(rank_of_stage.size());
    for (std::size_t s = 0; s < rank_of_stage.size(); ++s) {
        const std::size_t rank = rank_of_stage[s];
        if (order.ranks.size() <= rank) order.ranks.resize(rank + 1);
        for (const Opcode opcode : {Opcode::Forward, Opcode::BackwardInput, Opcode::BackwardWeight}) {
            Action action;
            action.opcode = opcode;
            action.stage = static_cast<std::uint16_t>(s);
            order.ranks[rank].push_back(action);
        }
    }
    return memory_profile(order);
}

}  // namespace tw

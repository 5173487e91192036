#include "sim/memory/memory_profile.hpp"

#include <algorithm>
#include <numeric>

namespace tw {
namespace {

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
        candidates_.resize(stages_ * kKinds);
    }

    void step(const Instruction& in, std::uint32_t index) {
        if (slot_[in.stage] < 0) return;
        const std::size_t s = slot(in.stage);
        std::uint16_t& held = now_[s];
        std::uint16_t& held_for_weight = now_[stages_ + s];
        std::uint16_t& stashed = now_[2 * stages_ + s];
        switch (in.opcode) {
            case Opcode::Forward:
                ++held;
                record(in, index, 0);
                break;
            case Opcode::Backward:
                record(in, index, 1);
                if (last(in)) --held;
                break;
            case Opcode::BackwardInput:
                record(in, index, 2);
                --held;
                ++held_for_weight;
                break;
            case Opcode::BackwardWeight:
                if (last(in)) --held_for_weight;
                break;
            case Opcode::OverlapForwardBackward:
                ++held;
                record(in, index, 3);
                --now_[slot(in.stage2)];
                break;
            case Opcode::StashWeights:
                ++stashed;
                profile_.weight_versions = std::max(profile_.weight_versions, stashed + 1);
                record(in, index, 4);
                break;
            case Opcode::Free:
                if (stashed > 0) --stashed;
                break;
            case Opcode::Offload:
                if (held > 0) --held;
                break;
            case Opcode::Reload:
                ++held;
                record(in, index, 5);
                break;
            default:
                break;
        }
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
    static constexpr std::size_t kKinds = 6;

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
    // Whether no count of `b` exceeds that of `a`.
    [[nodiscard]] bool covers(const std::uint16_t* a, const std::uint16_t* b) const {
        for (std::size_t i = 0; i < now_.size(); ++i) {
            if (a[i] < b[i]) return false;
        }
        return true;
    }

    void record(const Instruction& in, std::uint32_t index, std::size_t kind) {
        const auto in_flight = now_.begin() + static_cast<std::ptrdiff_t>(2 * stages_);
        profile_.peak_in_flight =
            std::max(profile_.peak_in_flight, std::accumulate(now_.begin(), in_flight, 0));
        Candidates& kept = candidates_[slot(in.stage) * kKinds + kind];
        const std::size_t width = now_.size();
        for (std::size_t k = 0; k < kept.snapshots.size(); ++k) {
            if (kept.snapshots[k].stage2 == in.stage2 && covers(&kept.counts[k * width], now_.data())) return;
        }
        std::size_t left = 0;
        for (std::size_t k = 0; k < kept.snapshots.size(); ++k) {
            if (kept.snapshots[k].stage2 == in.stage2 && covers(now_.data(), &kept.counts[k * width]))
                continue;
            if (left != k) {
                kept.snapshots[left] = kept.snapshots[k];
                std::copy_n(&kept.counts[k * width], width, &kept.counts[left * width]);
            }
            ++left;
        }
        kept.snapshots.resize(left);
        kept.counts.resize(left * width);
        kept.snapshots.push_back({in.opcode, in.stage, in.stage2, index});
        kept.counts.insert(kept.counts.end(), now_.begin(), now_.end());
    }

    std::vector<int> slot_;  // of each virtual stage in this rank; -1: runs elsewhere
    std::vector<std::uint32_t> last_part_;
    std::size_t stages_ = 0;              // of this rank
    std::vector<std::uint16_t> now_;      // counts as in RankMemoryProfile
    std::vector<Candidates> candidates_;  // [stage][kind]
    RankMemoryProfile profile_;
};

}  // namespace

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

}  // namespace tw

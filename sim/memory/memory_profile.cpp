#include "sim/memory/memory_profile.hpp"

#include <algorithm>
#include <numeric>

namespace tw {
namespace {

bool covers(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i] < b[i]) return false;
    }
    return true;
}

bool covers(const MemorySnapshot& a, const MemorySnapshot& b) {
    return covers(a.held, b.held) && covers(a.held_for_weight, b.held_for_weight) &&
           covers(a.stashed, b.stashed);
}

class Profiler {
  public:
    Profiler(int stages, const RankProgram& program)
        : program_(program), slot_(static_cast<std::size_t>(stages), -1) {
        last_part_.assign(slot_.size(), 0);
        for (const Instruction& in : program.instructions) {
            if (!is_compute(in.opcode)) continue;
            if (is_backward(in.opcode)) last_part_[in.stage] = std::max(last_part_[in.stage], in.part);
            for (const std::uint16_t s :
                 {in.stage, in.opcode == Opcode::OverlapForwardBackward ? in.stage2 : in.stage}) {
                if (slot_[s] < 0) {
                    slot_[s] = 0;
                    profile_.stages.push_back(s);
                }
            }
        }
        std::sort(profile_.stages.begin(), profile_.stages.end());
        for (std::size_t k = 0; k < profile_.stages.size(); ++k)
            slot_[profile_.stages[k]] = static_cast<int>(k);
        now_.held.assign(profile_.stages.size(), 0);
        now_.held_for_weight = now_.stashed = now_.held;
        candidates_.resize(profile_.stages.size() * kKinds);
    }

    RankMemoryProfile run() {
        for (std::uint32_t i = 0; i < program_.instructions.size(); ++i)
            step(program_.instructions[i], i);
        for (auto& kept : candidates_) {
            for (MemorySnapshot& s : kept)
                profile_.snapshots.push_back(std::move(s));
        }
        std::sort(profile_.snapshots.begin(), profile_.snapshots.end(),
                  [](const auto& a, const auto& b) { return a.instruction < b.instruction; });
        return std::move(profile_);
    }

  private:
    static constexpr std::size_t kKinds = 6;

    [[nodiscard]] std::size_t slot(std::uint16_t stage) const {
        return static_cast<std::size_t>(slot_[stage]);
    }
    [[nodiscard]] bool last(const Instruction& in) const {
        return in.part == 0 || in.part == last_part_[in.stage];
    }

    void step(const Instruction& in, std::uint32_t index) {
        if (slot_[in.stage] < 0) return;
        const std::size_t s = slot(in.stage);
        switch (in.opcode) {
            case Opcode::Forward:
                ++now_.held[s];
                record(in, index, 0);
                break;
            case Opcode::Backward:
                record(in, index, 1);
                if (last(in)) --now_.held[s];
                break;
            case Opcode::BackwardInput:
                record(in, index, 2);
                --now_.held[s];
                ++now_.held_for_weight[s];
                break;
            case Opcode::BackwardWeight:
                if (last(in)) --now_.held_for_weight[s];
                break;
            case Opcode::OverlapForwardBackward:
                ++now_.held[s];
                record(in, index, 3);
                --now_.held[slot(in.stage2)];
                break;
            case Opcode::StashWeights:
                ++now_.stashed[s];
                record(in, index, 4);
                break;
            case Opcode::Free:
                if (now_.stashed[s] > 0) --now_.stashed[s];
                break;
            case Opcode::Offload:
                if (now_.held[s] > 0) --now_.held[s];
                break;
            case Opcode::Reload:
                ++now_.held[s];
                record(in, index, 5);
                break;
            default:
                break;
        }
    }

    void record(const Instruction& in, std::uint32_t index, std::size_t kind) {
        const auto sum = [](const std::vector<std::uint16_t>& v) {
            return std::accumulate(v.begin(), v.end(), 0);
        };
        profile_.peak_in_flight =
            std::max(profile_.peak_in_flight, sum(now_.held) + sum(now_.held_for_weight));
        for (const std::uint16_t versions : now_.stashed)
            profile_.weight_versions = std::max(profile_.weight_versions, versions + 1);
        auto& kept = candidates_[slot(in.stage) * kKinds + kind];
        for (const MemorySnapshot& k : kept) {
            if (k.stage2 == in.stage2 && covers(k, now_)) return;
        }
        std::erase_if(kept,
                      [&](const MemorySnapshot& k) { return k.stage2 == in.stage2 && covers(now_, k); });
        MemorySnapshot snapshot = now_;
        snapshot.running = in.opcode;
        snapshot.stage = in.stage;
        snapshot.stage2 = in.stage2;
        snapshot.instruction = index;
        kept.push_back(std::move(snapshot));
    }

    const RankProgram& program_;
    std::vector<int> slot_;  // of each virtual stage in this rank; -1: runs elsewhere
    std::vector<std::uint32_t> last_part_;
    MemorySnapshot now_;
    std::vector<std::vector<MemorySnapshot>> candidates_;  // [stage][kind]
    RankMemoryProfile profile_;
};

}  // namespace

std::vector<RankMemoryProfile> memory_profile(const Schedule& schedule) {
    std::vector<RankMemoryProfile> profiles;
    for (const RankProgram& program : schedule.programs)
        profiles.push_back(Profiler(schedule.stages, program).run());
    return profiles;
}

std::vector<RankMemoryProfile> memory_profile(const ComputeOrder& order) {
    std::vector<RankMemoryProfile> profiles;
    RankProgram program;
    for (const std::vector<Action>& actions : order.ranks) {
        program.instructions.clear();
        for (const Action& a : actions) {
            Instruction in;
            in.opcode = a.opcode;
            in.stage = a.stage;
            in.stage2 = a.stage2;
            program.instructions.push_back(in);
        }
        profiles.push_back(Profiler(order.stages, program).run());
    }
    return profiles;
}

}  // namespace tw

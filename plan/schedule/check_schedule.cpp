#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "plan/schedule/check.hpp"
#include "plan/schedule/rendezvous.hpp"

namespace tw {
namespace {

std::string name(const Schedule& schedule, InstructionRef i) {
    return fmt::format("rank {}, {}", i.rank, to_string(schedule.programs[i.rank].instructions[i.index]));
}

class ScheduleChecker {
  public:
    explicit ScheduleChecker(const Schedule& schedule) : schedule_(schedule) {}

    Errors run() {
        check_structure();
        if (!errors_.empty()) return errors_;
        check_computes();
        if (!errors_.empty()) return errors_;
        match_transfers();
        match_collectives();
        check_versions();
        if (!errors_.empty()) return errors_;
        if (const auto deadlock = find_deadlock(schedule_, meetings_)) {
            // find_deadlock walks from effect to cause: each waits for the next.
            std::string cycle;
            for (const InstructionRef& i : *deadlock)
                cycle += name(schedule_, i) + " -> ";
            error("deadlock: " + cycle + name(schedule_, deadlock->front()), deadlock->front(),
                  "one lane for each peer and direction (PerDirection), or another order of the transfers");
            return errors_;
        }
        check_data_waits();
        return errors_;
    }

  private:
    void error(std::string message, InstructionRef where, std::string hint = {}) {
        errors_.push_back(
            {ErrorCode::Unreadable, std::move(message), name(schedule_, where), std::move(hint)});
    }
    void error(std::string message, std::string where) {
        errors_.push_back({ErrorCode::Unreadable, std::move(message), std::move(where), {}});
    }
    [[nodiscard]] const Instruction& at(InstructionRef i) const {
        return schedule_.programs[i.rank].instructions[i.index];
    }
    template <class Visit>
    void for_each(const Visit& visit) const {
        for (std::uint32_t r = 0; r < schedule_.programs.size(); ++r) {
            for (std::uint32_t i = 0; i < schedule_.programs[r].instructions.size(); ++i)
                visit(InstructionRef{r, i});
        }
    }

    void check_structure() {
        const auto stages = static_cast<std::size_t>(std::max(schedule_.stages, 0));
        if (stages == 0 || schedule_.rank_of_stage.size() != stages ||
            schedule_.replicas_of_stage.size() != stages || schedule_.groups.empty() ||
            !schedule_.groups[0].empty() || schedule_.size_classes.empty()) {
            return error("stages, their ranks, the groups or the size classes are incomplete", "schedule");
        }
        for (const auto& group : schedule_.groups) {
            for (const std::uint16_t rank : group) {
                if (rank >= schedule_.programs.size())
                    return error(fmt::format("a group holds rank {}", rank), "schedule");
            }
        }
        for (std::size_t r = 0; r < schedule_.programs.size(); ++r) {
            const RankProgram& program = schedule_.programs[r];
            if (!csr_is_sound(program))
                return error("the lists of waits do not fit the instructions", fmt::format("rank {}", r));
        }
        for_each([&](InstructionRef i) {
            const Instruction& instruction = at(i);
            for (const std::uint32_t wait : schedule_.programs[i.rank].waits_of(i.index)) {
                if (wait >= i.index)
                    error(fmt::format("waits for instruction {}, which comes later", wait), i);
            }
            if (instruction.stage >= stages)
                error(fmt::format("stage {} of {}", instruction.stage, stages), i);
            if (instruction.group >= schedule_.groups.size())
                error(fmt::format("group {} does not exist", instruction.group), i);
            if (instruction.duration_class >= schedule_.duration_classes.size() ||
                instruction.size_class >= schedule_.size_classes.size()) {
                error("an instruction class does not exist", i);
            }
            if (instruction.batch_group != 0 && !is_transfer(instruction.opcode))
                error("only transfers form batches", i);
            if (is_transfer(instruction.opcode) && instruction.peer >= schedule_.programs.size()) {
                error(fmt::format("peer {} does not exist", instruction.peer), i);
            }
        });
    }

    static bool csr_is_sound(const RankProgram& program) {
        if (program.instructions.empty() && program.wait_begin.empty()) return true;
        return program.wait_begin.size() == program.instructions.size() + 1 &&
               program.wait_begin.front() == 0 && program.wait_begin.back() == program.waits.size() &&
               std::is_sorted(program.wait_begin.begin(), program.wait_begin.end());
    }

    // The computes alone must be a legal order. Chunks of a split backward count as one.
    void check_computes() {
        ComputeOrder order;
        order.stages = schedule_.stages;
        order.microbatches = schedule_.microbatches;
        order.steps = schedule_.steps;
        order.rank_of_stage = schedule_.rank_of_stage;
        order.replicas_of_stage = schedule_.replicas_of_stage;
        order.ranks.resize(schedule_.programs.size());
        std::uint32_t chunk = 0;  // the last one seen of a backward that is not complete
        for_each([&](InstructionRef i) {
            const Instruction& instruction = at(i);
            if (!is_compute(instruction.opcode)) return;
            if (instruction.stream != Stream::Compute || instruction.communicator != 0) {
                error("computes run on the compute stream", i);
            }
            auto& actions = order.ranks[i.rank];
            const Action action{instruction.opcode, instruction.stage,       instruction.microbatch,
                                instruction.stage2, instruction.microbatch2, 0};
            if (instruction.part > 0 && instruction.part != chunk + 1 && instruction.part != 1) {
                error(
                    fmt::format("chunk {} does not follow chunk {}", instruction.part, instruction.part - 1),
                    i);
            }
            const bool continues = instruction.part > 1 && !actions.empty() && actions.back() == action;
            chunk = instruction.part;
            if (!continues) actions.push_back(action);
        });
        const Errors found = check_order(order);
        errors_.insert(errors_.end(), found.begin(), found.end());
    }

    // What a transfer moves: (gradient, receiving stage, microbatch).
    using Payload = std::tuple<bool, int, std::int32_t>;
    static Payload payload(const Instruction& instruction) {
        switch (instruction.opcode) {
            case Opcode::SendActivation:
                return {false, instruction.stage + 1, instruction.microbatch};
            case Opcode::RecvActivation:
                return {false, instruction.stage, instruction.microbatch};
            case Opcode::SendGrad:
                return {true, instruction.stage - 1, instruction.microbatch};
            default:
                return {true, instruction.stage, instruction.microbatch};
        }
    }

    [[nodiscard]] int rank_of(int stage, std::int32_t microbatch) const {
        const auto s = static_cast<std::size_t>(stage);
        return schedule_.rank_of_stage[s] + microbatch % schedule_.replicas_of_stage[s];
    }

    void match_transfers() {
        std::map<Payload, std::array<std::vector<InstructionRef>, 2>> ends;  // sends, receives
        for_each([&](InstructionRef i) {
            if (is_transfer(at(i).opcode)) ends[payload(at(i))][is_send(at(i).opcode) ? 0 : 1].push_back(i);
        });
        const std::int32_t total = schedule_.steps * schedule_.microbatches;
        for (const auto& [key, both] : ends) {
            const auto& [sends, receives] = both;
            if (sends.empty()) {
                error("receives what nobody sends", receives.front());
            } else if (receives.empty()) {
                error("sends what nobody receives", sends.front());
            } else if (sends.size() > 1) {
                error("sent twice", sends[1]);
            } else if (receives.size() > 1) {
                error("received twice", receives[1]);
            } else if (at(sends[0]).peer != receives[0].rank || at(receives[0]).peer != sends[0].rank) {
                error(fmt::format("names rank {} as its peer, {} names rank {}", at(sends[0]).peer,
                                  name(schedule_, receives[0]), at(receives[0]).peer),
                      sends[0]);
            } else {
                meetings_.push_back({sends[0], receives[0]});
            }
        }
        for (int s = 0; s + 1 < schedule_.stages; ++s) {
            for (std::int32_t b = 0; b < total; ++b) {
                if (rank_of(s, b) == rank_of(s + 1, b)) continue;
                for (const bool gradient : {false, true}) {
                    if (ends.contains(Payload{gradient, gradient ? s : s + 1, b})) continue;
                    Instruction missing;
                    missing.opcode = gradient ? Opcode::SendGrad : Opcode::SendActivation;
                    missing.stage = static_cast<std::uint16_t>(gradient ? s + 1 : s);
                    missing.microbatch = b;
                    error("never sent",
                          fmt::format("rank {}, {}", rank_of(missing.stage, b), to_string(missing)));
                }
            }
        }
        check_same_order();
    }

    // Messages between two ranks carry no tag: the k-th receive gets the k-th send.
    void check_same_order() {
        std::map<std::pair<std::uint32_t, std::uint32_t>, std::array<std::vector<InstructionRef>, 2>> queues;
        for_each([&](InstructionRef i) {
            const Instruction& instruction = at(i);
            if (is_send(instruction.opcode)) queues[{i.rank, instruction.peer}][0].push_back(i);
            if (is_receive(instruction.opcode)) queues[{instruction.peer, i.rank}][1].push_back(i);
        });
        for (const auto& [ranks, queue] : queues) {
            const auto& [sends, receives] = queue;
            for (std::size_t k = 0; k < std::min(sends.size(), receives.size()); ++k) {
                if (payload(at(sends[k])) == payload(at(receives[k]))) continue;
                error(fmt::format("message {} from rank {} to rank {} is sent as {} and received as {}", k,
                                  ranks.first, ranks.second, to_string(at(sends[k])),
                                  to_string(at(receives[k]))),
                      receives[k]);
                break;
            }
        }
    }

    void match_collectives() {
        for (std::size_t g = 1; g < schedule_.groups.size(); ++g) {
            std::vector<std::vector<InstructionRef>> entries;
            for (const std::uint16_t rank : schedule_.groups[g]) {
                auto& own = entries.emplace_back();
                for (std::uint32_t i = 0; i < schedule_.programs[rank].instructions.size(); ++i) {
                    const Instruction& instruction = schedule_.programs[rank].instructions[i];
                    if (is_collective(instruction.opcode) && instruction.group == g) own.push_back({rank, i});
                }
            }
            for (std::size_t k = 0; k < entries.front().size(); ++k) {
                std::vector<InstructionRef> meeting;
                const Instruction& first = at(entries.front()[k]);
                for (std::size_t member = 0; member < entries.size(); ++member) {
                    if (k >= entries[member].size()) {
                        error(fmt::format("rank {} of its group never enters", schedule_.groups[g][member]),
                              entries.front()[k]);
                        return;
                    }
                    const Instruction& other = at(entries[member][k]);
                    if (other.opcode != first.opcode || other.stage != first.stage ||
                        other.part != first.part) {
                        error(
                            fmt::format("rank {} enters {} here", entries[member][k].rank, to_string(other)),
                            entries.front()[k]);
                        return;
                    }
                    meeting.push_back(entries[member][k]);
                }
                meetings_.push_back(std::move(meeting));
            }
            for (const auto& own : entries) {
                if (own.size() > entries.front().size()) {
                    error(fmt::format("rank {} of its group never enters", schedule_.groups[g].front()),
                          own[entries.front().size()]);
                    return;
                }
            }
        }
        for_each([&](InstructionRef i) {
            if (!is_collective(at(i).opcode) || at(i).group == 0) return;
            const auto& group = schedule_.groups[at(i).group];
            if (std::find(group.begin(), group.end(), i.rank) == group.end())
                error("enters a group it is not in", i);
        });
    }

    // Asynchronous schedules: a version is used while it is current or stashed.
    void check_versions() {
        for (std::uint32_t r = 0; r < schedule_.programs.size(); ++r) {
            std::map<std::uint16_t, std::uint16_t> current;
            std::map<std::uint16_t, std::set<std::uint16_t>> stashed;
            for (std::uint32_t k = 0; k < schedule_.programs[r].instructions.size(); ++k) {
                const InstructionRef i{r, k};
                const Instruction& instruction = at(i);
                const std::uint16_t version = instruction.weight_version;
                if (is_compute(instruction.opcode)) {
                    if (current[instruction.stage] != version &&
                        !stashed[instruction.stage].contains(version)) {
                        error(fmt::format("weight version {} is neither current nor stashed", version), i);
                    }
                } else if (instruction.opcode == Opcode::StashWeights) {
                    if (current[instruction.stage] != version)
                        error("stashes a version that is not current", i);
                    if (!stashed[instruction.stage].insert(version).second) error("stashed twice", i);
                } else if (instruction.opcode == Opcode::Free) {
                    if (stashed[instruction.stage].erase(version) == 0)
                        error("frees a version that is not stashed", i);
                } else if (instruction.opcode == Opcode::OptimizerStep) {
                    if (stashed[instruction.stage].contains(version))
                        error("overwrites a stashed version", i);
                    current[instruction.stage] = version;
                }
            }
        }
    }

    // For every lane of one rank, up to where it is known to be done when an instruction starts; waits of
    // waits count.
    void check_data_waits() {
        for (std::uint32_t r = 0; r < schedule_.programs.size(); ++r) {
            const RankProgram& program = schedule_.programs[r];
            std::map<std::pair<Stream, std::uint16_t>, std::size_t> lane_numbers;
            std::vector<std::size_t> lane(program.instructions.size());
            for (std::size_t i = 0; i < lane.size(); ++i) {
                const auto key =
                    std::pair{program.instructions[i].stream, program.instructions[i].communicator};
                lane[i] = lane_numbers.try_emplace(key, lane_numbers.size()).first->second;
            }
            const std::size_t lanes = lane_numbers.size();
            // done[i * lanes + l]: instructions of lane l below this index are done before i starts.
            std::vector<std::uint32_t> done(program.instructions.size() * lanes, 0);
            std::vector<std::uint32_t> last(lanes, 0);  // 1 + the lane's last instruction so far
            std::map<Payload, std::uint32_t> received, produced;
            for (std::uint32_t i = 0; i < program.instructions.size(); ++i) {
                const auto learn = [&](std::uint32_t earlier) {
                    for (std::size_t l = 0; l < lanes; ++l) {
                        done[i * lanes + l] = std::max(done[i * lanes + l], done[earlier * lanes + l]);
                    }
                    done[i * lanes + lane[earlier]] = std::max(done[i * lanes + lane[earlier]], earlier + 1);
                };
                if (last[lane[i]] > 0) learn(last[lane[i]] - 1);
                for (const std::uint32_t wait : program.waits_of(i))
                    learn(wait);
                last[lane[i]] = i + 1;
                const auto needs = [&](const std::map<Payload, std::uint32_t>& table, const Payload& what,
                                       const char* which) {
                    const auto found = table.find(what);
                    if (found == table.end() || done[i * lanes + lane[found->second]] <= found->second) {
                        error(fmt::format("does not wait for {}", which), InstructionRef{r, i});
                    }
                };
                const Instruction& in = program.instructions[i];
                const auto forward = [&](int stage, std::int32_t microbatch) {
                    if (stage > 0 && rank_of(stage - 1, microbatch) != static_cast<int>(r)) {
                        needs(received, {false, stage, microbatch}, "its activation");
                    }
                    produced[{false, stage + 1, microbatch}] = i;
                };
                const auto backward = [&](int stage, std::int32_t microbatch) {
                    if (stage + 1 < schedule_.stages &&
                        rank_of(stage + 1, microbatch) != static_cast<int>(r)) {
                        needs(received, {true, stage, microbatch}, "its gradient");
                    }
                    produced[{true, stage - 1, microbatch}] = i;
                };
                if (is_receive(in.opcode)) received[payload(in)] = i;
                if (is_send(in.opcode)) needs(produced, payload(in), "what it sends");
                if (in.opcode == Opcode::Forward) forward(in.stage, in.microbatch);
                if (in.opcode == Opcode::Backward || in.opcode == Opcode::BackwardInput)
                    backward(in.stage, in.microbatch);
                if (in.opcode == Opcode::OverlapForwardBackward) {
                    forward(in.stage, in.microbatch);
                    backward(in.stage2, in.microbatch2);
                }
            }
        }
    }

    const Schedule& schedule_;
    Meetings meetings_;
    Errors errors_;
};

}  // namespace

Errors check_schedule(const Schedule& schedule) {
    return ScheduleChecker(schedule).run();
}

}  // namespace tw

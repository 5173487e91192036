#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "plan/schedule/passes/passes.hpp"
#include "plan/schedule/passes/prototypes.hpp"
#include "plan/schedule/replay.hpp"

namespace tw {
namespace {

constexpr std::uint32_t kNone = 0xffffffffU;

// Both ends of the transfers of one stage in one direction, but for their microbatch.
struct Link {
    Instruction send, receive;
    std::uint32_t* received = nullptr;  // by microbatch: the receives' indices
    bool made = false;
    bool crosses = false;  // from one rank to another
};

// One rank's program while it is filled: its arrays have room for all that it can become, and are cut in the
// end.
struct Program {
    std::vector<Instruction>* instructions = nullptr;
    std::uint32_t* wait_begin = nullptr;  // of the next instruction; its waits begin there
    std::uint32_t* waits = nullptr;
    std::uint32_t waited = 0;
    std::uint32_t size = 0;
    std::uint32_t limit = 0;
    std::uint32_t compute = 0;  // the last one

    Program(RankProgram& program, const std::vector<Action>& actions) : instructions(&program.instructions) {
        // A compute with a send and a receive for each of its passes; a send waits for its compute, which
        // waits for its receive, and the next compute perhaps for the send.
        std::size_t passes = 0;
        for (const Action& action : actions)
            passes += action.opcode == Opcode::OverlapForwardBackward ? 2
                      : action.opcode == Opcode::BackwardWeight       ? 0
                                                                      : 1;
        limit = static_cast<std::uint32_t>(actions.size() + 2 * passes);
        program.instructions.reserve(limit);
        program.wait_begin.resize(limit + std::size_t{1});
        program.waits.resize(3 * passes);
        wait_begin = program.wait_begin.data();
        waits = program.waits.data();
    }

    // Of the instruction that append() adds next.
    void wait_for(std::uint32_t earlier) { waits[waited++] = earlier; }
    // Fields that differ from the prototype's are set in place: a copy right after narrow stores waits for
    // them.
    Instruction& append(const Instruction& prototype) {
        TW_CHECK_MSG(size < limit, "a rank receives what it has no use for");
        Instruction& instruction = instructions->emplace_back(prototype);
        wait_begin[++size] = waited;
        return instruction;
    }
};

// Builds all programs while a replay runs: a compute is appended when it starts, its transfers on both ends
// when it finishes. Every dependency, lane and wait then points backwards in one global order, so the waits
// are acyclic under rendezvous in every lane layout.
class TransferPlacer {
  public:
    TransferPlacer(const ComputeOrder& order, const LoweringOptions& options, Schedule& schedule)
        : order_(order),
          options_(options),
          schedule_(schedule),
          lanes_(options.batch_p2p && options.p2p == LoweringOptions::P2p::PerDirection
                     ? LoweringOptions::P2p::PerPeer  // a batch is one call on one lane
                     : options.p2p),
          // Most orders need neither, and it costs a look at every start.
          posts_(options.overlap_p2p && !options.batch_p2p),
          total_(static_cast<std::size_t>(order.total_microbatches())),
          received_activation_(static_cast<std::size_t>(order.stages) * total_, kNone),
          received_grad_(received_activation_.size(), kNone),
          open_sends_(order.ranks.size()),
          batches_(order.ranks.size(), 0),
          activations_(static_cast<std::size_t>(order.stages)),
          grads_(static_cast<std::size_t>(order.stages)),
          computes_(kComputes * static_cast<std::size_t>(order.stages), nullptr),
          prototypes_(schedule) {
        schedule.programs.resize(order.ranks.size());
        std::size_t most = 0;
        for (std::size_t r = 0; r < order.ranks.size(); ++r) {
            programs_.emplace_back(schedule.programs[r], order.ranks[r]);
            most += programs_.back().limit;
        }
        schedule.senders.clear();
        schedule.senders.reserve(most / 2);
    }

    void start(std::size_t rank, const Action& action) {
        Program& program = programs_[rank];
        if (!posts_) wait_for_sends(rank);
        const auto wait_for = [&](std::uint32_t index) {
            if (index != kNone) program.wait_for(index);
        };
        if (action.opcode == Opcode::Forward) {
            wait_for(received_activation_[cell(action.stage, action.microbatch)]);
        } else if (action.opcode == Opcode::OverlapForwardBackward) {
            wait_for(received_activation_[cell(action.stage, action.microbatch)]);
            wait_for(received_grad_[cell(action.stage2, action.microbatch2)]);
        } else if (action.opcode != Opcode::BackwardWeight) {
            wait_for(received_grad_[cell(action.stage, action.microbatch)]);
        }
        program.compute = program.size;
        Instruction& instruction = program.append(prototype_of(action));
        instruction.microbatch = action.microbatch;
        instruction.microbatch2 = action.microbatch2;
        instruction.weight_version = action.weight_version;
    }

    void finish(std::size_t rank, const Action& action) {
        if (action.opcode == Opcode::Forward) {
            send(activations_[action.stage], rank, action.stage, action.microbatch);
        } else if (action.opcode == Opcode::Backward || action.opcode == Opcode::BackwardInput) {
            send(grads_[action.stage], rank, action.stage, action.microbatch);
        } else if (action.opcode == Opcode::OverlapForwardBackward) {
            send(activations_[action.stage], rank, action.stage, action.microbatch);
            send(grads_[action.stage2], rank, action.stage2, action.microbatch2);
        }
    }

    // Everything has finished.
    void end() {
        flush();  // of the last to finish
        for (std::size_t r = 0; r < programs_.size(); ++r) {
            schedule_.programs[r].wait_begin.resize(programs_[r].size + std::size_t{1});
            schedule_.programs[r].waits.resize(programs_[r].waited);
        }
    }

  private:
    [[nodiscard]] std::size_t cell(std::size_t stage, std::int32_t microbatch) const {
        return stage * total_ + static_cast<std::size_t>(microbatch);
    }

    // Made when the first is placed; that of an overlap depends on both of its stages.
    const Instruction& prototype_of(const Action& action) {
        const auto row = static_cast<std::size_t>(action.opcode);
        if (row >= kComputes) return prototypes_.of(action.opcode, action.stage, action.stage2);
        const Instruction*& known = computes_[kComputes * action.stage + row];
        if (known == nullptr) known = &prototypes_.of(action.opcode, action.stage);
        return *known;
    }

    void wait_for_sends(std::size_t rank) {
        flush();
        for (const std::uint32_t send : open_sends_[rank])
            programs_[rank].wait_for(send);
        open_sends_[rank].clear();
    }

    // Replicas of a stage take turns: their links are made anew.
    void make(Link& link, std::size_t rank, std::uint16_t stage, std::int32_t microbatch) {
        const bool activation = &link == &activations_[stage];
        link.made = true;
        link.crosses = false;
        if (activation ? stage + 1 == order_.stages : stage == 0) return;
        const auto to = static_cast<std::uint16_t>(activation ? stage + 1 : stage - 1);
        const auto from_rank = static_cast<std::uint16_t>(rank);
        const auto to_rank = static_cast<std::uint16_t>(order_.rank_of(to, microbatch));
        link.made = order_.replicas_of_stage[stage] == 1 && order_.replicas_of_stage[to] == 1;
        if (from_rank == to_rank) return;
        link.crosses = true;
        link.received = (activation ? received_activation_ : received_grad_).data() + to * total_;
        link.send = prototypes_.of(activation ? Opcode::SendActivation : Opcode::SendGrad, stage);
        link.send.peer = to_rank;
        link.send.communicator = p2p_lane(lanes_, to_rank, true);
        link.receive = prototypes_.of(activation ? Opcode::RecvActivation : Opcode::RecvGrad, to);
        link.receive.peer = from_rank;
        link.receive.communicator = p2p_lane(lanes_, from_rank, false);
    }

    void send(Link& link, std::size_t rank, std::uint16_t stage, std::int32_t microbatch) {
        if (!link.made) make(link, rank, stage, microbatch);
        if (!link.crosses) return;
        if (posts_ || !options_.batch_p2p) return place(link, microbatch);
        pending_.push_back(link);
        pending_.back().send.microbatch = microbatch;
    }

    void place(const Link& link, std::int32_t microbatch) {
        Program& sender = programs_[link.receive.peer];
        Program& receiver = programs_[link.send.peer];
        schedule_.senders.push_back(link.receive.peer);
        if (!posts_ && !options_.overlap_p2p) open_sends_[link.receive.peer].push_back(sender.size);
        // What it sends is what its rank computed last: the next compute starts after this.
        sender.wait_for(sender.compute);
        sender.append(link.send).microbatch = microbatch;
        link.received[microbatch] = receiver.size;
        receiver.append(link.receive).microbatch = microbatch;
    }

    // Places the transfers of everything that finished before a compute starts, those of one pair of ranks
    // together and with their opposites in one batch.
    void flush() {
        std::stable_sort(pending_.begin(), pending_.end(), [](const Link& a, const Link& b) {
            return std::minmax(a.receive.peer, a.send.peer) < std::minmax(b.receive.peer, b.send.peer);
        });
        for (const Link& link : pending_) {
            Instruction* const sent = last_of(link.receive.peer);
            Instruction* const received = last_of(link.send.peer);
            const bool batch =
                is_opposite(sent, link.send.peer, false) && is_opposite(received, link.receive.peer, true);
            place(link, link.send.microbatch);
            if (!batch) continue;
            sent->batch_group = last_of(link.receive.peer)->batch_group = ++batches_[link.receive.peer];
            received->batch_group = last_of(link.send.peer)->batch_group = ++batches_[link.send.peer];
        }
        pending_.clear();
    }

    // A program's last instruction; null where there is none.
    Instruction* last_of(std::size_t rank) {
        std::vector<Instruction>& instructions = *programs_[rank].instructions;
        return instructions.empty() ? nullptr : &instructions.back();
    }

    // Whether a program's last instruction is an ungrouped transfer with `peer` in the opposite direction of
    // the next one.
    static bool is_opposite(const Instruction* last, std::uint16_t peer, bool send) {
        return last != nullptr && (send ? is_send(last->opcode) : is_receive(last->opcode)) &&
               last->peer == peer && last->batch_group == 0;
    }

    const ComputeOrder& order_;
    const LoweringOptions& options_;
    Schedule& schedule_;
    LoweringOptions::P2p lanes_;
    bool posts_;  // a transfer is placed when its producer finishes, and no compute waits for a send
    std::size_t total_;
    std::vector<std::uint32_t> received_activation_, received_grad_;  // by stage and microbatch
    std::vector<std::vector<std::uint32_t>> open_sends_;  // by rank: what the next compute waits for
    std::vector<std::uint16_t> batches_;
    std::vector<Link> activations_, grads_;  // by sending stage
    static constexpr std::size_t kComputes = static_cast<std::size_t>(Opcode::OverlapForwardBackward);
    std::vector<const Instruction*> computes_;  // by stage and opcode
    std::vector<Link> pending_;                 // of batched calls; their sends have the microbatch
    std::vector<Program> programs_;
    Prototypes prototypes_;
};

}  // namespace

std::uint16_t p2p_lane(LoweringOptions::P2p p2p, std::uint16_t peer, bool send) {
    switch (p2p) {
        case LoweringOptions::P2p::PerDirection:
            return static_cast<std::uint16_t>(2 * peer + (send ? 0 : 1));
        case LoweringOptions::P2p::PerPeer:
            return peer;
        default:
            return 0;
    }
}

bool place_transfers(const ComputeOrder& order, const LoweringOptions& options, Schedule& schedule) {
    TransferPlacer placer(order, options, schedule);
    const ReplayResult result = replay(
        order, UnitCosts{},
        [&](std::size_t rank, std::size_t index, std::int64_t) {
            placer.start(rank, order.ranks[rank][index]);
        },
        [&](std::size_t rank, std::size_t index, std::int64_t) {
            placer.finish(rank, order.ranks[rank][index]);
        });
    placer.end();
    return result.complete;
}

}  // namespace tw

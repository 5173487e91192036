#include <algorithm>
#include <array>

#include "base/check.hpp"
#include "plan/schedule/passes/passes.hpp"
#include "plan/schedule/passes/prototypes.hpp"
#include "plan/schedule/replay.hpp"

namespace tw {
namespace {

constexpr std::uint32_t kNone = 0xffffffffU;

struct Transfer {
    Opcode send = Opcode::SendActivation;
    std::uint16_t from_stage = 0, to_stage = 0;
    std::int32_t microbatch = 0;
    std::uint16_t from_rank = 0, to_rank = 0;
    std::uint32_t producer = 0;  // index in the sender's program
};

// Fills one rank's program in place: its arrays are made as long as they can become, and cut in the end.
class ProgramWriter {
  public:
    ProgramWriter(RankProgram& program, const std::vector<Action>& actions) : program_(&program) {
        std::size_t instructions = 0, waits = 0;
        for (const Action& action : actions) {
            // A compute with a send and a receive for each of its passes; a send waits for its compute, which
            // waits for its receive, and the next compute perhaps for the send.
            const std::size_t passes = action.opcode == Opcode::OverlapForwardBackward ? 2
                                       : action.opcode == Opcode::BackwardWeight       ? 0
                                                                                       : 1;
            instructions += 1 + 2 * passes;
            waits += 3 * passes;
        }
        program.instructions.resize(instructions);
        program.wait_begin.resize(instructions + 1);
        program.waits.resize(waits);
        most_instructions_ = instructions;
        most_waits_ = waits;
        instructions_ = program.instructions.data();
        wait_begin_ = program.wait_begin.data();
        waits_ = program.waits.data();
    }

    // Of the instruction that append() adds next.
    void wait_for(std::uint32_t earlier) {
        TW_CHECK(waited_ < most_waits_);
        waits_[waited_++] = earlier;
    }
    // Fields that differ from the prototype's are set in place: a copy right after narrow stores waits for
    // them.
    Instruction& append(const Instruction& prototype) {
        TW_CHECK_MSG(size_ < most_instructions_, "a rank receives what it has no use for");
        Instruction& instruction = instructions_[size_++];
        instruction = prototype;
        wait_begin_[size_] = waited_;
        return instruction;
    }
    [[nodiscard]] std::uint32_t last() const { return size_ - 1; }
    // The last instruction; null where there is none.
    [[nodiscard]] Instruction* back() const { return size_ == 0 ? nullptr : instructions_ + last(); }

    void cut() {
        program_->instructions.resize(size_);
        program_->wait_begin.resize(size_ + std::size_t{1});
        program_->waits.resize(waited_);
    }

  private:
    RankProgram* program_;
    Instruction* instructions_ = nullptr;
    std::uint32_t* wait_begin_ = nullptr;
    std::uint32_t* waits_ = nullptr;
    std::uint32_t size_ = 0, waited_ = 0;
    std::size_t most_instructions_ = 0, most_waits_ = 0;
};

// Builds all programs while a replay runs: a compute is appended when it starts, its transfers on both ends
// when it finishes. Every dependency, lane and wait then points backwards in one global order, so the waits
// are acyclic under rendezvous in every lane layout.
class TransferPlacer {
  public:
    TransferPlacer(const ComputeOrder& order, const LoweringOptions& options, Schedule& schedule)
        : order_(order),
          options_(options),
          lanes_(options.batch_p2p && options.p2p == LoweringOptions::P2p::PerDirection
                     ? LoweringOptions::P2p::PerPeer  // a batch is one call on one lane
                     : options.p2p),
          total_(static_cast<std::size_t>(order.total_microbatches())),
          received_activation_(static_cast<std::size_t>(order.stages) * total_, kNone),
          received_grad_(received_activation_.size(), kNone),
          current_(order.ranks.size(), kNone),
          open_sends_(order.ranks.size()),
          batches_(order.ranks.size(), 0),
          ends_(static_cast<std::size_t>(order.stages) * 4, nullptr),
          prototypes_(schedule) {
        schedule.programs.resize(order.ranks.size());
        for (std::size_t r = 0; r < order.ranks.size(); ++r)
            programs_.emplace_back(schedule.programs[r], order.ranks[r]);
    }

    void start(std::size_t rank, const Action& action) {
        if (!pending_.empty()) flush();
        ProgramWriter& program = programs_[rank];
        if (!open_sends_[rank].empty()) {
            for (const std::uint32_t send : open_sends_[rank])
                program.wait_for(send);
            open_sends_[rank].clear();
        }
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
        Instruction& instruction = program.append(prototypes_.of(action.opcode, action.stage, action.stage2));
        instruction.microbatch = action.microbatch;
        instruction.microbatch2 = action.microbatch2;
        instruction.weight_version = action.weight_version;
        current_[rank] = program.last();
    }

    void finish(std::size_t rank, const Action& action) {
        if (action.opcode == Opcode::Forward || action.opcode == Opcode::OverlapForwardBackward) {
            send_activation(rank, action.stage, action.microbatch);
        }
        if (action.opcode == Opcode::OverlapForwardBackward) {
            send_grad(rank, action.stage2, action.microbatch2);
        } else if (action.opcode == Opcode::Backward || action.opcode == Opcode::BackwardInput) {
            send_grad(rank, action.stage, action.microbatch);
        }
    }

    // Everything has finished.
    void end() {
        flush();  // of the last to finish
        for (ProgramWriter& program : programs_)
            program.cut();
    }

  private:
    // Places the transfers of everything that finished at one time, those of one pair of ranks together.
    void flush() {
        if (options_.batch_p2p) {
            std::stable_sort(pending_.begin(), pending_.end(), [](const Transfer& a, const Transfer& b) {
                return std::minmax(a.from_rank, a.to_rank) < std::minmax(b.from_rank, b.to_rank);
            });
        }
        for (const Transfer& transfer : pending_)
            place(transfer);
        pending_.clear();
    }

    [[nodiscard]] std::size_t cell(std::size_t stage, std::int32_t microbatch) const {
        return stage * total_ + static_cast<std::size_t>(microbatch);
    }

    void send_activation(std::size_t rank, std::uint16_t stage, std::int32_t microbatch) {
        if (stage + 1 == order_.stages) return;
        queue(Opcode::SendActivation, rank, stage, static_cast<std::uint16_t>(stage + 1), microbatch);
    }
    void send_grad(std::size_t rank, std::uint16_t stage, std::int32_t microbatch) {
        if (stage == 0) return;
        queue(Opcode::SendGrad, rank, stage, static_cast<std::uint16_t>(stage - 1), microbatch);
    }
    void queue(Opcode send, std::size_t rank, std::uint16_t from, std::uint16_t to, std::int32_t microbatch) {
        const int peer =
            order_.replicas_of_stage[to] == 1 ? order_.rank_of_stage[to] : order_.rank_of(to, microbatch);
        if (peer == static_cast<int>(rank)) return;
        pending_.push_back({send, from, to, microbatch, static_cast<std::uint16_t>(rank),
                            static_cast<std::uint16_t>(peer), current_[rank]});
    }

    // A transfer's instruction of a stage, made when the first is placed.
    const Instruction& end_of(Opcode opcode, std::uint16_t stage) {
        const auto row = static_cast<std::size_t>(opcode) - static_cast<std::size_t>(Opcode::SendActivation);
        const Instruction*& known = ends_[row * static_cast<std::size_t>(order_.stages) + stage];
        if (known == nullptr) known = &prototypes_.of(opcode, stage);
        return *known;
    }

    void place(const Transfer& t) {
        ProgramWriter& sender = programs_[t.from_rank];
        ProgramWriter& receiver = programs_[t.to_rank];
        std::uint16_t send_batch = 0, receive_batch = 0;
        if (options_.batch_p2p && is_opposite(sender.back(), t.to_rank, false) &&
            is_opposite(receiver.back(), t.from_rank, true)) {
            sender.back()->batch_group = send_batch = ++batches_[t.from_rank];
            receiver.back()->batch_group = receive_batch = ++batches_[t.to_rank];
        }
        sender.wait_for(t.producer);
        Instruction& send = sender.append(end_of(t.send, t.from_stage));
        send.microbatch = t.microbatch;
        send.peer = t.to_rank;
        send.communicator = p2p_lane(lanes_, t.to_rank, true);
        send.batch_group = send_batch;
        if (!options_.overlap_p2p) open_sends_[t.from_rank].push_back(sender.last());

        const bool activation = t.send == Opcode::SendActivation;
        Instruction& receive =
            receiver.append(end_of(activation ? Opcode::RecvActivation : Opcode::RecvGrad, t.to_stage));
        receive.microbatch = t.microbatch;
        receive.peer = t.from_rank;
        receive.communicator = p2p_lane(lanes_, t.from_rank, false);
        receive.batch_group = receive_batch;
        (activation ? received_activation_ : received_grad_)[cell(t.to_stage, t.microbatch)] =
            receiver.last();
    }

    // Whether a program's last instruction is an ungrouped transfer with `peer` in the opposite direction of
    // the next one.
    static bool is_opposite(const Instruction* last, std::uint16_t peer, bool send) {
        return last != nullptr && (send ? is_send(last->opcode) : is_receive(last->opcode)) &&
               last->peer == peer && last->batch_group == 0;
    }

    const ComputeOrder& order_;
    const LoweringOptions& options_;
    LoweringOptions::P2p lanes_;
    std::size_t total_;
    std::vector<std::uint32_t> received_activation_, received_grad_;  // by stage and microbatch
    std::vector<std::uint32_t> current_;                              // by rank: the compute that runs
    std::vector<std::vector<std::uint32_t>> open_sends_;  // by rank: what the next compute waits for
    std::vector<std::uint16_t> batches_;
    std::vector<const Instruction*> ends_;  // by opcode and stage
    std::vector<Transfer> pending_;
    std::vector<ProgramWriter> programs_;
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

void place_transfers(const ComputeOrder& order, const LoweringOptions& options, Schedule& schedule) {
    TransferPlacer placer(order, options, schedule);
    const ReplayResult result = replay(
        order, UnitCosts{},
        [&](std::size_t rank, std::size_t index, std::int64_t) {
            placer.start(rank, order.ranks[rank][index]);
        },
        [&](std::size_t rank, std::size_t index, std::int64_t) {
            placer.finish(rank, order.ranks[rank][index]);
        });
    TW_CHECK_MSG(result.complete, "the order waits for itself; check_order names where");
    placer.end();
}

}  // namespace tw

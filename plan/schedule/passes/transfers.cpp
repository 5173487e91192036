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

// Builds all programs while a replay runs: a compute is appended when it starts, its transfers on both ends
// when it finishes. Every dependency, lane and wait then points backwards in one global order, so the waits
// are acyclic under rendezvous in every lane layout.
class TransferPlacer {
  public:
    TransferPlacer(const ComputeOrder& order, const LoweringOptions& options, Schedule& schedule)
        : order_(order),
          options_(options),
          schedule_(schedule),
          total_(static_cast<std::size_t>(order.total_microbatches())),
          received_activation_(static_cast<std::size_t>(order.stages) * total_, kNone),
          received_grad_(received_activation_.size(), kNone),
          current_(order.ranks.size(), kNone),
          open_sends_(order.ranks.size()),
          batches_(order.ranks.size(), 0),
          prototypes_(schedule) {
        schedule.programs.resize(order.ranks.size());
        for (std::size_t r = 0; r < order.ranks.size(); ++r) {
            const std::size_t expected = 3 * order.ranks[r].size();  // a compute, its receive and its send
            RankProgram& program = schedule.programs[r];
            program.instructions.reserve(expected);
            program.wait_begin.reserve(expected + 1);
            program.waits.reserve(expected);
            program.wait_begin.push_back(0);
        }
    }

    void start(std::size_t rank, const Action& action) {
        flush();
        waits_ = open_sends_[rank];
        open_sends_[rank].clear();
        const auto add = [&](std::uint32_t index) {
            if (index != kNone) waits_.push_back(index);
        };
        if (action.opcode == Opcode::Forward) {
            add(received_activation_[cell(action.stage, action.microbatch)]);
        } else if (action.opcode == Opcode::OverlapForwardBackward) {
            add(received_activation_[cell(action.stage, action.microbatch)]);
            add(received_grad_[cell(action.stage2, action.microbatch2)]);
        } else if (action.opcode != Opcode::BackwardWeight) {
            add(received_grad_[cell(action.stage, action.microbatch)]);
        }
        RankProgram& program = schedule_.programs[rank];
        current_[rank] = program.append(prototypes_.of(action.opcode, action.stage, action.stage2), waits_);
        // Fields are set in place: a copy right after narrow stores waits for them (a third of lowering's
        // time).
        Instruction& instruction = program.instructions.back();
        instruction.microbatch = action.microbatch;
        instruction.microbatch2 = action.microbatch2;
        instruction.weight_version = action.weight_version;
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

    // Places the transfers of everything that finished at one time, those of one pair of ranks together.
    void flush() {
        if (pending_.empty()) return;
        if (options_.batch_p2p) {
            std::stable_sort(pending_.begin(), pending_.end(), [](const Transfer& a, const Transfer& b) {
                return std::minmax(a.from_rank, a.to_rank) < std::minmax(b.from_rank, b.to_rank);
            });
        }
        for (const Transfer& transfer : pending_)
            place(transfer);
        pending_.clear();
    }

  private:
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
        const int peer = order_.rank_of(to, microbatch);
        if (peer == static_cast<int>(rank)) return;
        pending_.push_back({send, from, to, microbatch, static_cast<std::uint16_t>(rank),
                            static_cast<std::uint16_t>(peer), current_[rank]});
    }

    [[nodiscard]] std::uint16_t lane(std::uint16_t peer, bool send) const {
        const bool one_a_peer = options_.batch_p2p && options_.p2p == LoweringOptions::P2p::PerDirection;
        return p2p_lane(one_a_peer ? LoweringOptions::P2p::PerPeer : options_.p2p, peer, send);
    }

    void place(const Transfer& t) {
        RankProgram& sender = schedule_.programs[t.from_rank];
        RankProgram& receiver = schedule_.programs[t.to_rank];
        std::uint16_t send_batch = 0, receive_batch = 0;
        if (options_.batch_p2p && is_opposite(sender, t.to_rank, false) &&
            is_opposite(receiver, t.from_rank, true)) {
            sender.instructions.back().batch_group = send_batch = ++batches_[t.from_rank];
            receiver.instructions.back().batch_group = receive_batch = ++batches_[t.to_rank];
        }
        const std::uint32_t sent =
            sender.append(prototypes_.of(t.send, t.from_stage), std::array{t.producer});
        Instruction& send = sender.instructions.back();
        send.microbatch = t.microbatch;
        send.peer = t.to_rank;
        send.communicator = lane(t.to_rank, true);
        send.batch_group = send_batch;
        if (!options_.overlap_p2p) open_sends_[t.from_rank].push_back(sent);

        const bool activation = t.send == Opcode::SendActivation;
        auto& table = activation ? received_activation_ : received_grad_;
        table[cell(t.to_stage, t.microbatch)] = receiver.append(
            prototypes_.of(activation ? Opcode::RecvActivation : Opcode::RecvGrad, t.to_stage));
        Instruction& receive = receiver.instructions.back();
        receive.microbatch = t.microbatch;
        receive.peer = t.from_rank;
        receive.communicator = lane(t.from_rank, false);
        receive.batch_group = receive_batch;
    }

    // Whether the program ends with an ungrouped transfer with `peer` in the opposite direction of the next
    // one.
    static bool is_opposite(const RankProgram& program, std::uint16_t peer, bool send) {
        if (program.instructions.empty()) return false;
        const Instruction& last = program.instructions.back();
        return (send ? is_send(last.opcode) : is_receive(last.opcode)) && last.peer == peer &&
               last.batch_group == 0;
    }

    const ComputeOrder& order_;
    const LoweringOptions& options_;
    Schedule& schedule_;
    std::size_t total_;
    std::vector<std::uint32_t> received_activation_, received_grad_;  // by stage and microbatch
    std::vector<std::uint32_t> current_;                              // by rank: the compute that runs
    std::vector<std::vector<std::uint32_t>> open_sends_;  // by rank: what the next compute waits for
    std::vector<std::uint16_t> batches_;
    std::vector<Transfer> pending_;
    std::vector<std::uint32_t> waits_;
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
    placer.flush();
    TW_CHECK_MSG(result.complete, "the order waits for itself; check_order names where");
}

}  // namespace tw

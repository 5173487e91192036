// Transfers as calls of the host that wait for every computation before them and for each other: Megatron-LM
// without overlapped p2p (core/pipeline_parallel/p2p_communication.py: _communicate waits for its requests
// and, with batch_p2p_comm, for the device). A rank that computes receives nothing meanwhile.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "plan/schedule/passes/passes.hpp"
#include "plan/schedule/passes/prototypes.hpp"

namespace tw {
namespace {

struct Transfer {
    Opcode send = Opcode::SendActivation;
    std::uint16_t from_stage = 0, to_stage = 0, from_rank = 0, to_rank = 0;
    std::int32_t microbatch = 0;
    bool done = false;
};

// One rank's slots: what it computes between two exchanges, and the calls that make up each exchange, in
// order. Exchange k stands before slot k; there is one after the last.
struct RankState {
    std::vector<std::size_t> slot_begin;                       // actions; one more than there are slots
    std::vector<std::vector<std::vector<std::size_t>>> calls;  // [exchange][call]: transfers
    std::size_t exchange = 0, call = 0;
    std::vector<std::uint32_t> waits;     // what the next call or computation waits for
    std::vector<std::uint32_t> finished;  // transfers of the call that is open
};

class BlockingPlacer {
  public:
    BlockingPlacer(const ComputeOrder& order, const LoweringOptions& options, Schedule& schedule)
        : order_(order), options_(options), schedule_(schedule), prototypes_(schedule) {
        schedule.programs.assign(order.ranks.size(), {});
        for (RankProgram& program : schedule.programs)
            program.wait_begin.push_back(0);
        ranks_.resize(order.ranks.size());
    }

    bool run() {
        cut_slots();
        list_transfers();
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t r = 0; r < ranks_.size(); ++r)
                moved |= advance(r);
        }
        return std::all_of(ranks_.begin(), ranks_.end(),
                           [](const RankState& s) { return s.exchange == s.calls.size(); });
    }

  private:
    // forward_backward_pipelining_with_interleaving computes a forward and a backward between two exchanges
    // in its steady phase, forward_backward_pipelining_without_interleaving one of both.
    void cut_slots() {
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
            const auto& actions = order_.ranks[r];
            const auto is_forward = [](const Action& a) { return a.opcode == Opcode::Forward; };
            const auto first_backward = std::find_if_not(actions.begin(), actions.end(), is_forward);
            const bool steady = std::any_of(first_backward, actions.end(), is_forward);
            std::vector<std::size_t>& begin = ranks_[r].slot_begin;
            for (std::size_t i = 0; i < actions.size();) {
                begin.push_back(i);
                const bool pair = interleaved() && steady && is_forward(actions[i]) &&
                                  i + 1 < actions.size() && !is_forward(actions[i + 1]);
                i += pair ? 2 : 1;
            }
            begin.push_back(actions.size());
            ranks_[r].calls.resize(begin.size());
        }
    }

    [[nodiscard]] bool interleaved() const { return order_.stages > static_cast<int>(order_.ranks.size()); }

    // Every transfer, in the exchange after its producer on one rank and before its consumer on the other.
    void list_transfers() {
        const auto total = static_cast<std::size_t>(order_.total_microbatches());
        const auto stages = static_cast<std::size_t>(order_.stages);
        std::vector<std::size_t> forward_slot(stages * total), backward_slot(stages * total);
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
            for (std::size_t slot = 0; slot + 1 < ranks_[r].slot_begin.size(); ++slot) {
                for (std::size_t i = ranks_[r].slot_begin[slot]; i < ranks_[r].slot_begin[slot + 1]; ++i) {
                    const Action& a = order_.ranks[r][i];
                    auto& table = a.opcode == Opcode::Forward ? forward_slot : backward_slot;
                    table[a.stage * total + static_cast<std::size_t>(a.microbatch)] = slot;
                }
            }
        }
        // Sends, then receives; a call holds both where they are with one peer, or where all go together.
        std::vector<std::vector<std::vector<std::size_t>>> sends(ranks_.size()), receives(ranks_.size());
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
            sends[r].resize(ranks_[r].calls.size());
            receives[r].resize(ranks_[r].calls.size());
        }
        for (std::size_t s = 0; s + 1 < stages; ++s) {
            for (std::size_t b = 0; b < total; ++b) {
                for (const bool forward : {true, false}) {
                    Transfer t;
                    t.send = forward ? Opcode::SendActivation : Opcode::SendGrad;
                    t.from_stage = static_cast<std::uint16_t>(forward ? s : s + 1);
                    t.to_stage = static_cast<std::uint16_t>(forward ? s + 1 : s);
                    t.microbatch = static_cast<std::int32_t>(b);
                    t.from_rank = static_cast<std::uint16_t>(order_.rank_of(t.from_stage, t.microbatch));
                    t.to_rank = static_cast<std::uint16_t>(order_.rank_of(t.to_stage, t.microbatch));
                    if (t.from_rank == t.to_rank) continue;
                    const auto& table = forward ? forward_slot : backward_slot;
                    sends[t.from_rank][table[t.from_stage * total + b] + 1].push_back(transfers_.size());
                    receives[t.to_rank][table[t.to_stage * total + b]].push_back(transfers_.size());
                    transfers_.push_back(t);
                }
            }
        }
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
            for (std::size_t k = 0; k < ranks_[r].calls.size(); ++k)
                ranks_[r].calls[k] = calls_of(sends[r][k], receives[r][k]);
        }
    }

    [[nodiscard]] std::vector<std::vector<std::size_t>> calls_of(
        const std::vector<std::size_t>& sends, const std::vector<std::size_t>& receives) const {
        const bool one_peer = std::all_of(sends.begin(), sends.end(), [&](std::size_t s) {
            return std::all_of(receives.begin(), receives.end(), [&](std::size_t r) {
                return transfers_[s].to_rank == transfers_[r].from_rank;
            });
        });
        std::vector<std::vector<std::size_t>> calls(1, sends);
        if (!interleaved() && !one_peer) calls.emplace_back();
        calls.back().insert(calls.back().end(), receives.begin(), receives.end());
        std::erase_if(calls, [](const auto& call) { return call.empty(); });
        return calls;
    }

    // As far as rank r comes; false where it stands.
    bool advance(std::size_t r) {
        RankState& rank = ranks_[r];
        bool moved = false;
        while (rank.exchange < rank.calls.size()) {
            const auto& calls = rank.calls[rank.exchange];
            if (rank.call < calls.size()) {
                for (const std::size_t t : calls[rank.call])
                    moved |= try_transfer(t);
                if (!closed(r)) return moved;
                moved = true;
                continue;
            }
            const std::size_t slot = rank.exchange;
            if (slot + 1 < rank.slot_begin.size()) {
                std::vector<std::uint32_t> computed;
                for (std::size_t i = rank.slot_begin[slot]; i < rank.slot_begin[slot + 1]; ++i)
                    computed.assign(1, compute(r, order_.ranks[r][i]));
                rank.waits = computed;  // the lane of computations is a FIFO
            }
            ++rank.exchange;
            rank.call = 0;
            moved = true;
        }
        return moved;
    }

    // Closes rank r's open call where all its transfers are done.
    bool closed(std::size_t r) {
        RankState& rank = ranks_[r];
        const auto& call = rank.calls[rank.exchange][rank.call];
        if (!std::all_of(call.begin(), call.end(), [&](std::size_t t) { return transfers_[t].done; }))
            return false;
        rank.waits = std::exchange(rank.finished, {});
        if (options_.p2p_calls == LoweringOptions::P2pCalls::Synchronised) {
            RankProgram& program = schedule_.programs[r];
            rank.waits.assign(
                1, program.append(prototypes_.of(Opcode::Wait, order_.ranks[r].front().stage), rank.waits));
        }
        ++rank.call;
        return true;
    }

    [[nodiscard]] bool posted(std::size_t r, std::size_t t) const {
        const RankState& rank = ranks_[r];
        if (rank.exchange >= rank.calls.size() || rank.call >= rank.calls[rank.exchange].size()) return false;
        const auto& call = rank.calls[rank.exchange][rank.call];
        return std::find(call.begin(), call.end(), t) != call.end();
    }

    bool try_transfer(std::size_t index) {
        Transfer& t = transfers_[index];
        if (t.done || !posted(t.from_rank, index) || !posted(t.to_rank, index)) return false;
        const bool activation = t.send == Opcode::SendActivation;
        append(t.from_rank, t.to_rank, t.microbatch, prototypes_.of(t.send, t.from_stage), true);
        append(t.to_rank, t.from_rank, t.microbatch,
               prototypes_.of(activation ? Opcode::RecvActivation : Opcode::RecvGrad, t.to_stage), false);
        schedule_.senders.push_back(t.from_rank);
        t.done = true;
        return true;
    }

    void append(std::size_t r, std::uint16_t peer, std::int32_t microbatch, const Instruction& prototype,
                bool send) {
        RankProgram& program = schedule_.programs[r];
        ranks_[r].finished.push_back(program.append(prototype, ranks_[r].waits));
        Instruction& in = program.instructions.back();
        in.microbatch = microbatch;
        in.peer = peer;
        in.communicator = p2p_lane(options_.p2p, peer, send);
    }

    std::uint32_t compute(std::size_t r, const Action& action) {
        RankProgram& program = schedule_.programs[r];
        const std::uint32_t index =
            program.append(prototypes_.of(action.opcode, action.stage, action.stage2), ranks_[r].waits);
        Instruction& in = program.instructions.back();
        in.microbatch = action.microbatch;
        in.weight_version = action.weight_version;
        return index;
    }

    const ComputeOrder& order_;
    const LoweringOptions& options_;
    Schedule& schedule_;
    Prototypes prototypes_;
    std::vector<RankState> ranks_;
    std::vector<Transfer> transfers_;
};

}  // namespace

bool place_blocking_transfers(const ComputeOrder& order, const LoweringOptions& options, Schedule& schedule) {
    const bool plain = std::all_of(order.ranks.begin(), order.ranks.end(), [](const auto& actions) {
        return std::all_of(actions.begin(), actions.end(), [](const Action& a) {
            return a.opcode == Opcode::Forward || a.opcode == Opcode::Backward;
        });
    });
    const bool one_replica = std::all_of(order.replicas_of_stage.begin(), order.replicas_of_stage.end(),
                                         [](std::uint16_t n) { return n == 1; });
    if (!plain || !one_replica || order.steps != 1) return false;
    return BlockingPlacer(order, options, schedule).run();
}

}  // namespace tw

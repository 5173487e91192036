#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <span>
#include <tuple>

#include "sim/engine/compile_order.hpp"

namespace tw {
namespace {

constexpr std::uint32_t kNone = CompiledSchedule::kNone;
// A time index before the lanes are counted: a lane's carry has this bit, the rest are node positions.
constexpr std::uint32_t kLane = 0x80000000U;
constexpr std::size_t kStreams = 7;

struct Lane {
    std::uint32_t number = kNone;
    std::uint32_t last = kNone;
};

// One pipeline rank's program on its way.
struct Cursor {
    const RankProgram* program = nullptr;
    const Instruction* at = nullptr;
    const Instruction* end = nullptr;
    std::uint32_t place = 0;         // of `at` among all instructions
    std::uint32_t base = 0;          // of the program's first
    std::uint32_t slot_base = 0;     // of its classes in a cost table
    std::uint32_t anchor = kNone;    // kNone: the host's carry, numbered when the program ends
    std::uint32_t anchor_since = 0;  // place from which `anchor` holds
    std::uint32_t host_lane = kNone;
    bool ready = false;       // its turn comes
    std::uint32_t lane = 0;   // of `at`, while it is placed
    std::vector<Lane> lanes;  // by communicator and stream
    [[nodiscard]] bool done() const { return at == end; }
};

// Whether two transfers are the two ends of one.
bool are_partners(const Instruction& a, const Instruction& b) {
    if (a.microbatch != b.microbatch) return false;
    switch (a.opcode) {
        case Opcode::SendActivation:
            return b.opcode == Opcode::RecvActivation && a.stage + 1 == b.stage;
        case Opcode::RecvActivation:
            return b.opcode == Opcode::SendActivation && b.stage + 1 == a.stage;
        case Opcode::SendGrad:
            return b.opcode == Opcode::RecvGrad && b.stage + 1 == a.stage;
        default:
            return b.opcode == Opcode::SendGrad && a.stage + 1 == b.stage;
    }
}

// Kept from one compilation to the next: fresh pages cost more than the work on them.
struct Scratch {
    std::vector<std::uint32_t> pred0, pred1, slot, host0, host1;  // as CompiledSchedule's
    std::vector<std::uint32_t> predecessors;
};

class InOrder {
  public:
    InOrder(const Schedule& schedule, Scratch& scratch) : schedule_(schedule), scratch_(scratch) {}

    std::optional<CompiledSchedule> run() {
        reserve();
        for (std::uint32_t r = static_cast<std::uint32_t>(cursors_.size()); r-- > 0;)
            make_ready(r);
        while (!ready_.empty()) {
            const std::uint32_t r = ready_.back();
            ready_.pop_back();
            cursors_[r].ready = false;
            if (!advance(r)) return std::nullopt;
        }
        for (const Cursor& cursor : cursors_) {
            if (!cursor.done()) return std::nullopt;
        }
        number_lanes();
        return std::move(out_);
    }

  private:
    void reserve() {
        out_.pipeline_ranks = out_.ranks = schedule_.ranks();
        out_.classes = static_cast<int>(schedule_.duration_classes.size());
        out_.microbatches = schedule_.microbatches;
        out_.steps = schedule_.steps;
        out_.boundary = schedule_.boundary;
        out_.program_begin.assign(1, 0);
        std::size_t waits = 0;
        for (const RankProgram& program : schedule_.programs) {
            Cursor& cursor = cursors_.emplace_back();
            cursor.program = &program;
            cursor.at = program.instructions.data();
            cursor.end = cursor.at + program.instructions.size();
            cursor.place = cursor.base = cursor.anchor_since = out_.program_begin.back();
            cursor.slot_base = out_.slot_of(static_cast<int>(cursors_.size() - 1), 0);
            waits += program.waits.size();
            out_.program_begin.push_back(cursor.base +
                                         static_cast<std::uint32_t>(program.instructions.size()));
        }
        const std::uint32_t total = out_.program_begin.back();
        out_.anchor.resize(total);
        out_.end_node.resize(total);
        mark_nodes_.assign(static_cast<std::size_t>(schedule_.steps), kNone);
        microbatches_ = std::int64_t{schedule_.microbatches} * schedule_.steps;
        // A node has a predecessor for each of its lanes and waits, and fewer joins than those before it.
        const std::size_t most = total + waits;
        if (scratch_.slot.size() < most) {
            for (auto* array :
                 {&scratch_.pred0, &scratch_.pred1, &scratch_.slot, &scratch_.host0, &scratch_.host1})
                array->resize(most);
            scratch_.predecessors.resize(most);
        }
    }

    void make_ready(std::uint32_t r) {
        if (cursors_[r].ready) return;
        cursors_[r].ready = true;
        ready_.push_back(r);
    }

    // Runs a program until it ends or waits for a partner; false where this compiler cannot go on.
    bool advance(std::uint32_t r) {
        Cursor& cursor = cursors_[r];
        while (!cursor.done()) {
            const Instruction& in = *cursor.at;
            if (in.batch_group != 0) return false;
            if (is_transfer(in.opcode)) {
                if (!in_pipeline(in)) return false;
                const Cursor& other = cursors_[in.peer];
                // The first end to come waits for the second.
                if (other.done() || !are_partners(in, *other.at)) return true;
                if (other.at->batch_group != 0 || other.at->stage >= schedule_.stages) return false;
                const std::uint32_t peer = in.peer;
                if (is_send(in.opcode)) {
                    transfer(r, peer);
                } else {
                    transfer(peer, r);
                }
                make_ready(peer);
            } else if (in.group > 0) {
                std::vector<std::uint32_t>& arrived =
                    collectives_[{in.opcode, in.group, in.stage, in.microbatch, in.part}];
                arrived.push_back(r);
                if (in.group >= schedule_.groups.size()) return false;
                if (arrived.size() < schedule_.groups[in.group].size()) return true;
                std::vector<std::uint32_t> members;
                members.swap(arrived);
                std::sort(members.begin(), members.end());
                if (std::adjacent_find(members.begin(), members.end()) != members.end()) return false;
                meet(members, members.front());
                for (const std::uint32_t member : members) {
                    if (member != r) make_ready(member);
                }
            } else {
                step(r, cursor);
            }
        }
        if (cursor.host_lane == kNone) finish(r, cursor);
        return true;
    }

    [[nodiscard]] bool in_pipeline(const Instruction& transfer) const {
        return transfer.stage < schedule_.stages && transfer.microbatch >= 0 &&
               transfer.microbatch < microbatches_ && transfer.peer < cursors_.size();
    }

    // meet() of one rank, and of a transfer's two, where there are no more than two predecessors: almost
    // always.
    void step(std::uint32_t r, Cursor& cursor) {
        const Instruction& in = *cursor.at;
        const std::span<const std::uint32_t> waits = waits_of(cursor);
        if (waits.size() > 1 || in.opcode == Opcode::Wait) return meet(std::array{r}, r);
        Lane& lane = cursor.lanes[lane_of(r, cursor)];
        const std::uint32_t last = lane.last;
        const std::uint32_t node =
            emit(last, waits.empty() ? last : out_.end_node[cursor.base + waits.front()],
                 cursor.slot_base + in.duration_class, cursor.place, kNone);
        note(in, node);
        pass(cursor, lane, node);
    }
    void transfer(std::uint32_t from, std::uint32_t to) {
        Cursor& sender = cursors_[from];
        Cursor& receiver = cursors_[to];
        Lane& out = sender.lanes[lane_of(from, sender)];
        Lane& in = receiver.lanes[lane_of(to, receiver)];
        const std::span<const std::uint32_t> waits = waits_of(sender);
        // The two lanes often hold the same transfers.
        if (out.last != in.last || waits.size() != 1 || !waits_of(receiver).empty())
            return meet(std::array{std::min(from, to), std::max(from, to)}, from);
        const std::uint32_t node =
            emit(out.last, out_.end_node[sender.base + waits.front()],
                 sender.slot_base + sender.at->duration_class, std::min(sender.place, receiver.place),
                 std::max(sender.place, receiver.place));
        pass(sender, out, node);
        pass(receiver, in, node);
    }

    [[nodiscard]] static std::span<const std::uint32_t> waits_of(const Cursor& cursor) {
        return cursor.program->waits_of(cursor.place - cursor.base);
    }
    // The current instruction ends with this node.
    void pass(Cursor& cursor, Lane& lane, std::uint32_t node) {
        lane.last = node;
        out_.end_node[cursor.place++] = node;
        ++cursor.at;
        // Many programs in turn defeat the hardware's prefetcher.
        if (cursor.end - cursor.at > 4) __builtin_prefetch(cursor.at + 4);
    }

    // One node for the current instructions of these ranks, ascending; `payer`'s class decides the cost.
    template <class Members>
    void meet(const Members& members, std::uint32_t payer) {
        std::uint32_t* const predecessors = scratch_.predecessors.data();
        std::size_t count = 0;
        const auto add = [&](std::uint32_t entry) {
            if (std::find(predecessors, predecessors + count, entry) == predecessors + count)
                predecessors[count++] = entry;
        };
        for (const std::uint32_t r : members) {
            Cursor& cursor = cursors_[r];
            cursor.lane = lane_of(r, cursor);
            add(cursor.lanes[cursor.lane].last);
            for (const std::uint32_t wait : waits_of(cursor))
                add(out_.end_node[cursor.base + wait]);
        }
        while (count > 2) {  // join pairs until two are left
            std::size_t kept = 0;
            for (std::size_t k = 0; k + 1 < count; k += 2)
                predecessors[kept++] = emit(predecessors[k], predecessors[k + 1], 0, kNone, kNone);
            if (count % 2 == 1) predecessors[kept++] = predecessors[count - 1];
            count = kept;
        }
        const Instruction& in = *cursors_[payer].at;
        // A node's host constraints are those of its first and its last member.
        const std::uint32_t node = emit(
            predecessors[0], predecessors[count - 1], cursors_[payer].slot_base + in.duration_class,
            cursors_[members.front()].place, members.size() > 1 ? cursors_[members.back()].place : kNone);
        if (!is_transfer(in.opcode)) note(in, node);
        const bool wait = in.opcode == Opcode::Wait;
        for (const std::uint32_t r : members) {
            Cursor& cursor = cursors_[r];
            pass(cursor, cursor.lanes[cursor.lane], node);
            if (!wait) continue;
            end_anchor(r, cursor);
            cursor.anchor = node;
        }
    }

    // Barriers, and the backwards that end a step.
    void note(const Instruction& in, std::uint32_t node) {
        if (in.opcode == Opcode::GradNorm) out_.barrier_nodes.push_back(node);
        const bool backward = in.opcode == Opcode::Backward || in.opcode == Opcode::BackwardInput;
        if (backward && in.stage == 0 && in.microbatch % schedule_.microbatches == schedule_.microbatches - 1)
            mark_nodes_[static_cast<std::size_t>(in.microbatch / schedule_.microbatches)] = node;
    }

    std::uint32_t emit(std::uint32_t a, std::uint32_t b, std::uint32_t slot, std::uint32_t host0,
                       std::uint32_t host1) {
        if (((a | b) & kLane) != 0) carried_.push_back(nodes_);
        scratch_.pred0[nodes_] = a;
        scratch_.pred1[nodes_] = b;
        scratch_.slot[nodes_] = slot;
        scratch_.host0[nodes_] = host0;
        scratch_.host1[nodes_] = host1;
        return nodes_++;
    }

    std::uint32_t new_lane(std::uint32_t rank) {
        lane_rank_.push_back(rank);
        lane_last_.push_back(out_.lane_count | kLane);
        return out_.lane_count++;
    }

    std::uint32_t lane_of(std::uint32_t rank, Cursor& cursor) {
        const Instruction& in = *cursor.at;
        const std::size_t index = in.communicator * kStreams + static_cast<std::size_t>(in.stream);
        if (index >= cursor.lanes.size()) cursor.lanes.resize(index + 1);
        Lane& lane = cursor.lanes[index];
        if (lane.number == kNone) {
            lane.number = new_lane(rank);
            lane.last = lane.number | kLane;
        }
        return static_cast<std::uint32_t>(index);
    }

    // The host's anchor has been the same since the last Wait.
    void end_anchor(std::uint32_t rank, Cursor& cursor) {
        anchors_.push_back({rank, cursor.anchor_since, cursor.place, cursor.anchor});
        cursor.anchor_since = cursor.place;
    }

    void finish(std::uint32_t rank, Cursor& cursor) {
        end_anchor(rank, cursor);
        cursor.host_lane = new_lane(rank);
        for (const Lane& lane : cursor.lanes) {
            if (lane.number != kNone) lane_last_[lane.number] = lane.last;
        }
    }

    // From provisional to final time indices: the carries first, rank by rank, then the nodes.
    void number_lanes() {
        const std::uint32_t lanes = out_.lane_count;
        std::vector<std::uint32_t> next(cursors_.size() + 1, 0);
        for (const std::uint32_t rank : lane_rank_)
            ++next[rank + 1];
        std::partial_sum(next.begin(), next.end(), next.begin());
        std::vector<std::uint32_t> number(lanes);
        out_.lane_rank.resize(lanes);
        for (std::uint32_t lane = 0; lane < lanes; ++lane) {
            number[lane] = next[lane_rank_[lane]]++;
            out_.lane_rank[number[lane]] = lane_rank_[lane];
        }
        const auto final_index = [&](std::uint32_t entry) {
            return (entry & kLane) != 0 ? number[entry & ~kLane] : entry + lanes;
        };
        const auto copy = [&](const std::vector<std::uint32_t>& from, std::vector<std::uint32_t>& to) {
            to.assign(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(nodes_));
        };
        const auto shift = [&](std::vector<std::uint32_t>& nodes) {
            for (std::uint32_t& node : nodes)
                node += lanes;
        };
        copy(scratch_.pred0, out_.pred0);
        copy(scratch_.pred1, out_.pred1);
        shift(out_.pred0);
        shift(out_.pred1);
        for (const std::uint32_t node : carried_) {
            out_.pred0[node] = final_index(scratch_.pred0[node]);
            out_.pred1[node] = final_index(scratch_.pred1[node]);
        }
        copy(scratch_.slot, out_.slot);
        copy(scratch_.host0, out_.host0);
        copy(scratch_.host1, out_.host1);
        shift(out_.end_node);
        out_.begin_node = out_.end_node;
        for (const Cursor& cursor : cursors_)
            out_.host_lane.push_back(number[cursor.host_lane]);
        for (const Anchor& a : anchors_) {
            std::fill(out_.anchor.begin() + a.begin, out_.anchor.begin() + a.end,
                      a.node == kNone ? out_.host_lane[a.rank] : a.node + lanes);
        }
        out_.lane_end.resize(lanes);
        for (std::uint32_t lane = 0; lane < lanes; ++lane)
            out_.lane_end[number[lane]] = final_index(lane_last_[lane]);
        shift(out_.barrier_nodes);
        for (const std::uint32_t node : mark_nodes_) {
            if (node != kNone) out_.step_marks.push_back(node + lanes);
        }
    }

    // Instructions whose host's time counts from one node; kNone: from the program's begin.
    struct Anchor {
        std::uint32_t rank, begin, end, node;
    };

    const Schedule& schedule_;
    Scratch& scratch_;
    CompiledSchedule out_;
    std::uint32_t nodes_ = 0;
    std::vector<Cursor> cursors_;
    std::vector<std::uint32_t> ready_;  // programs that can go on
    std::int64_t microbatches_ = 1;
    std::map<std::tuple<Opcode, int, int, int, std::uint32_t>, std::vector<std::uint32_t>> collectives_;
    // By lane, in the order in which they occur: its rank, and its last node or its own carry.
    std::vector<std::uint32_t> lane_rank_, lane_last_;
    std::vector<std::uint32_t> mark_nodes_;
    std::vector<std::uint32_t> carried_;  // nodes with a lane's carry before them
    std::vector<Anchor> anchors_;
};

}  // namespace

std::optional<CompiledSchedule> compile_in_order(const Schedule& schedule) {
    thread_local Scratch scratch;
    return InOrder(schedule, scratch).run();
}

}  // namespace tw

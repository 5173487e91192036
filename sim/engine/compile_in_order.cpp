#include <algorithm>
#include <array>
#include <iterator>
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
    std::uint32_t base = 0;  // of its instructions among all
    std::uint32_t next = 0;
    std::uint32_t anchor = kNone;  // kNone: the host's carry, numbered when the program ends
    std::uint32_t host_lane = kNone;
    std::vector<Lane> lanes;  // by communicator and stream
    [[nodiscard]] bool done() const { return next == program->instructions.size(); }
    [[nodiscard]] const Instruction& instruction() const { return program->instructions[next]; }
};

// Kept from one compilation to the next: fresh pages cost more than the work on them.
struct Scratch {
    std::vector<std::uint32_t> waiting;                   // see InOrder::waiting
    std::vector<std::uint32_t> pred0, pred1, slot, host;  // as CompiledSchedule's; host: two a node
};

class InOrder {
  public:
    InOrder(const Schedule& schedule, Scratch& scratch)
        : schedule_(schedule), scratch_(scratch), waiting_(scratch.waiting) {}

    std::optional<CompiledSchedule> run() {
        reserve();
        std::vector<std::uint32_t>& ready = ready_;
        for (std::uint32_t r = static_cast<std::uint32_t>(cursors_.size()); r-- > 0;)
            ready.push_back(r);
        while (!ready.empty()) {
            const std::uint32_t r = ready.back();
            ready.pop_back();
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
        for (const RankProgram& program : schedule_.programs) {
            Cursor& cursor = cursors_.emplace_back();
            cursor.program = &program;
            cursor.base = out_.program_begin.back();
            out_.program_begin.push_back(cursor.base +
                                         static_cast<std::uint32_t>(program.instructions.size()));
        }
        const std::uint32_t total = out_.program_begin.back();
        out_.anchor.resize(total);
        out_.end_node.resize(total);
        microbatches_ = std::int64_t{schedule_.microbatches} * schedule_.steps;
        waiting_.assign(static_cast<std::size_t>(microbatches_ * schedule_.stages) * 2, kNone);
        mark_nodes_.assign(static_cast<std::size_t>(schedule_.steps), kNone);
    }

    // Runs a program until it ends or waits for a partner; false where this compiler cannot go on.
    bool advance(std::uint32_t r) {
        Cursor& cursor = cursors_[r];
        while (!cursor.done()) {
            const Instruction& in = cursor.instruction();
            if (in.batch_group != 0) return false;
            if (is_transfer(in.opcode)) {
                std::uint32_t* partner = waiting(in);
                if (partner == nullptr) return false;
                if (*partner == kNone) {
                    *partner = r;
                    return true;
                }
                const std::uint32_t other = *partner;
                *partner = kNone;
                const bool sends = is_send(in.opcode);
                if (sends == is_send(cursors_[other].instruction().opcode)) return false;
                meet(std::array{std::min(r, other), std::max(r, other)}, sends ? r : other);
                ready_.push_back(other);
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
                    if (member != r) ready_.push_back(member);
                }
            } else {
                meet(std::array{r}, r);
            }
        }
        if (cursor.host_lane == kNone) finish(r, cursor);
        return true;
    }

    // One node for the current instructions of these ranks, ascending; `payer`'s class decides the cost.
    void meet(std::span<const std::uint32_t> members, std::uint32_t payer) {
        predecessors_.clear();
        for (const std::uint32_t r : members) {
            Cursor& cursor = cursors_[r];
            add_predecessor(lane_of(r, cursor).last);
            for (const std::uint32_t wait : cursor.program->waits_of(cursor.next))
                add_predecessor(out_.end_node[cursor.base + wait]);
        }
        while (predecessors_.size() > 2) {  // join pairs until two are left
            std::size_t kept = 0;
            for (std::size_t k = 0; k + 1 < predecessors_.size(); k += 2)
                predecessors_[kept++] = emit(predecessors_[k], predecessors_[k + 1], 0);
            if (predecessors_.size() % 2 == 1) predecessors_[kept++] = predecessors_.back();
            predecessors_.resize(kept);
        }
        const Instruction& in = cursors_[payer].instruction();
        // A node's host constraints are those of its first and its last member.
        const auto place = [&](std::uint32_t r) { return cursors_[r].base + cursors_[r].next; };
        const std::uint32_t node =
            emit(predecessors_.front(), predecessors_.back(),
                 out_.slot_of(static_cast<int>(payer), in.duration_class), place(members.front()),
                 members.size() > 1 ? place(members.back()) : kNone);
        if (in.opcode == Opcode::GradNorm) out_.barrier_nodes.push_back(node);
        const bool backward = in.opcode == Opcode::Backward || in.opcode == Opcode::BackwardInput;
        if (backward && in.stage == 0 && in.microbatch % schedule_.microbatches == schedule_.microbatches - 1)
            mark_nodes_[static_cast<std::size_t>(in.microbatch / schedule_.microbatches)] = node;
        const bool wait = in.opcode == Opcode::Wait;
        for (const std::uint32_t r : members) {
            Cursor& cursor = cursors_[r];
            lane_of(r, cursor).last = node;
            const std::uint32_t at = cursor.base + cursor.next;
            out_.end_node[at] = node;
            out_.anchor[at] = cursor.anchor;
            if (wait) cursor.anchor = node;
            ++cursor.next;
            // Many programs in turn defeat the hardware's prefetcher.
            const std::size_t ahead = cursor.next + 4;
            if (ahead < cursor.program->instructions.size())
                __builtin_prefetch(cursor.program->instructions.data() + ahead);
        }
    }

    void add_predecessor(std::uint32_t entry) {
        if (std::find(predecessors_.begin(), predecessors_.end(), entry) == predecessors_.end())
            predecessors_.push_back(entry);
    }

    std::uint32_t emit(std::uint32_t a, std::uint32_t b, std::uint32_t slot, std::uint32_t host0 = kNone,
                       std::uint32_t host1 = kNone) {
        if (nodes_ == scratch_.slot.size()) grow();
        scratch_.pred0[nodes_] = a;
        scratch_.pred1[nodes_] = b;
        scratch_.slot[nodes_] = slot;
        scratch_.host[2 * std::size_t{nodes_}] = host0;
        scratch_.host[2 * std::size_t{nodes_} + 1] = host1;
        return nodes_++;
    }
    void grow() {
        const std::size_t size = std::max<std::size_t>(4096, 2 * scratch_.slot.size());
        for (auto* array : {&scratch_.pred0, &scratch_.pred1, &scratch_.slot})
            array->resize(size);
        scratch_.host.resize(2 * size);
    }

    std::uint32_t new_lane(std::uint32_t rank) {
        lane_rank_.push_back(rank);
        lane_last_.push_back(out_.lane_count | kLane);
        return out_.lane_count++;
    }

    Lane& lane_of(std::uint32_t rank, Cursor& cursor) {
        const Instruction& in = cursor.instruction();
        const std::size_t index = in.communicator * kStreams + static_cast<std::size_t>(in.stream);
        if (index >= cursor.lanes.size()) cursor.lanes.resize(index + 1);
        Lane& lane = cursor.lanes[index];
        if (lane.number == kNone) {
            lane.number = new_lane(rank);
            lane.last = lane.number | kLane;
        }
        return lane;
    }

    void finish(std::uint32_t rank, Cursor& cursor) {
        cursor.host_lane = new_lane(rank);
        for (const Lane& lane : cursor.lanes) {
            if (lane.number != kNone) lane_last_[lane.number] = lane.last;
        }
    }

    // Where a transfer's first end waits for the second, by direction, receiving stage and microbatch; null
    // outside the pipeline.
    std::uint32_t* waiting(const Instruction& in) {
        const bool grad = in.opcode == Opcode::SendGrad || in.opcode == Opcode::RecvGrad;
        const int receiver = is_receive(in.opcode) ? in.stage : in.stage + (grad ? -1 : 1);
        if (receiver < 0 || receiver >= schedule_.stages || in.microbatch < 0 ||
            in.microbatch >= microbatches_)
            return nullptr;
        const auto row = static_cast<std::size_t>((grad ? schedule_.stages : 0) + receiver);
        return &waiting_[row * static_cast<std::size_t>(microbatches_) +
                         static_cast<std::size_t>(in.microbatch)];
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
        const auto end = static_cast<std::ptrdiff_t>(nodes_);
        const auto copy = [&](const std::vector<std::uint32_t>& from, std::vector<std::uint32_t>& to) {
            to.reserve(nodes_);
            std::transform(from.begin(), from.begin() + end, std::back_inserter(to), final_index);
        };
        copy(scratch_.pred0, out_.pred0);
        copy(scratch_.pred1, out_.pred1);
        out_.slot.assign(scratch_.slot.begin(), scratch_.slot.begin() + end);
        out_.host0.resize(nodes_);
        out_.host1.resize(nodes_);
        for (std::size_t i = 0; i < nodes_; ++i) {
            out_.host0[i] = scratch_.host[2 * i];
            out_.host1[i] = scratch_.host[2 * i + 1];
        }
        for (std::uint32_t& node : out_.end_node)
            node += lanes;
        out_.begin_node = out_.end_node;
        for (std::size_t r = 0; r < cursors_.size(); ++r) {
            const std::uint32_t host = number[cursors_[r].host_lane];
            out_.host_lane.push_back(host);
            for (std::uint32_t i = out_.program_begin[r]; i < out_.program_begin[r + 1]; ++i)
                out_.anchor[i] = out_.anchor[i] == kNone ? host : out_.anchor[i] + lanes;
        }
        out_.lane_end.resize(lanes);
        for (std::uint32_t lane = 0; lane < lanes; ++lane)
            out_.lane_end[number[lane]] = final_index(lane_last_[lane]);
        for (std::uint32_t& node : out_.barrier_nodes)
            node += lanes;
        for (const std::uint32_t node : mark_nodes_) {
            if (node != kNone) out_.step_marks.push_back(node + lanes);
        }
    }

    const Schedule& schedule_;
    Scratch& scratch_;
    CompiledSchedule out_;
    std::uint32_t nodes_ = 0;
    std::vector<Cursor> cursors_;
    std::vector<std::uint32_t> ready_;  // programs that can go on
    std::int64_t microbatches_ = 1;
    std::vector<std::uint32_t>& waiting_;
    std::map<std::tuple<Opcode, int, int, int, std::uint32_t>, std::vector<std::uint32_t>> collectives_;
    // By lane, in the order in which they occur: its rank, and its last node or its own carry.
    std::vector<std::uint32_t> lane_rank_, lane_last_;
    std::vector<std::uint32_t> mark_nodes_, predecessors_;
};

}  // namespace

std::optional<CompiledSchedule> compile_in_order(const Schedule& schedule) {
    thread_local Scratch scratch;
    return InOrder(schedule, scratch).run();
}

}  // namespace tw

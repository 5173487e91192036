#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <span>
#include <tuple>

#include "sim/engine/compile_order.hpp"
#include "sim/engine/in_order.hpp"

namespace tw {
namespace {

using in_order::are_partners;
using in_order::Cursor;
using in_order::kLane;
using in_order::kNone;
using in_order::kStreams;
using in_order::Lane;
using in_order::Nodes;

class InOrder {
  public:
    InOrder(const Schedule& schedule, Nodes& nodes) : schedule_(schedule), nodes_(nodes) {}

    std::optional<CompiledSchedule> run() {
        reserve();
        follow_senders();
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
            cursor.at = program.instructions.data();
            cursor.end = cursor.at + program.instructions.size();
            cursor.wait_begin = program.wait_begin.data();
            cursor.waits = program.waits.data();
            cursor.place = cursor.anchor_since = out_.program_begin.back();
            cursor.slot_base = out_.slot_of(static_cast<int>(cursors_.size() - 1), 0);
            waits += program.waits.size();
            out_.program_begin.push_back(cursor.place +
                                         static_cast<std::uint32_t>(program.instructions.size()));
        }
        const std::uint32_t total = out_.program_begin.back();
        out_.anchor.resize(total);
        out_.end_node.resize(total);
        end_node_ = out_.end_node.data();
        for (Cursor& cursor : cursors_)
            cursor.end_node = end_node_ + cursor.place;
        mark_nodes_.assign(static_cast<std::size_t>(schedule_.steps), kNone);
        microbatches_ = std::int64_t{schedule_.microbatches} * schedule_.steps;
        // A node has a predecessor for each of its lanes and waits, and fewer joins than those before it.
        nodes_.start(total + waits);
    }

    void make_ready(std::uint32_t r) {
        if (cursors_[r].ready) return;
        cursors_[r].ready = true;
        ready_.push_back(r);
    }

    // Meets the transfers in the order that lowering left, as far as it goes: neither end is looked for.
    void follow_senders() {
        Cursor* const cursors = cursors_.data();
        const std::size_t ranks = cursors_.size();
        const std::vector<std::uint16_t>& senders = schedule_.senders;
        const SteadyPhase& steady = schedule_.steady;
        std::size_t next_period = steady.programs.size() == ranks ? steady.first_sender : senders.size();
        std::size_t periods = steady.periods;  // from there on
        for (std::size_t i = 0; i < senders.size(); ++i) {
            if (i == next_period) {
                if (all_steady()) set_mark();
                if (marks_.size() == 3) i += repeat_period(periods) * steady.senders;
                next_period = marks_.size() == 3 || --periods < 2 ? senders.size() : i + steady.senders;
                if (i >= senders.size()) return;
            }
            const std::uint32_t from = senders[i];
            if (from >= ranks) return;
            Cursor& sender = cursors[from];
            pass_locals(from, sender);
            if (sender.done()) return;
            const Instruction& send = *sender.at;
            if (!is_send(send.opcode) || !in_pipeline(send)) return;
            Cursor& receiver = cursors[send.peer];
            pass_locals(send.peer, receiver);
            if (receiver.done() || !are_partners(send, *receiver.at) || receiver.at->batch_group != 0 ||
                receiver.at->stage >= schedule_.stages)
                return;
            transfer(from, sender, send.peer, receiver);
        }
    }

    // Where the compilation is at the beginning of a period of the steady phase.
    struct Mark {
        std::uint32_t nodes = 0;
        std::size_t others = 0;             // lanes, carries, anchors: none of them may come in between
        std::vector<std::uint32_t> places;  // of the cursors
    };
    [[nodiscard]] bool all_steady() const {
        for (std::size_t r = 0; r < cursors_.size(); ++r)
            if (cursors_[r].place < out_.program_begin[r] + schedule_.steady.programs[r].begin) return false;
        return true;
    }
    void set_mark() {
        Mark& mark = marks_.emplace_back();
        mark.nodes = nodes_.size();
        mark.others =
            lane_rank_.size() + nodes_.carried().size() + anchors_.size() + out_.barrier_nodes.size();
        for (const Cursor& cursor : cursors_)
            mark.places.push_back(cursor.place);
    }

    // Between the three marks are two periods. Where the second is the first, later, so are those that follow
    // in the steady phase: makes their nodes of these, and returns how many of the periods it made.
    std::size_t repeat_period(std::size_t periods) {
        const std::uint32_t begin = marks_[1].nodes, period = marks_[2].nodes - begin;
        if (marks_[0].others != marks_[2].others || begin - marks_[0].nodes != period ||
            !nodes_.repeats(period))
            return 0;
        std::size_t times = periods;
        for (std::size_t r = 0; r < cursors_.size(); ++r) {
            const Cursor& cursor = cursors_[r];
            const SteadyPhase::Program& program = schedule_.steady.programs[r];
            const std::uint32_t end_place = out_.program_begin[r] + program.end, place = cursor.place;
            if (place > end_place || place - marks_[1].places[r] != program.period ||
                marks_[1].places[r] - marks_[0].places[r] != program.period)
                return 0;
            for (std::uint32_t i = marks_[1].places[r]; i < place; ++i)
                if (end_node_[i] != end_node_[i - program.period] + period) return 0;
            times = std::min<std::size_t>(times, (end_place - place) / program.period);
        }
        const auto moved = static_cast<std::uint32_t>(times);
        nodes_.repeat(period, moved);
        for (std::size_t r = 0; r < cursors_.size(); ++r) {
            Cursor& cursor = cursors_[r];
            const std::uint32_t length = schedule_.steady.programs[r].period;
            for (std::uint32_t k = 0; k < moved; ++k)
                in_order::copy_shifted(end_node_ + cursor.place + k * length, length, period);
            cursor.at += moved * length;
            cursor.wait_begin += moved * length;
            cursor.place += moved * length;
            for (std::uint32_t k = 0; k < cursor.lane_count; ++k) {
                Lane& lane = cursor.lanes[k];
                if (lane.number != kNone && (lane.last & kLane) == 0 && lane.last >= begin)
                    lane.last += moved * period;
            }
        }
        return times;
    }

    // Up to what takes other ranks.
    void pass_locals(std::uint32_t r, Cursor& cursor) {
        while (!cursor.done() && !is_transfer(cursor.at->opcode) && cursor.at->group == 0)
            step(r, cursor);
    }

    // Runs a program until it ends or waits for a partner; false where this compiler cannot go on.
    bool advance(std::uint32_t r) {
        Cursor& cursor = cursors_[r];
        while (!cursor.done()) {
            const Instruction& in = *cursor.at;
            if (is_transfer(in.opcode)) {
                if (!in_pipeline(in)) return false;
                const std::uint32_t peer = in.peer;
                Cursor& other = cursors_[peer];
                // The first end to come waits for the second.
                if (other.done() || !are_partners(in, *other.at)) return true;
                if (!in_pipeline(*other.at)) return false;
                if (is_send(in.opcode)) {
                    transfer(r, cursor, peer, other);
                } else {
                    transfer(peer, other, r, cursor);
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
               transfer.microbatch < microbatches_ && transfer.peer < cursors_.size() &&
               transfer.batch_group == 0;
    }

    // meet() of one rank, and of a transfer's two, where there are no more than two predecessors: almost
    // always.
    void step(std::uint32_t r, Cursor& cursor) {
        const Instruction& in = *cursor.at;
        const std::span<const std::uint32_t> waits = cursor.waiting();
        if (waits.size() > 1 || in.opcode == Opcode::Wait) return meet(std::array{r}, r);
        Lane& lane = lane_of(r, cursor);
        const std::uint32_t last = lane.last;
        const std::uint32_t node = nodes_.emit(last, waits.empty() ? last : cursor.end_node[waits.front()],
                                               cursor.slot_base + in.duration_class, cursor.place, kNone);
        note(in, node);
        pass(cursor, lane, node);
    }
    [[gnu::always_inline]] void transfer(std::uint32_t from, Cursor& sender, std::uint32_t to,
                                         Cursor& receiver) {
        Lane& out = lane_of(from, sender);
        Lane& in = lane_of(to, receiver);
        const std::span<const std::uint32_t> waits = sender.waiting();
        // The two lanes often hold the same transfers.
        if (out.last != in.last || waits.size() != 1 || !receiver.waiting().empty())
            return meet(std::array{std::min(from, to), std::max(from, to)}, from);
        const std::uint32_t node = nodes_.emit(
            out.last, sender.end_node[waits.front()], sender.slot_base + sender.at->duration_class,
            std::min(sender.place, receiver.place), std::max(sender.place, receiver.place));
        pass(sender, out, node);
        pass(receiver, in, node);
    }

    // The current instruction ends with this node.
    void pass(Cursor& cursor, Lane& lane, std::uint32_t node) {
        lane.last = node;
        end_node_[cursor.place++] = node;
        ++cursor.wait_begin;
        ++cursor.at;
        // Many programs in turn defeat the hardware's prefetcher.
        __builtin_prefetch(cursor.at + 4);
    }

    // One node for the current instructions of these ranks, ascending; `payer`'s class decides the cost.
    template <class Members>
    void meet(const Members& members, std::uint32_t payer) {
        std::vector<std::uint32_t>& predecessors = predecessors_;
        predecessors.clear();
        const auto add = [&](std::uint32_t entry) {
            if (std::find(predecessors.begin(), predecessors.end(), entry) == predecessors.end())
                predecessors.push_back(entry);
        };
        for (const std::uint32_t r : members) {
            Cursor& cursor = cursors_[r];
            add(lane_of(r, cursor).last);
            for (const std::uint32_t wait : cursor.waiting())
                add(cursor.end_node[wait]);
        }
        std::size_t count = predecessors.size();
        while (count > 2) {  // join pairs until two are left
            std::size_t kept = 0;
            for (std::size_t k = 0; k + 1 < count; k += 2)
                predecessors[kept++] = nodes_.emit(predecessors[k], predecessors[k + 1], 0, kNone, kNone);
            if (count % 2 == 1) predecessors[kept++] = predecessors[count - 1];
            count = kept;
        }
        const Instruction& in = *cursors_[payer].at;
        // A node's host constraints are those of its first and its last member.
        const std::uint32_t node = nodes_.emit(
            predecessors[0], predecessors[count - 1], cursors_[payer].slot_base + in.duration_class,
            cursors_[members.front()].place, members.size() > 1 ? cursors_[members.back()].place : kNone);
        if (!is_transfer(in.opcode)) note(in, node);
        const bool wait = in.opcode == Opcode::Wait;
        for (const std::uint32_t r : members) {
            Cursor& cursor = cursors_[r];
            pass(cursor, lane_of(r, cursor), node);
            if (!wait) continue;
            end_anchor(r, cursor);
            cursor.anchor = node;
        }
    }

    // Barriers, and the backwards that end a step.
    void note(const Instruction& in, std::uint32_t node) {
        if (in.opcode == Opcode::GradNorm) out_.barrier_nodes.push_back(node);
        if (in.stage != 0) return;
        const bool backward = in.opcode == Opcode::Backward || in.opcode == Opcode::BackwardInput;
        if (backward && in.microbatch % schedule_.microbatches == schedule_.microbatches - 1)
            mark_nodes_[static_cast<std::size_t>(in.microbatch / schedule_.microbatches)] = node;
    }

    std::uint32_t new_lane(std::uint32_t rank) {
        lane_rank_.push_back(rank);
        lane_last_.push_back(out_.lane_count | kLane);
        return out_.lane_count++;
    }

    // Of the current instruction; stays where it is until the next call of the same rank.
    Lane& lane_of(std::uint32_t rank, Cursor& cursor) {
        const Instruction& in = *cursor.at;
        const std::uint32_t index = in.communicator * kStreams + static_cast<std::uint32_t>(in.stream);
        if (index < cursor.lane_count && cursor.lanes[index].number != kNone) return cursor.lanes[index];
        return add_lane(rank, cursor, index);
    }

    [[gnu::noinline]] Lane& add_lane(std::uint32_t rank, Cursor& cursor, std::uint32_t index) {
        if (index >= cursor.lane_count) {
            cursor.all_lanes.resize(index + std::size_t{1});
            cursor.lanes = cursor.all_lanes.data();
            cursor.lane_count = index + 1;
        }
        Lane& lane = cursor.lanes[index];
        lane.number = new_lane(rank);
        lane.last = lane.number | kLane;
        return lane;
    }

    // The host's anchor has been the same since the last Wait.
    void end_anchor(std::uint32_t rank, Cursor& cursor) {
        anchors_.push_back({rank, cursor.anchor_since, cursor.place, cursor.anchor});
        cursor.anchor_since = cursor.place;
    }

    void finish(std::uint32_t rank, Cursor& cursor) {
        end_anchor(rank, cursor);
        cursor.host_lane = new_lane(rank);
        for (const Lane& lane : cursor.all_lanes) {
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
        const auto shift = [&](std::vector<std::uint32_t>& nodes) {
            for (std::uint32_t& node : nodes)
                node += lanes;
        };
        nodes_.move_to(out_, final_index);
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
    Nodes& nodes_;
    CompiledSchedule out_;
    std::uint32_t* end_node_ = nullptr;  // out_'s
    std::vector<Cursor> cursors_;
    std::vector<std::uint32_t> ready_;  // programs that can go on
    std::int64_t microbatches_ = 1;
    std::map<std::tuple<Opcode, int, int, int, std::uint32_t>, std::vector<std::uint32_t>> collectives_;
    // By lane, in the order in which they occur: its rank, and its last node or its own carry.
    std::vector<std::uint32_t> lane_rank_, lane_last_;
    std::vector<std::uint32_t> mark_nodes_;
    std::vector<std::uint32_t> predecessors_;  // of a node that is being made
    std::vector<Anchor> anchors_;
    std::vector<Mark> marks_;
};

}  // namespace

std::optional<CompiledSchedule> compile_in_order(const Schedule& schedule) {
    thread_local Nodes nodes;
    return InOrder(schedule, nodes).run();
}

}  // namespace tw

#include "gui/view/flow.hpp"

#include <algorithm>
#include <numeric>

#include "plan/trace/rendezvous.hpp"

namespace tw {
namespace {

bool is_forward(const Instruction& i) {
    return i.opcode == Opcode::Forward || i.opcode == Opcode::OverlapForwardBackward;
}

// What a step of a microbatch looks for: the forward or the backward of a stage.
struct Wanted {
    bool forward = true;
    int stage = 0;
    std::int32_t microbatch = 0;
    int step = 0;
    int replica = 0;

    [[nodiscard]] bool is(const TraceEvent& e) const {
        const Instruction& i = e.instruction;
        if (e.step != step) return false;
        if (i.opcode == Opcode::OverlapForwardBackward) {
            return forward ? i.stage == stage && i.microbatch == microbatch
                           : i.stage2 == stage && i.microbatch2 == microbatch;
        }
        if (i.stage != stage || i.microbatch != microbatch) return false;
        return forward ? i.opcode == Opcode::Forward
                       : i.opcode == Opcode::Backward || i.opcode == Opcode::BackwardInput;
    }
};

// The first match that starts at or after `time`, or the last one that ends at or before it, over the main
// lanes of the replica's ranks.
TaskId find_compute(const TraceModel& model, const Wanted& wanted, SimTime time, bool before,
                    std::uint32_t only_rank) {
    TaskId best = kNoTask;
    const Trace& trace = *model.source();
    const auto may_be = [&](TaskId t) {
        return model.microbatch(t) == wanted.microbatch || model.kind(t) == TaskKind::ForwardBackward;
    };
    for (std::uint32_t r = 0; r < model.ranks().size(); ++r) {
        if (only_rank != kNoTask && r != only_rank) continue;
        const ModelRank& rank = model.ranks()[r];
        const RankTrace& source = trace.ranks[rank.source];
        if (source.replica != wanted.replica) continue;
        for (std::uint32_t l = rank.lane_begin; l < rank.lane_end; ++l) {
            const Lane& lane = model.lanes()[l];
            if (lane.stream != Stream::Compute) continue;
            const auto middle = static_cast<TaskId>(
                model.detail().first_starting_at(model.starts(), lane.begin, lane.end, time));
            if (before) {
                for (TaskId t = middle; t-- > lane.begin;) {
                    if (best != kNoTask && model.start(t) <= model.start(best)) break;
                    if (model.finish(t) <= time && may_be(t) && wanted.is(*model.event(t))) {
                        best = t;
                        break;
                    }
                }
            } else {
                for (TaskId t = middle; t < lane.end; ++t) {
                    if (best != kNoTask && model.start(t) >= model.start(best)) break;
                    if (may_be(t) && wanted.is(*model.event(t))) {
                        best = t;
                        break;
                    }
                }
            }
        }
    }
    return best;
}

// A compute's part in the flow: (forward?, stage, microbatch); of an overlapped pair the forward.
TaskId next_compute(const TraceModel& model, TaskId task, bool backwards) {
    const TraceEvent& e = *model.event(task);
    const Instruction& i = e.instruction;
    const ModelRank& rank = model.ranks()[model.rank_of(task)];
    Wanted wanted;
    wanted.step = e.step;
    wanted.microbatch = i.microbatch;
    wanted.replica = model.source()->ranks[rank.source].replica;
    const bool forward = is_forward(i);
    // Not the end: clocks of two ranks may differ a little.
    const SimTime time = backwards ? model.finish(task) : model.start(task);
    const auto find = [&](bool want_forward, int stage) {
        wanted.forward = want_forward;
        wanted.stage = stage;
        return stage < 0 ? kNoTask : find_compute(model, wanted, time, backwards, kNoTask);
    };
    if (i.opcode == Opcode::BackwardWeight) {
        // Its input gradient's part came before it; nothing of this microbatch waits for it.
        return backwards ? find(false, i.stage) : kNoTask;
    }
    // Forwards rise through the stages, backwards fall; at the top one turns into the other.
    const bool rises = forward != backwards;
    const TaskId neighbour = find(forward, i.stage + (rises ? 1 : -1));
    if (neighbour != kNoTask || !rises) return neighbour;
    return find(!forward, i.stage);
}

// The arrow that leaves a task of a foreign trace, or the one that reaches it; of several the first.
TaskId along_arrow(const FlowIndex& flows, TaskId task, bool backwards) {
    for (const std::uint32_t position : flows.members_in(task, task + 1)) {
        const auto way = flows.meeting_at(position);
        const auto at = std::find(way.begin(), way.end(), task);
        if (backwards && at != way.begin()) return *(at - 1);
        if (!backwards && at + 1 != way.end()) return *(at + 1);
    }
    return kNoTask;
}

}  // namespace

FlowIndex::FlowIndex(const TraceModel& model) : met_(model.flows()) {
    if (model.source() != nullptr) {
        const Rendezvous met = match_rendezvous(*model.source());
        auto own = std::make_shared<Meetings>();
        own->begin.reserve(met.begin.size());
        own->members.reserve(met.members.size());
        for (std::size_t m = 0; m < met.size(); ++m) {
            for (const EventRef ref : met.members_of(m)) {
                if (const TaskId task = model.task_of(ref); task != kNoTask) own->members.push_back(task);
            }
            own->begin.push_back(static_cast<std::uint32_t>(own->members.size()));
        }
        met_ = std::move(own);
    }
    if (met_ == nullptr) return;
    const std::vector<TaskId>& members = met_->members;
    by_task_.resize(members.size());
    std::iota(by_task_.begin(), by_task_.end(), 0U);
    std::sort(by_task_.begin(), by_task_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::pair(members[a], a) < std::pair(members[b], b);
    });
}

std::span<const std::uint32_t> FlowIndex::members_in(TaskId first, TaskId last) const {
    const auto below = [&](TaskId bound) {
        return std::partition_point(by_task_.begin(), by_task_.end(),
                                    [&](std::uint32_t p) { return met_->members[p] < bound; });
    };
    const auto from = below(first);
    const auto to = last > first ? below(last) : from;
    return {by_task_.data() + (from - by_task_.begin()), by_task_.data() + (to - by_task_.begin())};
}

std::span<const TaskId> FlowIndex::meeting_at(std::uint32_t position) const {
    const auto after = std::upper_bound(met_->begin.begin(), met_->begin.end(), position);
    return members(static_cast<std::size_t>(after - met_->begin.begin()) - 1);
}

TaskId FlowIndex::next_of(std::uint32_t position) const {
    const auto after = std::upper_bound(met_->begin.begin(), met_->begin.end(), position);
    return position + 1 < *after ? met_->members[position + 1] : kNoTask;
}

std::span<const TaskId> FlowIndex::partners(TaskId task) const {
    const auto positions = members_in(task, task + 1);
    return positions.empty() ? std::span<const TaskId>() : meeting_at(positions.front());
}

std::size_t FlowIndex::bytes() const {
    const std::size_t met = met_ == nullptr ? 0
                                            : met_->begin.capacity() * sizeof(std::uint32_t) +
                                                  met_->members.capacity() * sizeof(TaskId);
    return met + by_task_.capacity() * sizeof(std::uint32_t);
}

TaskId along_flow(const TraceModel& model, const FlowIndex& flows, TaskId task, bool backwards) {
    if (task == kNoTask) return kNoTask;
    if (model.source() == nullptr) return along_arrow(flows, task, backwards);
    const TraceEvent& e = *model.event(task);
    const Instruction& i = e.instruction;
    if (is_compute(i.opcode)) return next_compute(model, task, backwards);
    const auto partners = flows.partners(task);
    const bool leaves = is_send(i.opcode) != backwards;  // a send forwards, a receive backwards
    if (is_transfer(i.opcode) && leaves) {
        for (const TaskId other : partners)
            if (other != task) return other;
        return kNoTask;
    }
    if (is_transfer(i.opcode)) {
        // A receive to the compute that uses it; a send back to the compute that made it.
        Wanted wanted;
        wanted.forward = i.opcode == Opcode::SendActivation || i.opcode == Opcode::RecvActivation;
        wanted.stage = i.stage;
        wanted.microbatch = i.microbatch;
        wanted.step = e.step;
        const std::uint32_t rank = model.rank_of(task);
        wanted.replica = model.source()->ranks[model.ranks()[rank].source].replica;
        return find_compute(model, wanted, backwards ? model.finish(task) : model.start(task), backwards,
                            rank);
    }
    if (partners.size() < 2) return kNoTask;
    const auto at = std::find(partners.begin(), partners.end(), task) - partners.begin();
    const auto count = static_cast<std::ptrdiff_t>(partners.size());
    return partners[static_cast<std::size_t>((at + (backwards ? count - 1 : 1)) % count)];
}

}  // namespace tw

#include "plan/trace/chakra.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/json.hpp"
#include "plan/stage_program/stage_program.hpp"
#include "plan/trace/event_text.hpp"

namespace tw {
namespace {

constexpr SimTime kMicrosecond = 1'000'000;  // SimTime counts picoseconds

std::optional<ChakraCollective> collective_of(Opcode opcode) {
    switch (opcode) {
        case Opcode::AllReduce:
        case Opcode::GradNorm:
            return ChakraCollective::AllReduce;
        case Opcode::ReduceScatter:
            return ChakraCollective::ReduceScatter;
        case Opcode::AllGather:
        case Opcode::Unshard:
            return ChakraCollective::AllGather;
        case Opcode::AllToAll:
            return ChakraCollective::AllToAll;
        case Opcode::Broadcast:
            return ChakraCollective::Broadcast;
        default:
            return std::nullopt;
    }
}

// The same for a send and its receive, and no other's between these ranks.
std::int32_t tag_of(const Instruction& i, int microbatches) {
    const bool gradient = i.opcode == Opcode::SendGrad || i.opcode == Opcode::RecvGrad;
    const bool behind = i.opcode == Opcode::SendActivation || i.opcode == Opcode::RecvGrad;
    const int boundary = behind ? i.stage : i.stage - 1;  // between this stage and the next
    return (boundary * 2 + (gradient ? 1 : 0)) * microbatches + i.microbatch;
}

std::int64_t rounded(double value) {
    return std::max<std::int64_t>(1, std::llround(value));
}

// What an instruction starts after, by lane: of each the latest, since a lane runs in order.
using Latest = std::map<std::pair<Stream, std::uint16_t>, std::uint32_t>;

void merge(Latest& into, const Latest& other) {
    for (const auto& [lane, node] : other) {
        std::uint32_t& latest = into[lane];
        latest = std::max(latest, node);
    }
}

}  // namespace

Result<ChakraExport> ChakraExport::make(const LayerGraph& graph, const ParallelPlan& plan,
                                        const RankPlacement& placement, const Schedule& schedule,
                                        const Trace& trace) {
    for (const StageSpec& stage : plan.stages) {
        if (stage.replicas > 1) {
            return Error{ErrorCode::Usage, "stages have replicas of their own: their ranks share no program",
                         "replicas", "a plan whose stages all have one"};
        }
    }
    ChakraExport e(schedule, trace);
    e.count_work(graph, plan);
    const auto world = static_cast<std::size_t>(placement.world());
    e.program_of_.resize(world);
    e.pipeline_of_.resize(world);
    e.replica_group_.assign(world, 0);
    e.rank_groups_.resize(world);
    for (std::size_t r = 0; r < world; ++r)
        e.program_of_[r] = placement.coordinate(static_cast<int>(r), Axis::Pp);
    for (std::vector<int>& ranks : placement.groups({Axis::Pp})) {
        std::sort(ranks.begin(), ranks.end(), [&](int a, int b) {
            return e.program_of_[static_cast<std::size_t>(a)] < e.program_of_[static_cast<std::size_t>(b)];
        });
        std::vector<int> ids;
        for (const std::vector<std::uint16_t>& programs : schedule.groups) {
            std::vector<int> members;
            for (const std::uint16_t program : programs)
                members.push_back(ranks.at(program));
            ids.push_back(e.add_group(std::move(members)));
        }
        for (const int rank : ranks) {
            e.pipeline_of_[static_cast<std::size_t>(rank)] = ranks;
            e.rank_groups_[static_cast<std::size_t>(rank)] = ids;
        }
    }
    for (const std::vector<int>& ranks : placement.groups({Axis::Dp, Axis::Cp})) {
        const int id = e.add_group(ranks);
        for (const int rank : ranks)
            e.replica_group_[static_cast<std::size_t>(rank)] = id;
    }
    return e;
}

int ChakraExport::add_group(std::vector<int> ranks) {
    if (ranks.size() < 2) return 0;
    std::sort(ranks.begin(), ranks.end());
    const auto [found, added] = ids_.emplace(ranks, static_cast<int>(groups_.size()) + 1);
    if (added) groups_.push_back(std::move(ranks));
    return found->second;
}

void ChakraExport::count_work(const LayerGraph& graph, const ParallelPlan& plan) {
    const std::vector<LayerWork> works = layer_works(graph, plan.work_shape(graph));
    for (int s = 0; s < plan.stage_count(); ++s) {
        const auto segments = stage_segments(graph, plan.stages[static_cast<std::size_t>(s)]);
        for (const Opcode opcode :
             {Opcode::Forward, Opcode::Backward, Opcode::BackwardInput, Opcode::BackwardWeight}) {
            Work& sum = work_[{opcode, s}];
            for (const StageSegment& segment : segments) {
                visit_layer_ops(works[static_cast<std::size_t>(segment.layer_class)], segment.recompute,
                                opcode, [&](const Op& op, bool) {
                                    sum.flops += op_flops(op).value * segment.count;
                                    sum.bytes += op_bytes(op) * segment.count;
                                });
            }
        }
    }
}

ChakraExport::Work ChakraExport::work_of(const Instruction& i) const {
    const auto of = [&](Opcode opcode, int stage) {
        const auto found = work_.find({opcode, stage});
        return found == work_.end() ? Work{} : found->second;
    };
    if (i.opcode != Opcode::OverlapForwardBackward) return of(i.opcode, i.stage);
    Work both = of(Opcode::Forward, i.stage);
    const Work backward = of(Opcode::Backward, i.stage2);
    both.flops += backward.flops;
    both.bytes += backward.bytes;
    return both;
}

double ChakraExport::bytes_of(const Instruction& i) const {
    if (i.opcode == Opcode::GradNorm) return 4;  // one number in fp32
    return i.size_class < trace_->size_class_bytes.size() ? trace_->size_class_bytes[i.size_class] : 0.0;
}

bool ChakraExport::describe(int rank, const Instruction& i, double share, ChakraNode& node) const {
    const auto r = static_cast<std::size_t>(rank);
    const auto add = [&](const char* name, auto value) { node.attributes.push_back({name, value}); };
    const auto pipeline_rank = [&](int program) {
        return static_cast<std::int32_t>(pipeline_of_[r][static_cast<std::size_t>(program)]);
    };
    node.name = event_name(i);
    add("is_cpu_op", false);
    if (is_transfer(i.opcode)) {
        node.type = is_send(i.opcode) ? ChakraType::Send : ChakraType::Receive;
        const std::int32_t own = static_cast<std::int32_t>(rank), peer = pipeline_rank(i.peer);
        add("comm_size", rounded(bytes_of(i)));
        add("comm_src", is_send(i.opcode) ? own : peer);
        add("comm_dst", is_send(i.opcode) ? peer : own);
        add("comm_tag", tag_of(i, schedule_->microbatches * std::max(1, schedule_->steps)));
        return true;
    }
    if (const auto kind = collective_of(i.opcode)) {
        const int id = i.group == 0 ? replica_group_[r] : rank_groups_[r].at(i.group);
        node.type = ChakraType::Collective;
        add("comm_type", static_cast<std::int64_t>(*kind));
        add("comm_size", rounded(bytes_of(i)));
        add("pg_name", std::to_string(id));
        return id > 0;
    }
    if (i.opcode == Opcode::Offload || i.opcode == Opcode::Reload) {
        node.type = i.opcode == Opcode::Offload ? ChakraType::MemoryStore : ChakraType::MemoryLoad;
        add("tensor_size", static_cast<std::uint64_t>(rounded(bytes_of(i))));
        return true;
    }
    node.type = ChakraType::Compute;
    const Work work = work_of(i);
    if (work.flops > 0) add("num_ops", rounded(work.flops * share));
    if (work.bytes > 0) add("tensor_size", static_cast<std::uint64_t>(rounded(work.bytes * share)));
    return is_compute(i.opcode) || i.opcode == Opcode::OptimizerStep || i.opcode == Opcode::StashWeights;
}

std::vector<ChakraNode> ChakraExport::nodes(int rank) const {
    const auto p = static_cast<std::size_t>(program_of_[static_cast<std::size_t>(rank)]);
    const RankProgram& program = schedule_->programs[p];
    std::vector<const TraceEvent*> events(program.instructions.size(), nullptr);
    for (const TraceEvent& event : trace_->ranks[p].events) {
        if (!event.inside_another() && event.index < events.size() && events[event.index] == nullptr)
            events[event.index] = &event;
    }
    // A backward that is cut in chunks: its work by their times.
    std::map<std::pair<int, std::int32_t>, SimTime> cut;
    const auto key = [](const Instruction& i) { return std::pair{static_cast<int>(i.stage), i.microbatch}; };
    for (std::size_t k = 0; k < events.size(); ++k) {
        const Instruction& i = program.instructions[k];
        if (is_compute(i.opcode) && i.part > 0 && events[k] != nullptr)
            cut[key(i)] += events[k]->end - events[k]->start;
    }

    std::vector<ChakraNode> nodes;
    std::vector<Latest> ends(program.instructions.size());  // what has run when the instruction has
    Latest host;                                            // what the host has waited for
    std::map<std::pair<Stream, std::uint16_t>, std::size_t> last;
    for (std::size_t k = 0; k < program.instructions.size(); ++k) {
        const Instruction& i = program.instructions[k];
        const std::pair lane{i.stream, i.communicator};
        Latest before = host;
        if (const auto found = last.find(lane); found != last.end()) merge(before, ends[found->second]);
        for (const std::uint32_t wait : program.waits_of(k))
            merge(before, ends[wait]);
        last[lane] = k;
        const SimTime duration = events[k] == nullptr ? 0 : events[k]->end - events[k]->start;
        ChakraNode node;
        const SimTime whole = i.part > 0 && is_compute(i.opcode) ? cut[key(i)] : 0;
        const double share = whole > 0 ? static_cast<double>(duration) / static_cast<double>(whole) : 1.0;
        if (i.opcode == Opcode::Wait) merge(host, before);
        if (events[k] == nullptr || !describe(rank, i, share, node)) {
            ends[k] = std::move(before);
            continue;
        }
        node.id = nodes.size() + 1;
        for (const auto& [at, id] : before)
            node.data_dependencies.push_back(id);
        std::sort(node.data_dependencies.begin(), node.data_dependencies.end());
        node.start_us = static_cast<std::uint64_t>(events[k]->start / kMicrosecond);
        node.duration_us =
            static_cast<std::uint64_t>(std::max<SimTime>(1, (duration + kMicrosecond / 2) / kMicrosecond));
        ends[k][lane] = static_cast<std::uint32_t>(node.id);
        nodes.push_back(std::move(node));
    }
    return nodes;
}

std::string ChakraExport::file(int rank) const {
    std::string bytes = chakra_head();
    for (const ChakraNode& node : nodes(rank))
        bytes += chakra_message(node);
    return bytes;
}

std::string ChakraExport::groups() const {
    Json json = Json::object();
    for (std::size_t id = 0; id < groups_.size(); ++id)
        json[std::to_string(id + 1)] = groups_[id];
    return json.dump(2) + "\n";
}

}  // namespace tw

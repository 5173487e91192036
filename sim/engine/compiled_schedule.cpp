#include "sim/engine/compiled_schedule.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace tw {
namespace {

constexpr std::uint32_t kNone = CompiledSchedule::kNone;

// Builds the graph in terms of provisional nodes ("units"), then sorts them topologically and writes the
// final arrays.
class Compiler {
  public:
    Compiler(const Schedule& schedule, const Replication& replication)
        : schedule_(schedule), replication_(replication) {}

    Result<CompiledSchedule> run() {
        number_instructions();
        assign_lanes();
        if (!make_units()) return std::move(errors_);
        link();
        return sort_and_write();
    }

  private:
    struct Lane {
        std::uint32_t last = kNone;  // unit that ended it so far
    };

    [[nodiscard]] const RankProgram& program(int rank) const {
        return schedule_.programs[static_cast<std::size_t>(rank % schedule_.ranks())];
    }
    [[nodiscard]] std::string name(int rank, std::uint32_t i) const {
        return "rank " + std::to_string(rank) + ", " + to_string(program(rank).instructions[i]);
    }

    void number_instructions() {
        out_.pipeline_ranks = schedule_.ranks();
        out_.ranks = schedule_.ranks() * replication_.count();
        out_.classes = static_cast<int>(schedule_.duration_classes.size());
        out_.microbatches = schedule_.microbatches;
        out_.steps = schedule_.steps;
        out_.boundary = schedule_.boundary;
        out_.program_begin.assign(1, 0);
        for (int r = 0; r < out_.ranks; ++r) {
            out_.program_begin.push_back(out_.program_begin.back() +
                                         static_cast<std::uint32_t>(program(r).instructions.size()));
        }
        const std::uint32_t total = out_.program_begin.back();
        lane_of_.resize(total);
        begin_unit_.assign(total, kNone);
        end_unit_.assign(total, kNone);
    }

    void assign_lanes() {
        std::uint32_t communicators = 1;
        for (const RankProgram& p : schedule_.programs) {
            for (const Instruction& i : p.instructions)
                communicators = std::max(communicators, i.communicator + 1U);
        }
        constexpr std::uint32_t kStreams = 7;
        std::vector<std::uint32_t> table;
        for (int r = 0; r < out_.ranks; ++r) {
            table.assign(kStreams * communicators, kNone);
            const auto& instructions = program(r).instructions;
            std::uint32_t base = out_.program_begin[static_cast<std::size_t>(r)];
            for (std::size_t i = 0; i < instructions.size(); ++i) {
                std::uint32_t& lane =
                    table[static_cast<std::uint32_t>(instructions[i].stream) * communicators +
                          instructions[i].communicator];
                if (lane == kNone) {
                    lane = out_.lane_count++;
                    out_.lane_rank.push_back(static_cast<std::uint32_t>(r));
                }
                lane_of_[base + i] = lane;
            }
            out_.host_lane.push_back(out_.lane_count++);
            out_.lane_rank.push_back(static_cast<std::uint32_t>(r));
        }
    }

    std::uint32_t new_unit(std::uint32_t slot) {
        unit_slot_.push_back(slot);
        if (!predecessors_.empty()) predecessors_.emplace_back();
        return static_cast<std::uint32_t>(unit_slot_.size() - 1);
    }

    bool fail(std::string message, std::string context) {
        errors_.push_back({ErrorCode::Failure, std::move(message), std::move(context), ""});
        return false;
    }

    bool make_units() {
        const std::uint32_t total = out_.program_begin.back();
        unit_slot_.reserve(total + 64);
        const std::int64_t microbatches = std::int64_t{schedule_.microbatches} * schedule_.steps;
        // Matching of transfers: [replica][gradient][receiving stage][microbatch] -> unit of the end seen
        // first.
        const std::size_t plane =
            static_cast<std::size_t>(microbatches) * static_cast<std::size_t>(schedule_.stages);
        std::vector<std::uint32_t> waiting(plane * 2 * static_cast<std::size_t>(replication_.count()), kNone);
        std::map<std::tuple<int, int, int, int, std::uint32_t, int>, std::uint32_t> collectives;
        std::map<std::tuple<int, int, int, int, std::uint32_t>, int> occurrence;
        std::size_t open_transfers = 0;

        for (int r = 0; r < out_.ranks; ++r) {
            const RankProgram& p = program(r);
            const int replica = r / schedule_.ranks();
            const std::uint32_t base = out_.program_begin[static_cast<std::size_t>(r)];
            occurrence.clear();
            for (std::uint32_t i = 0; i < p.instructions.size(); ++i) {
                const Instruction& in = p.instructions[i];
                std::uint32_t unit = kNone;
                if (is_transfer(in.opcode)) {
                    const bool grad = in.opcode == Opcode::SendGrad || in.opcode == Opcode::RecvGrad;
                    const int receiver = is_receive(in.opcode) ? in.stage : in.stage + (grad ? -1 : 1);
                    if (receiver < 0 || receiver >= schedule_.stages || in.microbatch < 0 ||
                        in.microbatch >= microbatches) {
                        return fail("transfer outside the pipeline", name(r, i));
                    }
                    std::uint32_t& slot = waiting[((static_cast<std::size_t>(replica) * 2 + (grad ? 1 : 0)) *
                                                       static_cast<std::size_t>(schedule_.stages) +
                                                   static_cast<std::size_t>(receiver)) *
                                                      static_cast<std::size_t>(microbatches) +
                                                  static_cast<std::size_t>(in.microbatch)];
                    if (slot == kNone) {
                        slot = unit = new_unit(out_.slot_of(r, in.duration_class));
                        ++open_transfers;
                    } else {
                        unit = slot;
                        slot = kNone;
                        --open_transfers;
                        // Both ends name the same class; the sender's rank decides the cost.
                        if (is_send(in.opcode)) unit_slot_[unit] = out_.slot_of(r, in.duration_class);
                    }
                } else if (in.group > 0) {
                    const int nth = occurrence[{static_cast<int>(in.opcode), in.group, in.stage,
                                                in.microbatch, in.part}]++;
                    const int domain = in.opcode == Opcode::GradNorm ? 0 : replica;  // a norm is global
                    auto [it, first] =
                        collectives.try_emplace({domain, static_cast<int>(in.opcode) * 65536 + in.group,
                                                 in.stage, in.microbatch, in.part, nth},
                                                kNone);
                    if (first) it->second = new_unit(out_.slot_of(r, in.duration_class));
                    unit = it->second;
                } else if (const int leader = rendezvous_leader(in, replica); leader != replica) {
                    // Replicas of a pipeline rank run the same program, so the partner has the same index.
                    const auto program_index =
                        static_cast<std::size_t>(leader * schedule_.ranks() + r % schedule_.ranks());
                    unit = begin_unit_[out_.program_begin[program_index] + i];
                } else {
                    unit = new_unit(out_.slot_of(r, in.duration_class));
                }
                begin_unit_[base + i] = end_unit_[base + i] = unit;
            }
        }
        if (open_transfers > 0)
            return fail(std::to_string(open_transfers) + " sends or receives have no partner",
                        name_unmatched());
        return true;
    }

    // The replica whose node this replica shares: its own where the instruction does not rendezvous with
    // others. Collectives of group 0 join the data replicas of one tensor index; compute joins the tensor
    // replicas of one data replica.
    [[nodiscard]] int rendezvous_leader(const Instruction& in, int replica) const {
        if (is_collective(in.opcode)) return replica % replication_.tensor;
        return is_compute(in.opcode) ? replica - replica % replication_.tensor : replica;
    }

    [[nodiscard]] std::string name_unmatched() const {
        std::vector<int> seen(unit_slot_.size(), 0);
        for (std::uint32_t u : begin_unit_)
            ++seen[u];
        for (int r = 0; r < out_.ranks; ++r) {
            const std::uint32_t base = out_.program_begin[static_cast<std::size_t>(r)];
            for (std::uint32_t i = 0; i < program(r).instructions.size(); ++i) {
                if (is_transfer(program(r).instructions[i].opcode) && seen[begin_unit_[base + i]] == 1)
                    return name(r, i);
            }
        }
        return {};
    }

    // Distinct predecessors of a unit, as codes: below lane_count a lane's carry, above it a unit. Few have
    // more than four.
    struct Predecessors {
        std::array<std::uint32_t, 4> first;
        std::uint32_t count = 0;
    };

    void add_edge(std::uint32_t unit, std::uint32_t predecessor) {
        Predecessors& p = predecessors_[unit];
        const std::uint32_t inline_count = std::min<std::uint32_t>(p.count, 4);
        for (std::uint32_t k = 0; k < inline_count; ++k) {
            if (p.first[k] == predecessor) return;
        }
        if (p.count < 4) {
            p.first[p.count++] = predecessor;
            return;
        }
        std::vector<std::uint32_t>& more = more_predecessors_[unit];
        if (std::find(more.begin(), more.end(), predecessor) != more.end()) return;
        more.push_back(predecessor);
        ++p.count;
    }

    template <class Visit>
    void for_each_predecessor(std::uint32_t unit, Visit&& visit) const {
        const Predecessors& p = predecessors_[unit];
        for (std::uint32_t k = 0; k < std::min<std::uint32_t>(p.count, 4); ++k)
            visit(p.first[k]);
        if (p.count > 4) {
            for (const std::uint32_t more : more_predecessors_.at(unit))
                visit(more);
        }
    }

    [[nodiscard]] std::uint32_t code(std::uint32_t unit) const { return out_.lane_count + unit; }

    void link() {
        std::vector<std::uint32_t> lane_last(out_.lane_count, kNone);
        predecessors_.resize(unit_slot_.size());
        out_.anchor.resize(out_.program_begin.back());
        std::vector<std::uint32_t> group_post;  // of the batch group being collected, by group number
        for (int r = 0; r < out_.ranks; ++r) {
            const RankProgram& p = program(r);
            const std::uint32_t base = out_.program_begin[static_cast<std::size_t>(r)];
            std::uint32_t anchor = out_.host_lane[static_cast<std::size_t>(r)];
            for (std::uint32_t i = 0; i < p.instructions.size();) {
                const Instruction& first = p.instructions[i];
                std::uint32_t end = i + 1;
                if (first.batch_group > 0) {
                    while (end < p.instructions.size() &&
                           p.instructions[end].batch_group == first.batch_group)
                        ++end;
                }
                const std::uint32_t lane = lane_of_[base + i];
                const std::uint32_t before = lane_last[lane] == kNone ? lane : code(lane_last[lane]);
                if (end - i == 1) {
                    const std::uint32_t unit = begin_unit_[base + i];
                    add_edge(unit, before);
                    for (const std::uint32_t w : p.waits_of(i))
                        add_edge(unit, code(end_unit_[base + w]));
                    lane_last[lane] = unit;
                } else {  // one kernel: post, all transfers, done
                    const std::uint32_t post = new_unit(0);
                    const std::uint32_t done = new_unit(0);
                    add_edge(post, before);
                    for (std::uint32_t k = i; k < end; ++k) {
                        for (const std::uint32_t w : p.waits_of(k))
                            add_edge(post, code(end_unit_[base + w]));
                        add_edge(begin_unit_[base + k], code(post));
                        add_edge(done, code(begin_unit_[base + k]));
                        begin_unit_[base + k] = post;
                    }
                    for (std::uint32_t k = i; k < end; ++k)
                        end_unit_[base + k] = done;
                    lane_last[lane] = done;
                }
                for (std::uint32_t k = i; k < end; ++k)
                    out_.anchor[base + k] = anchor;
                if (first.opcode == Opcode::Wait) anchor = code(end_unit_[base + i]);
                i = end;
            }
        }
        lane_last_ = std::move(lane_last);
    }

    Result<CompiledSchedule> sort_and_write() {
        const auto units = static_cast<std::uint32_t>(unit_slot_.size());
        // Successors (CSR) for Kahn's algorithm.
        std::vector<std::uint32_t> succ_begin(units + 2, 0), degree(units, 0);
        for (std::uint32_t u = 0; u < units; ++u) {
            for_each_predecessor(u, [&](std::uint32_t pred) {
                if (pred < out_.lane_count) return;
                ++succ_begin[pred - out_.lane_count + 2];
                ++degree[u];
            });
        }
        for (std::uint32_t u = 0; u < units; ++u)
            succ_begin[u + 2] += succ_begin[u + 1];
        std::vector<std::uint32_t> succs(succ_begin[units + 1]);
        for (std::uint32_t u = 0; u < units; ++u) {  // filling moves each begin to its unit's place
            for_each_predecessor(u, [&](std::uint32_t pred) {
                if (pred >= out_.lane_count) succs[succ_begin[pred - out_.lane_count + 1]++] = u;
            });
        }
        std::vector<std::uint32_t> order;
        order.reserve(units);
        for (std::uint32_t u = 0; u < units; ++u) {
            if (degree[u] == 0) order.push_back(u);
        }
        for (std::size_t head = 0; head < order.size(); ++head) {
            const std::uint32_t u = order[head];
            for (std::uint32_t k = succ_begin[u]; k < succ_begin[u + 1]; ++k) {
                if (--degree[succs[k]] == 0) order.push_back(succs[k]);
            }
        }
        if (order.size() != units) {
            for (int r = 0; r < out_.ranks; ++r) {
                const std::uint32_t base = out_.program_begin[static_cast<std::size_t>(r)];
                for (std::uint32_t i = 0; i < program(r).instructions.size(); ++i) {
                    if (degree[begin_unit_[base + i]] > 0) {
                        fail("deadlock: " + std::to_string(units - order.size()) +
                                 " instructions wait for each other",
                             name(r, i));
                        return std::move(errors_);
                    }
                }
            }
        }
        write(order);
        return std::move(out_);
    }

    void write(const std::vector<std::uint32_t>& order) {
        std::vector<std::uint32_t> time_index(unit_slot_.size());
        out_.pred0.reserve(order.size() + 64);
        out_.pred1.reserve(order.size() + 64);
        out_.slot.reserve(order.size() + 64);
        const auto resolve = [&](std::uint32_t pred) {
            return pred < out_.lane_count ? pred : time_index[pred - out_.lane_count];
        };
        const auto emit = [&](std::uint32_t a, std::uint32_t b, std::uint32_t slot) {
            out_.pred0.push_back(a);
            out_.pred1.push_back(b);
            out_.slot.push_back(slot);
            return static_cast<std::uint32_t>(out_.lane_count + out_.slot.size() - 1);
        };
        std::vector<std::uint32_t> distinct;
        for (const std::uint32_t u : order) {
            const Predecessors& p = predecessors_[u];
            if (p.count <=
                2) {  // the first predecessor is always there: a lane's carry or what came before in it
                time_index[u] = emit(resolve(p.first[0]), resolve(p.first[p.count - 1]), unit_slot_[u]);
                continue;
            }
            distinct.clear();
            for_each_predecessor(u, [&](std::uint32_t pred) { distinct.push_back(resolve(pred)); });
            while (distinct.size() > 2) {  // join pairs until two are left
                std::size_t kept = 0;
                for (std::size_t k = 0; k + 1 < distinct.size(); k += 2)
                    distinct[kept++] = emit(distinct[k], distinct[k + 1], 0);
                if (distinct.size() % 2 == 1) distinct[kept++] = distinct.back();
                distinct.resize(kept);
            }
            time_index[u] = emit(distinct.front(), distinct.back(), unit_slot_[u]);
        }
        out_.lane_end.resize(out_.lane_count);
        for (std::uint32_t lane = 0; lane < out_.lane_count; ++lane) {
            out_.lane_end[lane] = lane_last_[lane] == kNone ? lane : time_index[lane_last_[lane]];
        }
        const std::uint32_t total = out_.program_begin.back();
        out_.begin_node.resize(total);
        out_.end_node.resize(total);
        out_.host0.assign(out_.slot.size(), kNone);
        out_.host1.assign(out_.slot.size(), kNone);
        for (std::uint32_t i = 0; i < total; ++i) {
            out_.begin_node[i] = time_index[begin_unit_[i]];
            out_.end_node[i] = time_index[end_unit_[i]];
            if (out_.anchor[i] >= out_.lane_count)
                out_.anchor[i] = time_index[out_.anchor[i] - out_.lane_count];
            const std::uint32_t position = out_.end_node[i] - out_.lane_count;
            (out_.host0[position] == kNone ? out_.host0 : out_.host1)[position] = i;
        }
        std::vector<std::uint32_t> marks(static_cast<std::size_t>(schedule_.steps), kNone);
        for (int r = 0; r < out_.ranks; ++r) {
            const auto& instructions = program(r).instructions;
            for (std::uint32_t i = 0; i < instructions.size(); ++i) {
                const Instruction& in = instructions[i];
                const std::uint32_t t = out_.end_node[out_.program_begin[static_cast<std::size_t>(r)] + i];
                if (in.opcode == Opcode::GradNorm &&
                    (out_.barrier_nodes.empty() || out_.barrier_nodes.back() != t)) {
                    out_.barrier_nodes.push_back(t);
                }
                const bool backward = in.opcode == Opcode::Backward || in.opcode == Opcode::BackwardInput;
                if (backward && in.stage == 0 &&
                    in.microbatch % schedule_.microbatches == schedule_.microbatches - 1) {
                    marks[static_cast<std::size_t>(in.microbatch / schedule_.microbatches)] = t;
                }
            }
        }
        for (const std::uint32_t mark : marks) {
            if (mark != kNone) out_.step_marks.push_back(mark);
        }
    }

    const Schedule& schedule_;
    const Replication& replication_;
    CompiledSchedule out_;
    std::vector<std::uint32_t> lane_of_, begin_unit_, end_unit_, unit_slot_, lane_last_;
    std::vector<Predecessors> predecessors_;
    std::map<std::uint32_t, std::vector<std::uint32_t>> more_predecessors_;
    Errors errors_;
};

}  // namespace

Result<CompiledSchedule> compile_schedule(const Schedule& schedule, const Replication& replication) {
    return Compiler(schedule, replication).run();
}

}  // namespace tw

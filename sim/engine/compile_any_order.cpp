#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "sim/engine/compile_order.hpp"

namespace tw {
namespace {

constexpr std::uint32_t kNone = CompiledSchedule::kNone;

constexpr std::uint32_t kLane = 0x80000000U;

struct Unit {
    // Distinct predecessors: other units, or lanes' carries (with kLane). Few units have more than four.
    std::array<std::uint32_t, 4> first{};
    std::uint32_t count = 0;
    std::uint32_t slot = 0;
    std::uint32_t degree = 0, successors = 0;  // edges between units that end and begin here
};

// Kept from one compilation to the next: half of the time would go to fresh pages.
struct Scratch {
    std::vector<Unit> units;
    std::vector<std::uint32_t> begin_unit, end_unit;  // by instruction
    std::vector<std::uint32_t> waiting;               // see Compiler::waiting
    std::vector<std::uint32_t> succ_end, succs, order, time_index;
};

// Builds the graph in terms of provisional nodes ("units") in one pass over the programs, then sorts them
// topologically and writes the final arrays.
class Compiler {
  public:
    Compiler(const Schedule& schedule, const Replication& replication, Scratch& scratch)
        : schedule_(schedule),
          replication_(replication),
          scratch_(scratch),
          units_(scratch.units),
          begin_unit_(scratch.begin_unit),
          end_unit_(scratch.end_unit) {}

    Result<CompiledSchedule> run() {
        number_instructions();
        for (int r = 0; r < out_.ranks; ++r) {
            if (!add_program(r)) return std::move(errors_);
        }
        if (open_transfers_ > 0) {
            fail(std::to_string(open_transfers_) + " sends or receives have no partner", name_unmatched());
            return std::move(errors_);
        }
        return sort_and_write();
    }

  private:
    struct Lane {
        std::uint32_t number = kNone;
        std::uint32_t last = kNone;  // unit that ended it so far, or its carry
    };

    [[nodiscard]] const RankProgram& program(int rank) const {
        return schedule_.programs[static_cast<std::size_t>(rank % schedule_.ranks())];
    }
    [[nodiscard]] std::string name(int rank, std::uint32_t i) const {
        return "rank " + std::to_string(rank) + ", " + to_string(program(rank).instructions[i]);
    }

    bool fail(std::string message, std::string context) {
        errors_.push_back({ErrorCode::Failure, std::move(message), std::move(context), ""});
        return false;
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
        begin_unit_.resize(total);
        end_unit_.resize(total);
        out_.anchor.resize(total);
        units_.clear();
        units_.reserve(total + 64);
        microbatches_ = std::int64_t{schedule_.microbatches} * schedule_.steps;
        scratch_.waiting.assign(static_cast<std::size_t>(microbatches_) *
                                    static_cast<std::size_t>(schedule_.stages) * 2 *
                                    static_cast<std::size_t>(replication_.count()),
                                kNone);
        mark_units_.assign(static_cast<std::size_t>(schedule_.steps), kNone);
    }

    std::uint32_t new_unit(std::uint32_t slot) {
        units_.emplace_back().slot = slot;
        return static_cast<std::uint32_t>(units_.size() - 1);
    }

    void add_edge(std::uint32_t unit, std::uint32_t predecessor) {
        Unit& p = units_[unit];
        const std::uint32_t inline_count = std::min<std::uint32_t>(p.count, 4);
        for (std::uint32_t k = 0; k < inline_count; ++k) {
            if (p.first[k] == predecessor) return;
        }
        if (p.count < 4) {
            p.first[p.count] = predecessor;
        } else {
            std::vector<std::uint32_t>& more = more_predecessors_[unit];
            if (std::find(more.begin(), more.end(), predecessor) != more.end()) return;
            more.push_back(predecessor);
        }
        if (++p.count > 2) ++joins_;
        if ((predecessor & kLane) != 0) return;
        ++p.degree;
        ++units_[predecessor].successors;
    }

    template <class Visit>
    void for_each_predecessor(std::uint32_t unit, Visit&& visit) const {
        const Unit& p = units_[unit];
        for (std::uint32_t k = 0; k < std::min<std::uint32_t>(p.count, 4); ++k)
            visit(p.first[k]);
        if (p.count > 4) {
            for (const std::uint32_t more : more_predecessors_.at(unit))
                visit(more);
        }
    }

    std::uint32_t new_lane(int rank) {
        out_.lane_rank.push_back(static_cast<std::uint32_t>(rank));
        return out_.lane_count++;
    }

    // The rank's lanes, by communicator and stream.
    Lane& lane_of(int rank, const Instruction& in) {
        constexpr std::size_t kStreams = 7;
        const std::size_t index = in.communicator * kStreams + static_cast<std::size_t>(in.stream);
        if (index >= lanes_.size()) lanes_.resize(index + 1);
        Lane& lane = lanes_[index];
        if (lane.number == kNone) {
            lane.number = new_lane(rank);
            lane.last = lane.number | kLane;
        }
        return lane;
    }

    bool add_program(int r) {
        const RankProgram& p = program(r);
        program_ = &p;
        replica_ = r / schedule_.ranks();
        const std::uint32_t base = out_.program_begin[static_cast<std::size_t>(r)];
        const auto size = static_cast<std::uint32_t>(p.instructions.size());
        lanes_.clear();
        occurrence_.clear();
        // The host's carry stands behind the rank's lanes, which are not counted yet.
        constexpr std::uint32_t kHost = kNone;
        std::uint32_t anchor = kHost;
        for (std::uint32_t i = 0; i < size;) {
            const Instruction& first = p.instructions[i];
            Lane& lane = lane_of(r, first);
            std::uint32_t end = i + 1;
            if (first.batch_group == 0) {
                const std::uint32_t unit = unit_of(r, i);
                if (unit == kNone) return false;
                begin_unit_[base + i] = end_unit_[base + i] = unit;
                add_edge(unit, lane.last);
                for (const std::uint32_t w : p.waits_of(i))
                    add_edge(unit, end_unit_[base + w]);
                lane.last = unit;
            } else {
                while (end < size && p.instructions[end].batch_group == first.batch_group)
                    ++end;
                if (!add_batch(r, i, end, lane)) return false;
            }
            for (std::uint32_t k = i; k < end; ++k)
                out_.anchor[base + k] = anchor;
            if (first.opcode == Opcode::Wait) anchor = end_unit_[base + i];
            i = end;
        }
        const std::uint32_t host = new_lane(r);
        out_.host_lane.push_back(host);
        for (std::uint32_t i = 0; i < size && out_.anchor[base + i] == kHost; ++i)
            out_.anchor[base + i] = host | kLane;
        lane_last_.resize(out_.lane_count, kNone);
        for (const Lane& lane : lanes_) {
            if (lane.number != kNone) lane_last_[lane.number] = lane.last;
        }
        return true;
    }

    // One kernel: post, all transfers, done; a lone transfer needs neither.
    bool add_batch(int r, std::uint32_t begin, std::uint32_t end, Lane& lane) {
        const RankProgram& p = *program_;
        const std::uint32_t base = out_.program_begin[static_cast<std::size_t>(r)];
        const bool alone = end - begin == 1;
        const std::uint32_t post = alone ? unit_of(r, begin) : new_unit(0);
        if (post == kNone) return false;
        const std::uint32_t done = alone ? post : new_unit(0);
        add_edge(post, lane.last);
        for (std::uint32_t k = begin; k < end; ++k) {
            for (const std::uint32_t w : p.waits_of(k))
                add_edge(post, end_unit_[base + w]);
            begin_unit_[base + k] = post;
            end_unit_[base + k] = done;
            if (alone) break;
            const std::uint32_t unit = unit_of(r, k);
            if (unit == kNone) return false;
            add_edge(unit, post);
            add_edge(done, unit);
        }
        lane.last = done;
        return true;
    }

    // The unit of an instruction, which it shares with its partners; kNone after an error.
    std::uint32_t unit_of(int r, std::uint32_t i) {
        const Instruction& in = program_->instructions[i];
        const int replica = replica_;
        if (is_transfer(in.opcode)) return unit_of_transfer(r, i);
        std::uint32_t unit = kNone;
        if (in.group > 0) {
            const int nth =
                occurrence_[{static_cast<int>(in.opcode), in.group, in.stage, in.microbatch, in.part}]++;
            const int domain = in.opcode == Opcode::GradNorm ? 0 : replica;  // a norm is global
            auto [it, is_first] =
                collectives_.try_emplace({domain, static_cast<int>(in.opcode) * 65536 + in.group, in.stage,
                                          in.microbatch, in.part, nth},
                                         kNone);
            if (is_first) it->second = new_unit(out_.slot_of(r, in.duration_class));
            unit = it->second;
        } else if (const int leader = rendezvous_leader(in, replica); leader != replica) {
            // Replicas of a pipeline rank run the same program, so the partner has the same index.
            const auto program_index =
                static_cast<std::size_t>(leader * schedule_.ranks() + r % schedule_.ranks());
            unit = begin_unit_[out_.program_begin[program_index] + i];
        } else {
            unit = new_unit(out_.slot_of(r, in.duration_class));
        }
        if (in.opcode == Opcode::GradNorm) barrier_units_.push_back(unit);
        const bool backward = in.opcode == Opcode::Backward || in.opcode == Opcode::BackwardInput;
        if (backward && in.stage == 0 &&
            in.microbatch % schedule_.microbatches == schedule_.microbatches - 1) {
            mark_units_[static_cast<std::size_t>(in.microbatch / schedule_.microbatches)] = unit;
        }
        return unit;
    }

    // Where the unit of a transfer's first end waits for the second, by replica, direction, receiving stage
    // and microbatch; null outside the pipeline.
    std::uint32_t* waiting(const Instruction& in, int replica) {
        const bool grad = in.opcode == Opcode::SendGrad || in.opcode == Opcode::RecvGrad;
        const int receiver = is_receive(in.opcode) ? in.stage : in.stage + (grad ? -1 : 1);
        if (receiver < 0 || receiver >= schedule_.stages || in.microbatch < 0 ||
            in.microbatch >= microbatches_)
            return nullptr;
        const auto row =
            static_cast<std::size_t>((replica * 2 + (grad ? 1 : 0)) * schedule_.stages + receiver);
        return &scratch_.waiting[row * static_cast<std::size_t>(microbatches_) +
                                 static_cast<std::size_t>(in.microbatch)];
    }

    std::uint32_t unit_of_transfer(int r, std::uint32_t i) {
        const Instruction& in = program_->instructions[i];
        std::uint32_t* first_end = waiting(in, replica_);
        if (first_end == nullptr) {
            fail("transfer outside the pipeline", name(r, i));
            return kNone;
        }
        const std::uint32_t slot = out_.slot_of(r, in.duration_class);
        std::uint32_t unit = *first_end;
        if (unit == kNone) {
            *first_end = unit = new_unit(slot);
            ++open_transfers_;
            return unit;
        }
        *first_end = kNone;
        --open_transfers_;
        // Both ends name the same class; the sender's rank decides the cost.
        if (is_send(in.opcode)) units_[unit].slot = slot;
        return unit;
    }

    // The replica whose node this replica shares: its own where the instruction does not rendezvous with
    // others. Collectives of group 0 join the data replicas of one tensor index; compute joins the tensor
    // replicas of one data replica.
    [[nodiscard]] int rendezvous_leader(const Instruction& in, int replica) const {
        if (is_collective(in.opcode)) return replica % replication_.tensor;
        return is_compute(in.opcode) ? replica - replica % replication_.tensor : replica;
    }

    [[nodiscard]] std::string name_unmatched() {
        for (int r = 0; r < out_.ranks; ++r) {
            for (std::uint32_t i = 0; i < program(r).instructions.size(); ++i) {
                const Instruction& in = program(r).instructions[i];
                if (is_transfer(in.opcode) && *waiting(in, r / schedule_.ranks()) != kNone) return name(r, i);
            }
        }
        return {};
    }

    Result<CompiledSchedule> sort_and_write() {
        const auto units = static_cast<std::uint32_t>(units_.size());
        // Successors (CSR) for Kahn's algorithm; filling moves each begin to its end.
        std::vector<std::uint32_t>& succ_end = scratch_.succ_end;
        succ_end.resize(units);
        std::uint32_t edges = 0;
        for (std::uint32_t u = 0; u < units; ++u) {
            succ_end[u] = edges;
            edges += units_[u].successors;
        }
        std::vector<std::uint32_t>& succs = scratch_.succs;
        succs.resize(edges);
        for (std::uint32_t u = 0; u < units; ++u) {
            for_each_predecessor(u, [&](std::uint32_t pred) {
                if ((pred & kLane) == 0) succs[succ_end[pred]++] = u;
            });
        }
        std::vector<std::uint32_t>& order = scratch_.order;
        order.clear();
        order.reserve(units);
        for (std::uint32_t u = 0; u < units; ++u) {
            if (units_[u].degree == 0) order.push_back(u);
        }
        for (std::size_t head = 0; head < order.size(); ++head) {
            const std::uint32_t u = order[head];
            for (std::uint32_t k = succ_end[u] - units_[u].successors; k < succ_end[u]; ++k) {
                if (--units_[succs[k]].degree == 0) order.push_back(succs[k]);
            }
        }
        if (order.size() != units) {
            fail("deadlock: " + std::to_string(units - order.size()) + " instructions wait for each other",
                 name_stuck());
            return std::move(errors_);
        }
        write(order);
        return std::move(out_);
    }

    [[nodiscard]] std::string name_stuck() const {
        for (int r = 0; r < out_.ranks; ++r) {
            const std::uint32_t base = out_.program_begin[static_cast<std::size_t>(r)];
            for (std::uint32_t i = 0; i < program(r).instructions.size(); ++i) {
                if (units_[begin_unit_[base + i]].degree > 0) return name(r, i);
            }
        }
        return {};
    }

    void write(const std::vector<std::uint32_t>& order) {
        std::vector<std::uint32_t>& time_index = scratch_.time_index;
        time_index.resize(units_.size());
        const std::size_t nodes = order.size() + joins_;
        out_.pred0.resize(nodes);
        out_.pred1.resize(nodes);
        out_.slot.resize(nodes);
        std::uint32_t position = 0;
        const auto resolve = [&](std::uint32_t pred) {
            return (pred & kLane) != 0 ? pred & ~kLane : time_index[pred];
        };
        const auto emit = [&](std::uint32_t a, std::uint32_t b, std::uint32_t slot) {
            out_.pred0[position] = a;
            out_.pred1[position] = b;
            out_.slot[position] = slot;
            return out_.lane_count + position++;
        };
        std::vector<std::uint32_t> distinct;
        for (const std::uint32_t u : order) {
            const Unit& p = units_[u];
            if (p.count <= 2) {  // the first is always there: a lane's carry or what came before in it
                time_index[u] = emit(resolve(p.first[0]), resolve(p.first[p.count - 1]), p.slot);
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
            time_index[u] = emit(distinct.front(), distinct.back(), p.slot);
        }
        out_.lane_end.resize(out_.lane_count);
        for (std::uint32_t lane = 0; lane < out_.lane_count; ++lane)
            out_.lane_end[lane] = lane_last_[lane] == kNone ? lane : resolve(lane_last_[lane]);
        const std::uint32_t total = out_.program_begin.back();
        out_.begin_node.resize(total);
        out_.end_node.resize(total);
        out_.host0.assign(out_.slot.size(), kNone);
        out_.host1.assign(out_.slot.size(), kNone);
        for (std::uint32_t i = 0; i < total; ++i) {
            out_.begin_node[i] = time_index[begin_unit_[i]];
            out_.end_node[i] = time_index[end_unit_[i]];
            out_.anchor[i] = resolve(out_.anchor[i]);
            const std::uint32_t at = out_.end_node[i] - out_.lane_count;
            (out_.host0[at] == kNone ? out_.host0 : out_.host1)[at] = i;
        }
        for (const std::uint32_t unit : barrier_units_) {
            const std::uint32_t t = time_index[unit];
            if (out_.barrier_nodes.empty() || out_.barrier_nodes.back() != t) out_.barrier_nodes.push_back(t);
        }
        for (const std::uint32_t unit : mark_units_) {
            if (unit != kNone) out_.step_marks.push_back(time_index[unit]);
        }
    }

    const Schedule& schedule_;
    const Replication& replication_;
    Scratch& scratch_;
    std::vector<Unit>& units_;
    std::vector<std::uint32_t>&begin_unit_, &end_unit_;
    CompiledSchedule out_;
    std::int64_t microbatches_ = 1;
    std::map<std::uint32_t, std::vector<std::uint32_t>> more_predecessors_;  // beside the first four
    std::size_t joins_ = 0;                 // nodes that units with more than two need
    const RankProgram* program_ = nullptr;  // that is added
    int replica_ = 0;
    std::vector<Lane> lanes_;               // of the program that is added
    std::vector<std::uint32_t> lane_last_;  // by lane; kNone: a host's
    std::size_t open_transfers_ = 0;
    std::map<std::tuple<int, int, int, int, std::uint32_t, int>, std::uint32_t> collectives_;
    std::map<std::tuple<int, int, int, int, std::uint32_t>, int> occurrence_;  // in the program that is added
    std::vector<std::uint32_t> barrier_units_, mark_units_;
    Errors errors_;
};

}  // namespace

Result<CompiledSchedule> compile_any_order(const Schedule& schedule, const Replication& replication) {
    thread_local Scratch scratch;
    return Compiler(schedule, replication, scratch).run();
}

}  // namespace tw

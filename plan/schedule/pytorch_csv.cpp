#include "plan/schedule/pytorch_csv.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "plan/schedule/check.hpp"
#include "plan/schedule/passes/passes.hpp"
#include "plan/schedule/text.hpp"

namespace tw {
namespace {

bool pytorch_knows(Opcode opcode) {
    return is_compute(opcode) || is_transfer(opcode) || opcode == Opcode::Unshard ||
           opcode == Opcode::Reshard || opcode == Opcode::AllReduce;
}

struct Table {
    std::vector<std::vector<Instruction>> rows;
    std::vector<std::uint16_t> rank_of_stage;
    int microbatches = 0;
    bool splits_backward = false;
};

std::string_view trimmed(std::string_view cell) {
    while (!cell.empty() && (cell.front() == ' ' || cell.front() == '"'))
        cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '"' || cell.back() == '\r'))
        cell.remove_suffix(1);
    return cell;
}

class Reader {
  public:
    Result<Table> run(std::string_view text) {
        while (!text.empty()) {
            const std::size_t end = std::min(text.find('\n'), text.size());
            read_row(text.substr(0, end));
            text.remove_prefix(std::min(end + 1, text.size()));
        }
        if (table_.rows.empty()) error("no rows", "row 1");
        for (std::size_t s = 0; s < rank_of_stage_.size(); ++s) {
            if (!rank_of_stage_[s]) {
                error(fmt::format("no rank computes stage {}", s), "stages");
                break;
            }
            table_.rank_of_stage.push_back(*rank_of_stage_[s]);
        }
        // Each microbatch is computed somewhere, so there are no more of them than cells.
        if (static_cast<std::size_t>(table_.microbatches) > computes_) {
            error(fmt::format("microbatch {}, but only {} computes", table_.microbatches - 1, computes_),
                  "microbatches");
        }
        if (!errors_.empty()) return std::move(errors_);
        return std::move(table_);
    }

  private:
    void error(std::string message, std::string where, std::string hint = {}) {
        errors_.push_back({ErrorCode::Unreadable, std::move(message), std::move(where), std::move(hint)});
    }

    void read_row(std::string_view line) {
        if (trimmed(line).empty()) return;
        const std::size_t rank = table_.rows.size();
        table_.rows.emplace_back();
        std::size_t column = 1;
        while (true) {
            const std::size_t comma = std::min(line.find(','), line.size());
            const std::string_view cell = trimmed(line.substr(0, comma));
            if (!cell.empty()) read_cell(rank, cell, fmt::format("row {}, cell {}", rank + 1, column));
            if (comma == line.size()) break;
            line.remove_prefix(comma + 1);
            ++column;
        }
    }

    void read_cell(std::size_t rank, std::string_view cell, const std::string& where) {
        const auto instruction = parse_token(cell);
        if (!instruction) {
            for (const Error& e : instruction.errors())
                error(e.context + ": " + e.message, where, e.hint);
            return;
        }
        if (!pytorch_knows(instruction->opcode)) {
            return error(fmt::format("'{}' is not an instruction of PyTorch's", cell), where);
        }
        table_.rows[rank].push_back(*instruction);
        if (!is_compute(instruction->opcode)) return;
        place(rank, instruction->stage, where);
        ++computes_;
        if (instruction->microbatch == std::numeric_limits<std::int32_t>::max()) {
            return error(fmt::format("'{}': the microbatch is out of range", cell), where);
        }
        table_.microbatches = std::max(table_.microbatches, instruction->microbatch + 1);
        if (instruction->opcode == Opcode::OverlapForwardBackward) place(rank, instruction->stage2, where);
        table_.splits_backward |= instruction->opcode == Opcode::BackwardInput;
    }

    void place(std::size_t rank, std::uint16_t stage, const std::string& where) {
        if (stage >= rank_of_stage_.size()) rank_of_stage_.resize(stage + 1U);
        auto& owner = rank_of_stage_[stage];
        if (!owner) owner = static_cast<std::uint16_t>(rank);
        if (*owner != rank)
            error(fmt::format("stage {} is computed by rows {} and {}", stage, *owner + 1, rank + 1), where);
    }

    Table table_;
    std::vector<std::optional<std::uint16_t>> rank_of_stage_;
    std::size_t computes_ = 0;
    Errors errors_;
};

ComputeOrder order_of(const Table& table) {
    ComputeOrder order;
    order.stages = static_cast<int>(table.rank_of_stage.size());
    order.microbatches = table.microbatches;
    order.splits_backward = table.splits_backward;
    order.rank_of_stage = table.rank_of_stage;
    order.replicas_of_stage.assign(table.rank_of_stage.size(), 1);
    for (const auto& row : table.rows) {
        auto& actions = order.ranks.emplace_back();
        for (const Instruction& i : row) {
            if (!is_compute(i.opcode)) continue;
            actions.push_back({i.opcode, i.stage, i.microbatch, i.stage2, i.microbatch2, 0});
        }
    }
    return order;
}

// Places the waits that follow from the data.
class ScheduleBuilder {
  public:
    ScheduleBuilder(const Table& table, LoweringOptions::P2p p2p) : table_(table), p2p_(p2p) {
        schedule_.generator = "pytorch-csv";
        schedule_.stages = static_cast<int>(table.rank_of_stage.size());
        schedule_.microbatches = table.microbatches;
        schedule_.rank_of_stage = table.rank_of_stage;
        schedule_.replicas_of_stage.assign(table.rank_of_stage.size(), 1);
        schedule_.groups.emplace_back();
        schedule_.size_classes.add_unused();
    }

    Result<Schedule> run() {
        schedule_.programs.resize(table_.rows.size());
        for (std::size_t r = 0; r < table_.rows.size(); ++r)
            add_rank(r);
        if (!errors_.empty()) return std::move(errors_);
        return std::move(schedule_);
    }

  private:
    using Key = std::tuple<bool, std::uint16_t, std::int32_t>;  // gradient, stage, microbatch

    void add_rank(std::size_t rank) {
        std::map<Key, std::uint32_t> received, produced;
        std::map<std::uint16_t, std::uint32_t> unsharded, last_backward;
        for (Instruction in : table_.rows[rank]) {
            std::vector<std::uint32_t> waits;
            const auto wait_for = [&](const auto& table, const auto& key) {
                const auto found = table.find(key);
                if (found != table.end()) waits.push_back(found->second);
            };
            const bool overlap = in.opcode == Opcode::OverlapForwardBackward;
            const bool forward = overlap || in.opcode == Opcode::Forward;
            const bool input = overlap || in.opcode == Opcode::Backward || in.opcode == Opcode::BackwardInput;
            const std::uint16_t back_stage = overlap ? in.stage2 : in.stage;
            const std::int32_t back_microbatch = overlap ? in.microbatch2 : in.microbatch;
            if (forward) wait_for(received, Key{false, in.stage, in.microbatch});
            if (input) wait_for(received, Key{true, back_stage, back_microbatch});
            if (is_compute(in.opcode)) wait_for(unsharded, in.stage);
            if (overlap && in.stage2 != in.stage) wait_for(unsharded, in.stage2);
            if (is_send(in.opcode))
                wait_for(produced, Key{in.opcode == Opcode::SendGrad, in.stage, in.microbatch});
            if (in.opcode == Opcode::AllReduce) wait_for(last_backward, in.stage);
            if (is_transfer(in.opcode) && !route(rank, in)) continue;
            set_classes(schedule_, in);
            const std::uint32_t at = schedule_.programs[rank].append(in, waits);
            if (forward) produced[{false, in.stage, in.microbatch}] = at;
            if (input) produced[{true, back_stage, back_microbatch}] = at;
            if (overlap || is_backward(in.opcode)) last_backward[back_stage] = at;
            if (is_receive(in.opcode))
                received[{in.opcode == Opcode::RecvGrad, in.stage, in.microbatch}] = at;
            if (in.opcode == Opcode::Unshard) unsharded[in.stage] = at;
        }
    }

    bool route(std::size_t rank, Instruction& in) {
        const bool up = in.opcode == Opcode::SendActivation || in.opcode == Opcode::RecvGrad;
        const int other = in.stage + (up ? 1 : -1);
        if (other < 0 || other >= schedule_.stages) {
            errors_.push_back({ErrorCode::Unreadable,
                               "a transfer beyond the first or last stage",
                               fmt::format("rank {}, {}", rank, to_string(in)),
                               {}});
            return false;
        }
        in.peer = schedule_.rank_of_stage[static_cast<std::size_t>(other)];
        in.communicator = p2p_lane(p2p_, in.peer, is_send(in.opcode));
        return true;
    }

    const Table& table_;
    LoweringOptions::P2p p2p_;
    Schedule schedule_;
    Errors errors_;
};

std::string write_rows(const std::vector<std::vector<std::string>>& rows) {
    std::string out;
    for (const auto& row : rows) {
        for (std::size_t c = 0; c < row.size(); ++c)
            out += (c == 0 ? "" : ",") + row[c];
        out += '\n';
    }
    return out;
}

}  // namespace

std::string write_pytorch_csv(const ComputeOrder& order) {
    return write_rows(order_grid(order));
}

std::string write_pytorch_csv(const Schedule& schedule) {
    std::vector<std::vector<std::string>> rows;
    for (const RankProgram& program : schedule.programs) {
        auto& row = rows.emplace_back();
        for (Instruction instruction : program.instructions) {
            if (instruction.opcode == Opcode::ReduceScatter) instruction.opcode = Opcode::AllReduce;
            // Chunks and buckets are one action of PyTorch's; all-reduces between stages are its trainer's.
            const bool reduction = instruction.opcode == Opcode::AllReduce;
            const bool continues = reduction ? instruction.part > 0 : instruction.part > 1;
            if (!pytorch_knows(instruction.opcode) || continues || (reduction && instruction.group != 0))
                continue;
            row.push_back(to_string(instruction));
        }
    }
    return write_rows(rows);
}

Result<ComputeOrder> read_pytorch_csv(std::string_view text) {
    const auto table = Reader().run(text);
    if (!table) return table.errors();
    return order_of(*table);
}

bool has_transfers(std::string_view text) {
    return text.find("SEND_") != std::string_view::npos || text.find("RECV_") != std::string_view::npos;
}

Result<Schedule> read_pytorch_csv_schedule(std::string_view text, LoweringOptions::P2p p2p) {
    const auto table = Reader().run(text);
    if (!table) return table.errors();
    return ScheduleBuilder(*table, p2p).run();
}

}  // namespace tw

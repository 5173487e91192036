#include "plan/plan_order.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "plan/lower_plan.hpp"
#include "plan/schedule/check.hpp"
#include "plan/schedule/pytorch_csv.hpp"

namespace tw {
namespace {

Result<ComputeOrder> embedded_order(const ParallelPlan& plan) {
    const auto generator = find_schedule(plan.schedule);
    if (!generator) return generator.errors();
    std::string text;
    for (const std::string& row : plan.order)
        text += row + '\n';
    auto order = read_pytorch_csv(text);
    if (!order) return order.errors();
    const auto wrong = [&](std::string_view what, std::int64_t in_order, std::int64_t in_plan) -> Error {
        return {ErrorCode::Unreadable,
                fmt::format("the order has {} {}, the plan {}", in_order, what, in_plan), "order",
                "remove \"order\": the schedule is then made anew"};
    };
    const auto ranks = static_cast<std::int64_t>(order->ranks.size());
    if (ranks != plan.mesh.pp) return wrong("pipeline ranks", ranks, plan.mesh.pp);
    if (order->stages != plan.stage_count()) return wrong("stages", order->stages, plan.stage_count());
    if (order->microbatches != plan.microbatches)
        return wrong("microbatches", order->microbatches, plan.microbatches);
    const GeneratorInfo info = (*generator)->info();
    order->boundary = info.boundary;
    order->semantics = info.semantics;
    if (Errors errors = check_order(*order); !errors.empty()) return errors;
    return order;
}

}  // namespace

Result<ComputeOrder> plan_order(const ParallelPlan& plan, const StageCosts* costs) {
    if (!plan.order.empty()) return embedded_order(plan);
    return generate_order(plan.schedule, schedule_shape(plan), costs);
}

std::vector<std::string> order_rows(const ComputeOrder& order) {
    std::vector<std::string> rows;
    for (const std::vector<Action>& actions : order.ranks) {
        std::string& row = rows.emplace_back();
        for (const Action& action : actions) {
            Instruction cell;
            cell.opcode = action.opcode;
            cell.stage = action.stage;
            cell.microbatch = action.microbatch;
            cell.stage2 = action.stage2;
            cell.microbatch2 = action.microbatch2;
            if (!row.empty()) row += ',';
            row += to_string(cell);
        }
    }
    return rows;
}

std::string order_digest(const ComputeOrder& order) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    const auto add = [&hash](std::uint64_t value) {
        for (int byte = 0; byte < 8; ++byte, value >>= 8U)
            hash = (hash ^ (value & 0xffU)) * 0x100000001b3U;
    };
    for (const std::vector<Action>& actions : order.ranks) {
        add(actions.size());
        for (const Action& a : actions) {
            add(static_cast<std::uint64_t>(a.opcode) | (std::uint64_t{a.stage} << 8U) |
                (std::uint64_t{a.stage2} << 24U) | (std::uint64_t{a.weight_version} << 40U));
            add((static_cast<std::uint64_t>(static_cast<std::uint32_t>(a.microbatch)) << 32U) |
                static_cast<std::uint32_t>(a.microbatch2));
        }
    }
    return fmt::format("{:016x}", hash);
}

}  // namespace tw

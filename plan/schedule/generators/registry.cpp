#include <algorithm>
#include <array>

#include "base/nearest.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/replay.hpp"

namespace tw {
namespace {

const auto& table() {
    static const std::array generators = {
        &naive_schedule(),
        &gpipe_schedule(),
        &pipedream_schedule(),
        &pipedream_2bw_schedule(),
        &one_f_one_b_schedule(),
        &interleaved_schedule(),
        &interleaved_overlap_schedule(),
        &looped_bfs_schedule(),
        &zb_h1_schedule(),
        &zb_h2_schedule(),
        &zb_1p_schedule(),
        &zb_2p_schedule(),
        &zb_auto_schedule(),
        &zb_v_schedule(),
        &dualpipev_schedule(),
    };
    return generators;
}

}  // namespace

std::span<const ScheduleGenerator* const> schedule_generators() {
    return table();
}

std::vector<std::string> schedule_names() {
    std::vector<std::string> names;
    for (const ScheduleGenerator* generator : table())
        names.push_back(generator->info().name);
    return names;
}

Result<const ScheduleGenerator*> find_schedule(std::string_view name) {
    static const std::vector<std::string> names = schedule_names();
    if (const auto found = std::find(names.begin(), names.end(), name); found != names.end())
        return table()[static_cast<std::size_t>(found - names.begin())];
    return Error{ErrorCode::Usage, "unknown schedule '" + std::string(name) + "'", "schedule",
                 unknown_name_hint(name, names)};
}

namespace {

// A lowering asks for these thousands of times a second: each schedule's are made once.
bool has_flag(std::string_view schedule, bool GeneratorInfo::*flag) {
    static const std::vector<GeneratorInfo> infos = [] {
        std::vector<GeneratorInfo> all;
        for (const ScheduleGenerator* generator : table())
            all.push_back(generator->info());
        return all;
    }();
    return std::any_of(infos.begin(), infos.end(),
                       [&](const GeneratorInfo& info) { return info.*flag && info.name == schedule; });
}

}  // namespace

bool is_interleaved(std::string_view schedule) {
    return has_flag(schedule, &GeneratorInfo::interleaved);
}

bool combines_passes(std::string_view schedule) {
    return has_flag(schedule, &GeneratorInfo::combines_passes);
}

Result<ComputeOrder> generate_order(std::string_view name, const ScheduleShape& shape,
                                    const StageCosts* costs) {
    const auto generator = find_schedule(name);
    if (!generator) return generator.errors();
    Errors errors = (*generator)->check(shape);
    if (!errors.empty()) return errors;
    return (*generator)->generate(shape, costs);
}

std::vector<int> ScheduleGenerator::peak_in_flight(const ScheduleShape& shape) const {
    const ComputeOrder order = generate(shape, nullptr);
    std::vector<int> peak(static_cast<std::size_t>(order.stages), 0);
    // One count a rank and stage; the order on a rank alone decides it, whatever the times are.
    for (const auto& actions : order.ranks) {
        std::vector<int> held(peak.size(), 0);
        for (const Action& action : actions) {
            const bool overlap = action.opcode == Opcode::OverlapForwardBackward;
            if (overlap || action.opcode == Opcode::Forward) {
                int& now = ++held[action.stage];
                peak[action.stage] = std::max(peak[action.stage], now);
            }
            if (overlap) --held[action.stage2];
            if (action.opcode == Opcode::Backward || action.opcode == Opcode::BackwardWeight)
                --held[action.stage];
        }
    }
    return peak;
}

}  // namespace tw

#include "sim/scenario/waits.hpp"

#include <algorithm>
#include <utility>

namespace tw {

std::vector<SimTime> collective_waits(const Schedule& schedule, const CompiledSchedule& c,
                                      std::span<const SimTime> time) {
    struct Arrival {
        std::uint32_t program = 0, node = 0;
        SimTime time = 0;
    };
    std::vector<Arrival> arrivals;
    std::vector<SimTime> latest(c.nodes(), 0);
    for (int r = 0; r < c.ranks; ++r) {
        const RankProgram& program = schedule.programs[static_cast<std::size_t>(r % c.pipeline_ranks)];
        const std::uint32_t base = c.program_begin[static_cast<std::size_t>(r)];
        for (std::uint32_t i = 0; i < program.instructions.size(); ++i) {
            if (!is_collective(program.instructions[i].opcode) || program.waits_of(i).empty()) continue;
            Arrival arrival{static_cast<std::uint32_t>(r), c.end_node[base + i] - c.lane_count, 0};
            for (const std::uint32_t w : program.waits_of(i))
                arrival.time = std::max(arrival.time, time[c.end_node[base + w]]);
            latest[arrival.node] = std::max(latest[arrival.node], arrival.time);
            arrivals.push_back(arrival);
        }
    }
    std::vector<SimTime> waits(static_cast<std::size_t>(c.ranks), 0);
    std::vector<std::pair<SimTime, SimTime>> spans;
    for (std::size_t first = 0; first < arrivals.size();) {
        std::size_t end = first;
        spans.clear();
        for (; end < arrivals.size() && arrivals[end].program == arrivals[first].program; ++end)
            spans.emplace_back(arrivals[end].time, latest[arrivals[end].node]);
        std::sort(spans.begin(), spans.end());
        SimTime covered = 0;
        for (const auto& [begin, until] : spans) {
            waits[arrivals[first].program] += std::max<SimTime>(0, until - std::max(begin, covered));
            covered = std::max(covered, until);
        }
        first = end;
    }
    return waits;
}

}  // namespace tw

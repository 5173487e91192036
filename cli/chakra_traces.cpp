#include "cli/chakra_traces.hpp"

#include <fmt/format.h>

#include "plan/trace/chakra.hpp"
#include "sim/cost/shape_cost.hpp"

namespace tw::cli {

Status write_chakra_traces(const std::string& prefix, const Simulator& simulator,
                           const SimulationReport& report, Console& console) {
    const auto prepared = simulator.prepare(report.plan);
    if (!prepared) return prepared.errors();
    const Environment& environment = simulator.environment();
    const RankPlacement placement = place_plan(environment.cluster, report.plan);
    const auto traces = ChakraExport::make(environment.graph, report.plan, placement,
                                           prepared->lowered->schedule, report.trace);
    if (!traces) return traces.errors();
    for (int rank = 0; rank < traces->ranks(); ++rank) {
        const Status written = console.write(fmt::format("{}.{}.et", prefix, rank), traces->file(rank));
        if (!written) return written;
    }
    return console.write(prefix + ".groups.json", traces->groups());
}

}  // namespace tw::cli

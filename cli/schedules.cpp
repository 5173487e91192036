#include <fmt/format.h>

#include "cli/commands.hpp"
#include "plan/parallel_plan.hpp"
#include "plan/schedule/generator.hpp"

namespace tw::cli {
namespace {

Json info_to_json(const GeneratorInfo& info) {
    return Json{{"name", info.name},
                {"title", info.title},
                {"source", info.source},
                {"semantics", std::string(to_string(info.semantics))},
                {"boundary", std::string(to_string(info.boundary))},
                {"virtual_stages", info.virtual_stages},
                {"fixed_virtual_stages",
                 info.fixed_virtual_stages > 0 ? Json(info.fixed_virtual_stages) : Json(nullptr)},
                {"splits_backward", info.splits_backward},
                {"uses_costs", info.uses_costs},
                {"replicates", info.replicates}};
}

std::string virtual_text(const GeneratorInfo& info) {
    if (info.fixed_virtual_stages > 0) return std::to_string(info.fixed_virtual_stages);
    return info.virtual_stages ? "any" : "1";
}

const char* mark(bool yes) {
    return yes ? "yes" : "-";
}

int list_schedules(Console& console) {
    TextTable table({"Schedule", "Title", "Semantics", "Step ends", "Virtual", "Splits", "By cost"});
    Json json = document("schedules");
    json["schedules"] = Json::array();
    for (const ScheduleGenerator* generator : schedule_generators()) {
        const GeneratorInfo info = generator->info();
        json["schedules"].push_back(info_to_json(info));
        table.add_row({TableCell(info.name, TextStyle::Bold), info.title,
                       std::string(to_string(info.semantics)), std::string(to_string(info.boundary)),
                       virtual_text(info), mark(info.splits_backward), mark(info.uses_costs)});
    }
    table.align(4, Align::Left);
    if (console.json) {
        console.out_json(json);
    } else {
        console.out_table(table);
    }
    return 0;
}

}  // namespace

void define_schedules(Command& command) {
    command.details(
        "Step ends: barrier (no rank starts a step before all have ended the last), rank-local (each rank "
        "goes on when it "
        "is done), none (no flush at all). Virtual: stages a rank may hold. Splits: input and weight "
        "gradients are "
        "computed apart. By cost: stage times and memory decide the order. --json adds the paper behind "
        "each.");
    command.example("schedules", "as a table");
    command.run([](Console& console) { return list_schedules(console); });
}

}  // namespace tw::cli

#include "cli/commands.hpp"
#include "cli/common/wrap.hpp"
#include "sim/collectives/registry.hpp"

namespace tw::cli {
namespace {

int list_collectives(Console& console) {
    TextTable table({"Algorithm", "Can do", "Latency", "Transfer"});
    Json json = document("collectives");
    json["collectives"] = Json::array();
    for (const CollectiveRow& row : collective_table()) {
        json["collectives"].push_back(Json{{"name", row.name},
                                           {"kinds", row.kinds},
                                           {"latency_term", row.latency_term},
                                           {"bandwidth_term", row.bandwidth_term},
                                           {"source", row.source}});
        add_wrapped_row(
            table, {TableCell(row.name, TextStyle::Bold), row.kinds, row.latency_term, row.bandwidth_term},
            {0, 24, 28, 30});
    }
    for (const std::size_t column : {2, 3})
        table.align(column, Align::Left);
    if (console.json) {
        console.out_json(json);
    } else {
        console.out_table(table);
        console.out(
            "\nn ranks on N nodes, l on each; a, A: latency of a hop inside a node, between nodes;\n"
            "S bytes; b, B: seconds a byte on a device's port, on a node's network interfaces.\n");
    }
    return 0;
}

}  // namespace

void define_collectives(Command& command) {
    command.details(
        "The time of a collective is its latency term plus its transfer term. --json adds the source of "
        "each.");
    command.example("collectives", "as a table");
    command.run([](Console& console) { return list_collectives(console); });
}

}  // namespace tw::cli

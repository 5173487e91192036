#include <fmt/format.h>

#include "base/si_format.hpp"
#include "cli/commands.hpp"
#include "models/hardware/cluster_table.hpp"

namespace tw::cli {
namespace {

Json row_to_json(const ClusterRow& row) {
    return Json{{"name", row.name},
                {"description", row.description},
                {"device", row.device},
                {"device_names", row.device_names},
                {"devices", row.devices},
                {"link", row.link},
                {"link_bandwidth_bytes_per_s", row.link_bandwidth.value},
                {"nics", row.nics},
                {"nic_bandwidth_bytes_per_s", row.nic_bandwidth.value},
                {"network_per_device_bytes_per_s", row.network_per_device.value},
                {"memory_bytes", row.memory.value},
                {"memory_bandwidth_bytes_per_s", row.memory_bandwidth.value},
                {"peak_bf16_flop_per_s", row.peak_bf16.value},
                {"profile", row.profile},
                {"source", row.source}};
}

std::string link_text(const ClusterRow& row) {
    return row.link_bandwidth.value > 0 ? row.link + " " + format_rate(row.link_bandwidth.value, "B/s")
                                        : row.link;
}

int list_clusters(Console& console) {
    const std::vector<ClusterRow> rows = cluster_table();
    if (console.json) {
        Json json = document("clusters");
        json["clusters"] = Json::array();
        for (const ClusterRow& row : rows)
            json["clusters"].push_back(row_to_json(row));
        console.out_json(json);
        return 0;
    }
    TextTable table({"Node", "Devices", "Memory", "bf16 peak", "Memory rate", "Link", "Network", "Profile"});
    for (const ClusterRow& row : rows) {
        table.add_row(
            {TableCell(row.name, TextStyle::Bold),
             fmt::format("{} x {}{}", row.devices, row.device, row.device_names.empty() ? "" : " *"),
             format_bytes(static_cast<double>(row.memory.value)), format_rate(row.peak_bf16.value, "FLOP/s"),
             format_rate(row.memory_bandwidth.value, "B/s"), link_text(row),
             nic_text(row.nics, row.nic_bandwidth),
             TableCell(row.profile, row.profile == "measured" ? TextStyle::Plain : TextStyle::Yellow)});
    }
    table.align(1, Align::Left);
    table.align(6, Align::Left);
    console.out_table(table);
    console.out("\n* the node that the device's own name stands for: h100:64\n");
    return 0;
}

}  // namespace

void define_clusters(Command& command) {
    command.details(
        "--cluster takes a name with a size in devices: h100:64, dgx-h100:128, p4d:16. Without a size it is "
        "one node. The "
        "name of a device with a star stands for the node beside it. Rates are per device and direction; "
        "Network is what a node has, "
        "shared by its devices. Profile: whether the device's kernels were measured, are those of another "
        "device "
        "by the ratio of the datasheets, or are not known (none: nothing can be simulated on it). --json "
        "adds the source of every figure. --cluster also takes the path of a "
        "trainwright/cluster "
        "document, where nodes may be mixed.");
    command.example("clusters", "as a table");
    command.example("clusters --json", "with the sources");
    command.run([](Console& console) { return list_clusters(console); });
}

}  // namespace tw::cli

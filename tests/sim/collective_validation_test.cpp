// The tuner model and the composed cost against published measurements of hardware, kept beside the
// repository. Every test prints the errors it measured and asserts a bound on them; without the tables it
// skips.
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "models/hardware/cluster.hpp"
#include "sim/collectives/collective_cost.hpp"

namespace tw {
namespace {

const std::filesystem::path kTables = std::filesystem::path(TW_SOURCE_DIR) / ".." / "shared/hw";

// Rows of a gzipped table without its header, split at commas.
std::vector<std::vector<std::string>> gzipped_rows(const std::filesystem::path& path) {
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(("gzip -dc " + path.string()).c_str(), "r"),
                                                     pclose);
    std::vector<std::vector<std::string>> rows;
    std::vector<std::string> row(1);
    for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) {
        if (c == '\n') {
            rows.push_back(std::move(row));
            row.assign(1, "");
        } else if (c == ',') {
            row.emplace_back();
        } else if (c != '\r') {
            row.back() += static_cast<char>(c);
        }
    }
    if (!rows.empty()) rows.erase(rows.begin());
    return rows;
}

struct Errors3 {
    double sum = 0, bias = 0, worst = 0;
    int count = 0;
    void add(double predicted, double measured) {
        const double error = predicted / measured - 1;
        sum += std::abs(error);
        bias += error;
        worst = std::max(worst, std::abs(error));
        ++count;
    }
    [[nodiscard]] double mean() const { return count > 0 ? sum / count : 0; }
    void print(const std::string& name) const {
        std::printf("%-44s %5d rows  mean %5.1f %%  bias %+5.1f %%  worst %5.1f %%\n", name.c_str(), count,
                    100 * mean(), 100 * bias / std::max(count, 1), 100 * worst);
    }
};

NodeType node(std::string_view name) {
    const auto type = load_node_type(name);
    EXPECT_TRUE(type) << (type ? "" : to_string(type.errors()));
    return type ? *type : NodeType{};
}

// 2, 4 and 8 devices of one node; NCCL 2.26 and later.
TEST(CollectiveValidation, InsideANodeAgainstAiconfigurator) {
    const auto path = kTables / "aiconfigurator/nccl_all.csv.gz";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no table at " << path;
    const std::map<std::string, NodeType> nodes = {{"a100_sxm", node("dgx-a100")},
                                                   {"h100_sxm", node("dgx-h100")},
                                                   {"h200_sxm", node("dgx-h200")},
                                                   {"b200_sxm", node("dgx-b200")}};
    const std::map<std::string, CollectiveKind> kinds = {{"all_reduce", CollectiveKind::AllReduce},
                                                         {"all_gather", CollectiveKind::AllGather},
                                                         {"reduce_scatter", CollectiveKind::ReduceScatter},
                                                         {"alltoall", CollectiveKind::AllToAll}};
    std::map<std::string, Errors3> by_system, by_size;
    Errors3 all;
    for (const auto& row :
         gzipped_rows(path)) {  // system,device,nccl,op,dtype,num_gpus,size_bytes,time_us,...
        const auto type = nodes.find(row[0]);
        if (type == nodes.end() || row[4] != "half" || row[2] < "2.26") continue;
        const int n = std::stoi(row[5]);
        const double bytes = std::stod(row[6]);
        const auto cost = collective_cost(kinds.at(row[3]), bytes, {n, 1, n, 1, 1}, type->second, nullptr);
        const double measured = std::stod(row[7]) * 1e-6;
        by_system[row[0] + " " + row[3]].add(cost.seconds, measured);
        by_size[bytes < 65536      ? "below 64 KiB"
                : bytes < 33554432 ? "below 32 MiB"
                                   : "large"]
            .add(cost.seconds, measured);
        all.add(cost.seconds, measured);
    }
    for (const auto& [name, errors] : by_system)
        errors.print(name);
    for (const auto& [name, errors] : by_size)
        errors.print(name);
    all.print("all");
    EXPECT_GT(all.count, 2000);
    EXPECT_LT(all.mean(), 0.15);
    EXPECT_LT(by_size["large"].mean(), 0.10);
}

// Logs of several nodes whose hardware is stated; bus bandwidth at their largest size. The constants for
// several nodes were fitted on four of them (deepops_dgxa100, aws_p5, h200_2n16_nebius, gke_a3ultra); the
// others had no part in it. AWS p4d is not among them: its 43.8 GB/s is the ring's rate of 4 x 12.5 GB/s, the
// same nodes with a later plugin (p4de) reach 78 with trees.
TEST(CollectiveValidation, SeveralNodesAtTheLargestSizes) {
    const auto path = kTables / "nccl_logs_parsed.json";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no logs at " << path;
    struct Known {
        const char* node;
        int size, nodes;
        CollectiveKind kind;
    };
    const std::map<std::string, Known> known = {
        {"deepops_dgxa100_2n16_hdr.txt", {"dgx-a100", 16, 2, CollectiveKind::AllReduce}},
        {"deepops_slurm_perf.txt", {"dgx-a100", 32, 4, CollectiveKind::AllReduce}},
        {"aws_p4de_2n16_efa.txt", {"p4de", 16, 2, CollectiveKind::AllReduce}},
        {"aws_p5_2n16_efa.txt", {"p5", 16, 2, CollectiveKind::AllReduce}},
        {"h200_2n16_nebius_ib.txt", {"dgx-h200", 16, 2, CollectiveKind::AllReduce}},
        {"coreweave_h100_excerpt.txt", {"dgx-h100", 96, 12, CollectiveKind::AllReduce}},
        {"gcp_a3mega_2n16_h100.txt", {"a3-mega", 16, 2, CollectiveKind::AllReduce}},
        {"gke_a3mega_h100_2n16_allgather.txt", {"a3-mega", 16, 2, CollectiveKind::AllGather}},
        {"gke_a3ultra_h200_2n16_allgather.txt", {"a3-ultra", 16, 2, CollectiveKind::AllGather}},
        {"gh200_slingshot_2n8.txt", {"alps", 8, 2, CollectiveKind::AllReduce}},
        {"cscs_gh200_2n8_ofi.txt", {"alps", 8, 2, CollectiveKind::AllReduce}},
        {"cscs_gh200_2gpu_sarus.txt", {"alps", 2, 2, CollectiveKind::AllReduce}},
    };
    const Json logs = *read_json_file(path);
    Errors3 largest, from_32_mib;
    for (const Json& log : logs) {
        const auto found = known.find(log["file"].get<std::string>());
        if (found == known.end()) continue;
        const Known& k = found->second;
        const NodeType type = node(k.node);
        double bytes = 0, bus = 0, predicted = 0;
        for (const Json& row : log["rows"]) {  // bytes, out-of-place us, algbw, busbw GB/s, ...
            const auto cost = collective_cost(k.kind, row[0].get<double>(),
                                              {k.size, k.nodes, k.size / k.nodes, 1, 1}, type, nullptr);
            if (row[0].get<double>() >= 33554432) from_32_mib.add(cost.seconds, row[1].get<double>() * 1e-6);
            if (row[0].get<double>() < bytes) continue;
            bytes = row[0].get<double>();
            bus = row[3].get<double>() * 1e9;
            predicted = cost.bus_bandwidth.value;
        }
        std::printf("%-38s %6.1f GB/s measured %6.1f predicted %+5.1f %%\n", found->first.c_str(), bus / 1e9,
                    predicted / 1e9, 100 * (predicted / bus - 1));
        EXPECT_NEAR(predicted / bus, 1, 0.25) << found->first;
        largest.add(predicted, bus);
    }
    largest.print("bus bandwidth at the largest size");
    from_32_mib.print("time from 32 MiB up");
    EXPECT_EQ(largest.count, static_cast<int>(known.size()));
    EXPECT_LT(largest.mean(), 0.12);
}

// Messages between two devices of a DGX, and between two DGX H100.
TEST(CollectiveValidation, MessagesAgainstVidur) {
    struct Table {
        const char* file;
        const char* node;
    };
    Errors3 inside, between;
    for (const Table& table : {Table{"a100_dgx", "dgx-a100"}, Table{"h100_dgx", "dgx-h100"}}) {
        const auto path = kTables / "vidur_network" /
                          ("data__profiling__network__" + std::string(table.file) + "__send_recv.csv.gz");
        if (!std::filesystem::exists(path)) GTEST_SKIP() << "no table at " << path;
        const NodeType type = node(table.node);
        // index,min,max,mean,median,std,rank,num_workers,size,collective,devices_per_node,max_devices_per_node;
        // ms
        for (const auto& row : gzipped_rows(path)) {
            const int per_node = std::stoi(row[10]);
            // The A100 nodes' network of that table is another than a DGX's: 8 GB/s.
            if (per_node == 1 && std::string(table.file) == "a100_dgx") continue;
            const auto cost = collective_cost(CollectiveKind::SendRecv, std::stod(row[8]),
                                              {2, 2 / per_node, per_node, 1, 1}, type, nullptr);
            (per_node == 2 ? inside : between).add(cost.seconds, std::stod(row[4]) * 1e-3);
        }
    }
    inside.print("send_recv inside a node");
    between.print("send_recv between nodes");
    EXPECT_LT(inside.mean(), 0.20);
    EXPECT_LT(between.mean(), 0.45);
}

}  // namespace
}  // namespace tw

// What others measured becomes a profile and a cluster; suspect inputs raise their warning, clean ones none.
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/formats/nccl_tests.hpp"
#include "models/hardware/profile_document_json.hpp"
#include "profiler/import/collective_instances.hpp"
#include "profiler/import/import_profile.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tw {
namespace {

// A log of nccl-tests: `ranks` on `hosts`, latency and bus bandwidth (GB/s) given.
std::string log_of(CollectiveKind kind, int ranks, int hosts, double latency_us, double busbw,
                   const std::string& device = "NVIDIA H100 80GB HBM3", const std::string& before = "") {
    std::string text = before;
    for (int rank = 0; rank < ranks && hosts > 0; ++rank) {
        text += fmt::format("#  Rank {:2} Group  0 Pid   {} on  host{} device  {} [0x10] {}\n", rank,
                            1000 + rank, rank * hosts / ranks, rank % (ranks / hosts), device);
    }
    text +=
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   "
        "algbw   "
        "busbw #wrong\n";
    const double factor = bus_factor(kind, ranks);
    for (int power = 10; power <= 33; ++power) {
        const double bytes = std::ldexp(1, power);
        const double us = latency_us + bytes * factor / busbw * 1e-3;
        const bool parts = kind == CollectiveKind::AllGather || kind == CollectiveKind::ReduceScatter;
        // As nccl-tests prints them: each figure rounded on its own.
        text += fmt::format("{:.0f} {:.0f} float {} -1 {:.2f} {:.2f} {:.2f} 0 {:.2f} {:.2f} {:.2f} 0\n",
                            bytes, bytes / 4 / (parts ? ranks : 1),
                            kind == CollectiveKind::AllGather ? "none" : "sum", us, bytes / us * 1e-3,
                            bytes / us * 1e-3 * factor, us, bytes / us * 1e-3, bytes / us * 1e-3 * factor);
    }
    return text;
}

// Eight GPUs of `sm`, each with its port of `gigabits` behind a switch of its own.
std::string topology_of(int nvlinks, int gigabits, const std::string& port = "mlx5_", int ports = 8) {
    std::string text = "<system version=\"1\">\n";
    for (int cpu = 0; cpu < 2; ++cpu) {
        text += fmt::format("<cpu numaid=\"{}\" arch=\"x86_64\" vendor=\"GenuineIntel\">\n", cpu);
        for (int i = 4 * cpu; i < 4 * cpu + 4; ++i) {
            text += fmt::format(
                "<pci busid=\"s{}\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n"
                "<pci busid=\"g{}\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">"
                "<gpu dev=\"{}\" sm=\"90\" rank=\"{}\" gdr=\"1\">",
                i, i, i, i);
            if (nvlinks > 0)
                text += fmt::format("<nvlink target=\"sw\" count=\"{}\" tclass=\"0x068000\"/>", nvlinks);
            text += "</gpu></pci>\n";
            if (i < ports) {
                text += fmt::format(
                    "<pci busid=\"n{}\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" "
                    "link_width=\"16\"><nic>"
                    "<net name=\"{}{}\" dev=\"{}\" speed=\"{}\" port=\"1\" latency=\"0\" guid=\"0x1\" "
                    "maxconn=\"131072\" gdr=\"1\"/></nic></pci>\n",
                    i, port, i, i, gigabits * 1000);
            }
            text += "</pci>\n";
        }
        text += "</cpu>\n";
    }
    return text + "</system>\n";
}

std::string matrix_of(int nvlinks, int gpus = 8, bool near = true) {
    std::string text;
    for (int i = 0; i < gpus; ++i)
        text += fmt::format("\tGPU{}", i);
    for (int i = 0; i < gpus; ++i)
        text += fmt::format("\tmlx5_{}", i);
    text += "\tCPU Affinity\n";
    for (int i = 0; i < 2 * gpus; ++i) {
        text += i < gpus ? fmt::format("GPU{}", i) : fmt::format("mlx5_{}", i - gpus);
        for (int j = 0; j < 2 * gpus; ++j) {
            const bool both = i < gpus && j < gpus;
            const bool pair = i % gpus == j % gpus;
            text += i == j                       ? "\t X "
                    : both                       ? fmt::format("\tNV{}", nvlinks)
                    : pair && near               ? "\tPIX"
                    : pair                       ? "\tSYS"
                    : !near                      ? "\tSYS"
                    : (i / 4) % 2 == (j / 4) % 2 ? "\tNODE"
                                                 : "\tSYS";
        }
        text += "\t0-31\n";
    }
    return text;
}

class Import : public ::testing::Test {
  protected:
    std::filesystem::path file(const std::string& name, const std::string& text) {
        const std::filesystem::path path = folder_.path() / name;
        EXPECT_TRUE(write_text_file(path, text));
        return path;
    }

    static ImportResult imported(const std::vector<std::filesystem::path>& files,
                                 const std::string& device = "") {
        auto result = import_profile(files, {.device = device, .name = "", .progress = nullptr});
        EXPECT_TRUE(result) << to_string(result.errors());
        return result ? std::move(*result) : ImportResult{};
    }

    static std::vector<Finding> suspects(const ImportResult& result) {
        std::vector<Finding> all;
        const auto add = [&](const std::vector<Finding>& findings) {
            for (const Finding& finding : findings) {
                if (is_suspect(finding)) all.push_back(finding);
            }
        };
        for (const ImportedSource& source : result.sources)
            add(source.findings);
        add(result.findings);
        return all;
    }

    // Exactly these names, each at least once.
    static void expect_suspects(const ImportResult& result, const std::vector<std::string>& names) {
        const auto found = suspects(result);
        for (const std::string& name : names)
            EXPECT_TRUE(has_finding(found, name)) << name << " is missing";
        for (const Finding& finding : found) {
            EXPECT_NE(std::find(names.begin(), names.end(), finding.name), names.end()) << to_string(finding);
        }
    }

    TemporaryFolder folder_;
};

TEST_F(Import, LogsAndTopologyBecomeProfileAndCluster) {
    const ImportResult result =
        imported({file("in.log", log_of(CollectiveKind::AllReduce, 8, 1, 30, 400)),
                  file("across.log", log_of(CollectiveKind::AllReduce, 16, 2, 60, 380)),
                  file("gather.log", log_of(CollectiveKind::AllGather, 8, 1, 25, 340)),
                  file("topo.xml", topology_of(18, 400)), file("topo.txt", matrix_of(18))});
    expect_suspects(result, {});
    const ProfileDocument& document = result.document;
    EXPECT_EQ(document.profile.name, "imported-h100");
    ASSERT_TRUE(document.cluster);
    const NodeGroup& group = document.cluster->groups.front();
    EXPECT_EQ(group.nodes, 2);
    EXPECT_EQ(group.type.devices, 8);
    EXPECT_EQ(group.type.link, IntraNodeLink::NvSwitch);
    EXPECT_DOUBLE_EQ(group.type.link_bandwidth.value, 450e9);
    EXPECT_EQ(group.type.nics, 8);
    EXPECT_DOUBLE_EQ(group.type.nic_bandwidth.value, 50e9);
    ASSERT_EQ(group.type.nearest_nics.size(), 8U);
    for (int i = 0; i < 8; ++i)
        EXPECT_EQ(group.type.nearest_nics[static_cast<std::size_t>(i)], (NearestNic{i, 1}));
    // Curves give back what was measured.
    const auto inside = measured_collective(document.profile, CollectiveKind::AllReduce, 8, 268435456.0);
    ASSERT_TRUE(inside);
    EXPECT_NEAR(inside->seconds, 30e-6 + 268435456.0 * 1.75 / 400e9, 0.05 * inside->seconds);
    EXPECT_FALSE(inside->scaled);
    const auto across = measured_collective(document.profile, CollectiveKind::AllReduce, 16, 1073741824.0, 2);
    ASSERT_TRUE(across);
    EXPECT_NEAR(across->seconds, 60e-6 + 1073741824.0 * 1.875 / 380e9, 0.05 * across->seconds);
    EXPECT_FALSE(measured_collective(document.profile, CollectiveKind::AllReduce, 16, 1e9));
    // The rest is the base's and says so.
    for (const GemmEntry& entry : document.profile.gemm)
        EXPECT_FALSE(entry.fit.scaled_from.empty());
    EXPECT_EQ(result.sources[0].points, 48);
    EXPECT_FALSE(result.taken.empty() || result.assumed.empty());
    // The document is one of ours.
    const auto again = decode_profile_document(*parse_json(profile_document_text(document), "p"), "p");
    ASSERT_TRUE(again) << to_string(again.errors());
    EXPECT_EQ(again->cluster->groups, document.cluster->groups);
    EXPECT_EQ(again->profile.collectives, document.profile.collectives);
}

// Traffic is split evenly over the ports: the slow one decides.
TEST_F(Import, APortAtHalfItsSpeedIsThatOfThePlan) {
    std::string text = topology_of(18, 400, "mlx5_", 4);
    const std::string fast = "speed=\"400000\"";
    text.replace(text.find(fast), fast.size(), "speed=\"200000\"");
    const ImportResult result = imported({file("half.xml", text)}, "h100");
    expect_suspects(result, {"half-speed-nic"});
    const NodeType& type = result.document.cluster->groups.front().type;
    EXPECT_EQ(type.nics, 4);
    EXPECT_DOUBLE_EQ(type.nic_bandwidth.value, 25e9);
    EXPECT_NE(result.taken.front().find("4 network ports of 25 GB/s, the slowest one's of 50 GB/s"),
              std::string::npos)
        << result.taken.front();
}

// A dump of a process that sees one device, beside the matrix of its node.
TEST_F(Import, TheNodeHasTheDevicesThatTheTextSaysAreUsed) {
    const std::string one =
        "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"g\" class=\"0x030200\" link_speed=\"32.0 GT/s "
        "PCIe\" link_width=\"16\"><gpu dev=\"0\" sm=\"90\" rank=\"0\"/></pci></cpu></system>\n";
    const ImportResult result = imported({file("one.xml", one), file("two.txt", matrix_of(18, 2))}, "h100");
    bool said = false;
    for (const Finding& finding : result.findings)
        said = said || (finding.message.starts_with("GPUs: 2 in ") &&
                        finding.message.find("1 in ") != std::string::npos &&
                        finding.message.ends_with("which is used"));
    EXPECT_TRUE(said);
    EXPECT_EQ(result.document.cluster->groups.front().type.devices, 1);
}

TEST_F(Import, SocketsAlthoughThePortsAreThere) {
    const std::string words =
        "h:1:1 [0] NCCL INFO NET/IB : No device found.\nh:1:1 [0] NCCL INFO NET/Socket : Using "
        "[0]bond0:192.0.2.1<0>\n";
    const ImportResult result = imported({file("slow.log", log_of(CollectiveKind::AllReduce, 16, 2, 200, 5.07,
                                                                  "NVIDIA H100 80GB HBM3", words)),
                                          file("topo.xml", topology_of(18, 200))});
    expect_suspects(result, {"socket-transport", "no-infiniband", "slow-network"});
    EXPECT_EQ(result.sources[0].points, 0);
    EXPECT_FALSE(measured_collective(result.document.profile, CollectiveKind::AllReduce, 16, 1e9, 2));
}

TEST_F(Import, RatesAgainstLinks) {
    // Both directions counted; more than both; a quarter; half of the ports.
    expect_suspects(imported({file("a.log", log_of(CollectiveKind::AllReduce, 8, 1, 30, 783))}),
                    {"two-way-rate"});
    expect_suspects(imported({file("b.log", log_of(CollectiveKind::AllGather, 8, 1, 30, 3200))}),
                    {"above-peak"});
    expect_suspects(imported({file("c.log", log_of(CollectiveKind::AllReduce, 8, 1, 30, 12)),
                              file("t.xml", topology_of(18, 400))}),
                    {"slow-link", "p2p-disabled"});
    expect_suspects(imported({file("d.log", log_of(CollectiveKind::AllReduce, 16, 2, 60, 190)),
                              file("u.xml", topology_of(18, 400))}),
                    {"half-speed-nic"});
    expect_suspects(imported({file("e.log", log_of(CollectiveKind::AllReduce, 16, 2, 60, 20)),
                              file("v.xml", topology_of(18, 400))}),
                    {"slow-network"});
    // In-switch reduction exceeds a device's own link by a little, and trees that of the ports.
    expect_suspects(imported({file("f.log", log_of(CollectiveKind::AllReduce, 8, 1, 30, 480)),
                              file("g.log", log_of(CollectiveKind::AllReduce, 16, 2, 30, 487)),
                              file("w.xml", topology_of(18, 400))}),
                    {});
}

TEST_F(Import, SourcesThatContradictEachOther) {
    const auto xml = file("topo.xml", topology_of(18, 400));
    expect_suspects(imported({file("m12.txt", matrix_of(12)), xml}, "h100"), {"source-conflict"});
    expect_suspects(imported({file("m4.txt", matrix_of(18, 4)), xml}, "h100"), {"source-conflict"});
    expect_suspects(imported({file("far.txt", matrix_of(18, 8, false)), xml}, "h100"), {"source-conflict"});
    // Nodes that are not alike.
    expect_suspects(imported({xml, file("node1.xml", topology_of(18, 200))}, "h100"), {"source-conflict"});
    expect_suspects(imported({xml, file("node2.xml", topology_of(18, 400))}, "h100"), {});
    // Two logs of one collective, a log of another device, more ranks than devices.
    expect_suspects(imported({file("a.log", log_of(CollectiveKind::AllReduce, 8, 1, 30, 400)),
                              file("b.log", log_of(CollectiveKind::AllReduce, 8, 1, 30, 200))}),
                    {"source-conflict"});
    expect_suspects(imported({file("c.log", log_of(CollectiveKind::AllReduce, 8, 1, 30, 200))}, "a100"),
                    {"source-conflict"});
    expect_suspects(imported({file("d.log", log_of(CollectiveKind::AllReduce, 16, 1, 30, 400)), xml}),
                    {"source-conflict"});
    // The disturbed one of two is left out.
    std::string disturbed = log_of(CollectiveKind::AllReduce, 8, 1, 30, 150);
    disturbed += "1024 256 float sum -1 31.00 0.03 0.06 0 31.00 0.03 0.06 0\n";
    const ImportResult result = imported(
        {file("bad.log", disturbed), file("good.log", log_of(CollectiveKind::AllReduce, 8, 1, 30, 400))});
    expect_suspects(result, {"size-order", "source-conflict"});
    EXPECT_EQ(result.sources[0].points, 0);
    EXPECT_EQ(result.sources[1].points, 48);
}

// Traces of four ranks; rank 2 enters every collective 3 ms late, and clocks differ.
TEST_F(Import, ArrivalSkew) {
    const auto trace = [](int rank, double late_ms, double clock_ms, std::int64_t elements) {
        std::string text = fmt::format(
            "{{\"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": 4}}, "
            "\"deviceProperties\": [{{\"name\": \"NVIDIA H100 80GB HBM3\"}}], \"traceEvents\": [\n",
            rank);
        for (int i = 0; i < 20; ++i) {
            const double end = 1e6 + clock_ms * 1e3 + i * 20e3 + 8e3;
            const double start = end - 8e3 + late_ms * 1e3 + (i % 3) * 10;
            text += fmt::format(
                "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": "
                "\"ncclDevKernel_AllReduce_Sum_bf16_RING_LL()\", \"pid\": 0, "
                "\"tid\": 20, \"ts\": {:.3f}, \"dur\": {:.3f}, \"args\": {{\"Collective name\": "
                "\"allreduce\", "
                "\"In msg nelems\": {}, \"Out msg nelems\": {}, \"dtype\": \"BFloat16\", \"Group size\": 4, "
                "\"Process Group Name\": \"0\"}}}},\n",
                start, end - start, elements << (i % 4), elements << (i % 4));
        }
        return text + "]}";
    };
    std::vector<std::filesystem::path> files;
    for (int rank = 0; rank < 4; ++rank)
        files.push_back(
            file(fmt::format("rank{}.json", rank), trace(rank, rank == 2 ? 3 : 0, 7.5 * rank, 1 << 20)));
    const ImportResult result = imported(files);
    expect_suspects(result, {"arrival-skew"});
    ASSERT_EQ(suspects(result).size(), 1U);
    EXPECT_NE(suspects(result)[0].message.find("rank 2 enters collectives 3 ms"), std::string::npos)
        << suspects(result)[0].message;
    // The transfer is what the last to come took: 5 ms, not 8.
    const auto curve = measured_collective(result.document.profile, CollectiveKind::AllReduce, 4, 4e6);
    ASSERT_TRUE(curve);
    EXPECT_NEAR(curve->seconds, 5e-3, 0.5e-3);
    // A pipeline's transfers wait for their other end by nature.
    const auto sends = [&](std::string text) {
        for (auto at = text.find("AllReduce_Sum_bf16"); at != std::string::npos;
             at = text.find("AllReduce_Sum_bf16"))
            text.replace(at, 18, "SendRecv");
        for (auto at = text.find("allreduce"); at != std::string::npos; at = text.find("allreduce"))
            text.replace(at, 9, "send");
        return text;
    };
    const ImportResult transfers = imported(
        {file("s0.json", sends(trace(0, 0, 0, 1 << 20))), file("s1.json", sends(trace(1, 3, 0, 1 << 20)))});
    expect_suspects(transfers, {});
    // What becomes no curve is said.
    ASSERT_TRUE(has_finding(transfers.findings, "numbers-missing"));
    EXPECT_EQ(to_string(transfers.findings.front()),
              "numbers-missing: 40 of 40 collectives in the traces are not used: 40 transfers between two "
              "ranks, which say not to whom");
    EXPECT_FALSE(has_finding(result.findings, "numbers-missing"));
    // Punctual ranks raise nothing; one rank twice does.
    expect_suspects(
        imported({file("p0.json", trace(0, 0, 0, 1 << 20)), file("p1.json", trace(1, 0, 3, 1 << 20))}), {});
    expect_suspects(imported({files[0], file("again.json", trace(0, 0, 0, 1 << 20))}), {"duplicate-rank"});
}

TEST_F(Import, RefusalsSayWhatToDo) {
    const auto refusal = [&](const std::vector<std::filesystem::path>& files,
                             const std::string& device = "") {
        const auto result = import_profile(files, {.device = device, .name = "", .progress = nullptr});
        EXPECT_FALSE(result);
        return result ? Errors{} : result.errors();
    };
    // A model is no machine; all refusals at once.
    const Errors models = refusal(
        {file("config.json",
              R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "vocab_size": 100})"),
         folder_.path() / "nothing.txt"});
    EXPECT_EQ(models.size(), 2U);
    EXPECT_NE(to_string(models).find("no figures of a machine"), std::string::npos) << to_string(models);
    EXPECT_EQ(models.front().code, ErrorCode::Unreadable);
    // Nobody names the device; nobody knows it; the nearest is named.
    const auto log = file("unnamed.log", log_of(CollectiveKind::AllReduce, 8, 0, 30, 400));
    EXPECT_NE(to_string(refusal({log})).find("--device h100"), std::string::npos);
    const auto other =
        file("other.log", log_of(CollectiveKind::AllReduce, 8, 1, 30, 400, "AMD Instinct MI355X"));
    EXPECT_NE(to_string(refusal({other})).find("MI355X"), std::string::npos);
    EXPECT_NE(to_string(refusal({log}, "h1000")).find("h100"), std::string::npos);
}

TEST_F(Import, WhatNobodySaysIsSaid) {
    const ImportResult result =
        imported({file("few.log",
                       "1073741824 268435456 float sum -1 6276.0 171.09 299.40 0 6281.2 170.95 299.15 0\n")},
                 "h100");
    EXPECT_TRUE(has_finding(result.findings, "too-few-points"));
    EXPECT_TRUE(has_finding(result.sources[0].findings, "hosts-unknown"));
    EXPECT_FALSE(result.absent.empty());
    EXPECT_EQ(result.sources[0].points, 0);
    expect_suspects(result, {});
}

TEST_F(Import, TimesWithoutACurveAreNotUsed) {
    std::string text = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
    for (int i = 0; i < 12; ++i) {
        const double bytes = std::ldexp(1, 20 + i), us = i % 2 == 0 ? 1e7 / (i + 1) : 20;
        text += fmt::format("{:.0f} {:.0f} float sum -1 {:.2f} {:.2f} {:.2f} 0 {:.2f} {:.2f} {:.2f} 0\n",
                            bytes, bytes / 4, us, bytes / us * 1e-3, bytes / us * 1.75e-3, us,
                            bytes / us * 1e-3, bytes / us * 1.75e-3);
    }
    const ImportResult result = imported({file("noise.log", text)}, "h100");
    EXPECT_TRUE(has_finding(result.findings, "no-curve"));
    EXPECT_FALSE(measured_collective(result.document.profile, CollectiveKind::AllReduce, 8, 1e8)->scaled ==
                 false);
}

// Products of a SimuMax system become the GEMM curve.
TEST_F(Import, MeasuredProducts) {
    std::string text =
        R"({"sys_name": "x", "num_per_node": 8, "accelerator": {"mem_gbs": 80, "op": {"default": {"tflops": 989},
        "matmul": {"tflops": 989, "accurate_efficient_factor": {)";
    int count = 0;
    for (const int n : {1024, 2048, 4096, 8192, 16384}) {
        for (const int k : {1024, 2048, 4096, 8192, 16384}) {
            text +=
                fmt::format("{}\"b=1, m=4096, k={}, n={}, layout=TN, accumulate=False, out_dtype=bf16\": 0.5",
                            count++ > 0 ? ", " : "", k, n);
        }
    }
    text += "}}}}}";
    const ImportResult result = imported({file("system.json", text)}, "h100");
    expect_suspects(result, {});
    const auto bf16 = std::find_if(result.document.profile.gemm.begin(), result.document.profile.gemm.end(),
                                   [](const GemmEntry& e) { return e.precision == Precision::Bf16; });
    ASSERT_NE(bf16, result.document.profile.gemm.end());
    EXPECT_TRUE(bf16->fit.scaled_from.empty());
    GemmShape shape;
    shape.m = 4096, shape.n = 8192, shape.k = 8192;
    const double seconds = gemm_seconds(bf16->curve, bf16->residual, shape);
    EXPECT_NEAR(2.0 * 4096 * 8192 * 8192 / seconds / 989e12, 0.5, 0.05);
    EXPECT_EQ(result.sources[0].points, 25);
}

}  // namespace
}  // namespace tw

#include "models/formats/foreign_hardware.hpp"

#include <set>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "models/formats/chakra.hpp"
#include "models/formats/other_tools.hpp"
#include "models/formats/topology_nics.hpp"
#include "models/hardware/driver_name.hpp"

namespace tw {
namespace {

ForeignHardware read(std::string_view text, std::string_view name, std::string_view kind) {
    const ForeignHardwareKind* found = foreign_hardware_kind(text);
    EXPECT_NE(found, nullptr) << text;
    if (found == nullptr) return {};
    EXPECT_EQ(found->name, kind);
    const auto hardware = found->read(text, name);
    EXPECT_TRUE(hardware) << to_string(hardware.errors());
    if (!hardware) return {};
    EXPECT_FALSE(describe(*hardware).title.empty());
    return *hardware;
}

TEST(ForeignHardware, CalculonSystem) {
    const char* text =
        R"({"matrix": {"float16": {"tflops": 312}}, "vector": {}, "mem1": {"GiB": %s, "GBps": 2048}, "mem2": {},
        "networks": [{"bandwidth": 300, "efficiency": 0.65, "size": 8, "latency": 0.00001}, {"bandwidth": 25, "size": 65536}]})";
    std::string good = text, bytes = text;
    good.replace(good.find("%s"), 2, "80");
    bytes.replace(bytes.find("%s"), 2, "80000000000");
    const ForeignHardware a = read(good, "a.json", "Calculon system");
    EXPECT_EQ(a.devices_per_node, 8);
    EXPECT_EQ(a.memory.value, std::int64_t{80} << 30);
    ASSERT_EQ(a.peaks.size(), 1U);
    EXPECT_DOUBLE_EQ(a.peaks[0].second.value, 312e12);
    ASSERT_EQ(a.links.size(), 2U);
    EXPECT_DOUBLE_EQ(a.links[0].latency_s, 1e-5);
    EXPECT_TRUE(a.findings.empty());
    // 80000000000 GiB are bytes.
    const ForeignHardware b = read(bytes, "b.json", "Calculon system");
    EXPECT_EQ(b.memory.value, 80'000'000'000);
    EXPECT_TRUE(has_finding(b.findings, "memory-unit"));
}

TEST(ForeignHardware, SimuMaxSystem) {
    const ForeignHardware h =
        read(R"({"sys_name": "test_gpu", "num_per_node": 8, "accelerator": {"mem_gbs": 80,
        "op": {"default": {"tflops": 100}, "matmul": {"tflops": 100, "accurate_efficient_factor": {
          "b=1, m=1000, k=1000, n=1000, layout=TN, accumulate=False, out_dtype=bf16": 0.5,
          "b=1, m=1000, k=1000, n=1000, layout=NT, accumulate=True, out_dtype=fp32": 0.25, "garbage": 0.1}}},
        "bandwidth": {"default": {"gbps": 1600}}},
        "networks": {"intra_with_pcie": true, "inter_node": {"bandwidth": {"gbps": 25, "latency_us": 40}}}})",
             "s.json", "SimuMax system");
    ASSERT_EQ(h.products.size(), 2U);
    EXPECT_NEAR(h.products[0].seconds, 2e9 / 50e12, 1e-12);
    EXPECT_EQ(h.products[1].form, GemmForm::WeightGrad);
    ASSERT_EQ(h.links.size(), 1U);
    EXPECT_EQ(h.links[0].name, "between nodes");
    EXPECT_TRUE(has_finding(h.findings, "numbers-missing"));
}

TEST(ForeignHardware, GalvatronRates) {
    const char* text =
        R"({"allreduce_size_16_consec_1": 44.6, "allreduce_size_8_consec_1": 155.6, "allreduce_size_8_consec_0": 20.7})";
    const ForeignHardware h =
        read(text, "x/allreduce_bandwidth_2nodes_8gpus_per_node.json", "Galvatron hardware profile");
    ASSERT_EQ(h.rates.size(), 3U);
    EXPECT_EQ(h.rates[0].nodes, 2);
    EXPECT_EQ(h.rates[1].nodes, 1);
    EXPECT_EQ(h.rates[2].nodes, 2);
    EXPECT_DOUBLE_EQ(h.rates[1].busbw.value, 155.6e9);
    EXPECT_TRUE(has_finding(h.findings, "too-few-points"));
    const ForeignHardware chain = read(R"({"pp_size_2": 163.6})", "p2p_bandwidth_1nodes_8gpus_per_node.json",
                                       "Galvatron hardware profile");
    EXPECT_EQ(chain.rates[0].kind, CollectiveKind::SendRecv);
}

TEST(ForeignHardware, NnScalerTimes) {
    const char* text =
        R"({"all gather": [[0.25, 1.0], [0.001, 0.002]], "all to all": [[1.0], [0.004]], "other": 3})";
    const ForeignHardware h = read(text, "comm/intra_4.json", "nnScaler communication profile");
    ASSERT_EQ(h.series.size(), 2U);
    EXPECT_EQ(h.series[0].group_size, 4);
    EXPECT_DOUBLE_EQ(h.series[0].points[1].bytes, 1048576);
    EXPECT_DOUBLE_EQ(h.series[1].points[0].bytes, 1048576 / 4.0);  // one rank's share, as nccl-tests counts
    EXPECT_EQ(h.series[0].nodes, 1);
    EXPECT_EQ(read(text, "intra_16.json", "nnScaler communication profile").series[0].nodes, 0);
}

TEST(ForeignHardware, AstraSimNetwork) {
    const ForeignHardware h = read(
        "topology: [ Switch, Ring ]  # innermost first\nnpus_count: [ 8, 2 ]\n# bandwidth: [ 1 ]\n"
        "bandwidth: [ 400, 50 ]\nlatency: [ 936.25, 500.0 ]\n",
        "n.yml", "ASTRA-sim network");
    ASSERT_EQ(h.links.size(), 2U);
    EXPECT_DOUBLE_EQ(h.links[1].bandwidth.value, 50e9);
    EXPECT_NEAR(h.links[0].latency_s, 936.25e-9, 1e-15);
    EXPECT_FALSE(read_astra_network("topology: [ Ring ]\nnpus_count: [ 8, 2 ]\n", "n.yml"));
}

TEST(ForeignHardware, EveryKindRefusesNonsense) {
    for (const ForeignHardwareKind& kind : foreign_hardware_kinds()) {
        for (const std::string_view text : {"", "{", "{}", "[]", "words", "{\"a\": 1}"}) {
            EXPECT_FALSE(kind.sniff(text)) << kind.name << ": " << text;
            EXPECT_FALSE(kind.read(text, "f")) << kind.name << ": " << text;
        }
    }
}

TEST(ForeignHardware, ChakraTrace) {
    // metadata {version "0.0.4"}; node {name "ar", type 7, attr {"comm_size", int64 1024}}
    const std::string attr = std::string("\x52\x0e\x0a\x09") + "comm_size" + "\x48\x80\x08";
    const std::string node = std::string("\x12\x02") + "ar" + "\x18\x07" + attr;
    const std::string text = std::string("\x07\x0a\x05") + "0.0.4" + static_cast<char>(node.size()) + node;
    ASSERT_TRUE(looks_like_chakra(text));
    const auto trace = parse_chakra(text, "t.et");
    ASSERT_TRUE(trace) << to_string(trace.errors());
    EXPECT_EQ(trace->collective, 1);
    EXPECT_EQ(trace->collective_bytes, 1024);
    EXPECT_EQ(trace->first_name, "ar");
    EXPECT_FALSE(trace->sizes_of_wrong_type);
    EXPECT_FALSE(parse_chakra(text.substr(0, text.size() - 1), "t.et"));
    // As uint64, which a feeder reads as 0.
    std::string wrong = text;
    wrong[wrong.find('\x48')] = '\x68';
    EXPECT_TRUE(parse_chakra(wrong, "t.et")->sizes_of_wrong_type);
}

TEST(OtherTools, NamesAreDistinct) {
    std::set<std::string_view> names;
    for (const DocumentKind& kind : other_tools())
        EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_GE(names.size(), 20U);
}

TEST(TopologyNics, NearestPortsOfAnXml) {
    const std::string gpu = R"(<gpu dev="0" sm="80" rank="0"/>)";
    const auto card = [](const char* bus, const char* name, int speed, const char* link) {
        return "<pci busid=\"" + std::string(bus) + "\" class=\"0x020700\" link_speed=\"" + link +
               "\" link_width=\"16\"><nic><net name=\"" + name + "\" dev=\"0\" speed=\"" +
               std::to_string(speed) + "\" port=\"1\" gdr=\"1\"/></nic></pci>";
    };
    const auto device = [&](const char* bus) {
        return "<pci busid=\"" + std::string(bus) +
               "\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\">" + gpu + "</pci>";
    };
    const std::string text = "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"s\" class=\"0x060400\">" +
                             device("a") + card("n", "mlx5_0", 200000, "16 GT/s") + "</pci>" + device("b") +
                             "</cpu><cpu numaid=\"1\">" + device("c") +
                             card("m", "mlx5_1", 100000, "16 GT/s") + card("e", "eth0", 10000, "8 GT/s") +
                             "</cpu></system>";
    const auto topology = parse_nccl_topology(text, "t.xml");
    ASSERT_TRUE(topology) << to_string(topology.errors());
    const TopologyNics nics = topology_nics(*topology);
    EXPECT_EQ(nics.ports, (std::vector<std::string>{"mlx5_0", "mlx5_1"}));
    EXPECT_EQ(nics.left_out, std::vector<std::string>{"eth0"});
    // What an even split over both ports runs at is the slower one's rate.
    EXPECT_DOUBLE_EQ(nics.bandwidth.value, 12.5e9);
    EXPECT_DOUBLE_EQ(nics.fastest.value, 25e9);
    EXPECT_EQ(nics.nearest, (std::vector<NearestNic>{{0, 1}, {0, 3}, {1, 3}}));
    const auto findings = check_topology(*topology);
    EXPECT_TRUE(has_finding(findings, "half-speed-nic"));  // mlx5_1 has half of mlx5_0's speed
    EXPECT_TRUE(has_finding(findings, "shared-nic"));
}

TEST(TopologyNics, AMatrixLeavesStorageOut) {
    const auto matrix = parse_topo_matrix(
        "\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tCPU Affinity\nGPU0\t X \tNV4\tPIX\tNODE\tSYS\t0\n"
        "GPU1\tNV4\t X \tNODE\tPIX\tSYS\t0\nNIC0\tPIX\tNODE\t X \tNODE\tSYS\nNIC1\tNODE\tPIX\tNODE\t X "
        "\tSYS\n"
        "NIC2\tSYS\tSYS\tSYS\tSYS\t X \n",
        "m");
    ASSERT_TRUE(matrix) << to_string(matrix.errors());
    const TopologyNics nics = topology_nics(*matrix);
    EXPECT_EQ(nics.ports.size(), 2U);
    EXPECT_EQ(nics.left_out, std::vector<std::string>{"NIC2"});
    EXPECT_EQ(nics.nearest, (std::vector<NearestNic>{{0, 1}, {1, 1}}));
    EXPECT_TRUE(check_topology(*matrix).empty());
}

TEST(DriverName, FindsTheShippedDevice) {
    for (const auto& [driver, name] :
         {std::pair{"NVIDIA H100 80GB HBM3", "h100"}, std::pair{"NVIDIA GH200 120GB", "gh200"},
          std::pair{"A100-SXM4-40GB", "a100-40"}, std::pair{"NVIDIA A100-SXM4-80GB", "a100"},
          std::pair{"NVIDIA A100 80GB PCIe", "a100-pcie"}, std::pair{"Tesla T4", "t4"},
          std::pair{"NVIDIA H200", "h200"}, std::pair{"Tesla V100-SXM2-32GB", "v100-32"},
          std::pair{"Tesla V100-SXM2-16GB", "v100-16"}, std::pair{"NVIDIA A40", "a40"},
          std::pair{"NVIDIA L40S", "l40s"}, std::pair{"NVIDIA GeForce RTX 4090", "rtx4090"},
          std::pair{"NVIDIA B200", "b200"}, std::pair{"NVIDIA H100 PCIe", "h100-pcie"}}) {
        const auto device = device_of_driver_name(driver);
        ASSERT_TRUE(device) << driver;
        EXPECT_EQ(device->name, name) << driver;
    }
    EXPECT_EQ(device_of_driver_name("NVIDIA A100-PG509-200", 42'297'524'224)->name, "a100-40");
    EXPECT_FALSE(device_of_driver_name("Tesla K80"));
    EXPECT_FALSE(device_of_driver_name("AMD Instinct MI355X"));
    EXPECT_FALSE(device_of_driver_name(""));
}

TEST(Findings, EachIsDocumented) {
    const auto page = read_text_file(std::string(TW_SOURCE_DIR) + "/docs/import.md");
    ASSERT_TRUE(page);
    for (const FindingKind& kind : finding_kinds())
        EXPECT_NE(page->find("`" + std::string(kind.name) + "`"), std::string::npos) << kind.name;
}

TEST(Findings, TableIsSortedAndComplete) {
    std::string_view last;
    for (const FindingKind& kind : finding_kinds()) {
        EXPECT_LT(last, kind.name);
        last = kind.name;
        EXPECT_FALSE(kind.meaning.empty() || kind.advice.empty()) << kind.name;
    }
    EXPECT_EQ(to_string(Finding{"rate-unit", "x", 7}), "rate-unit: line 7: x");
}

}  // namespace
}  // namespace tw

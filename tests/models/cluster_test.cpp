#include "models/hardware/cluster.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "models/data/embedded.hpp"
#include "models/hardware/cluster_json.hpp"
#include "models/hardware/cluster_table.hpp"

namespace tw {
namespace {

double gigabits(BytesPerSecond rate) {
    return rate.value * 8 / 1e9;
}

TEST(LoadCluster, A100AndH100HaveEightDevicesWithOneNicEach) {
    const auto h100 = load_cluster("h100:64");
    ASSERT_TRUE(h100.has_value()) << to_string(h100.errors());
    ASSERT_TRUE(h100->uniform());
    EXPECT_EQ(h100->devices(), 64);
    EXPECT_EQ(h100->nodes(), 8);
    EXPECT_EQ(h100->groups[0].type.name, "dgx-h100");
    EXPECT_EQ(h100->groups[0].device.name, "h100");
    EXPECT_DOUBLE_EQ(gigabits(h100->groups[0].type.network_per_device()), 400);
    EXPECT_TRUE(h100->groups[0].type.nvls);
    EXPECT_EQ(h100->name, "h100:64");

    const auto a100 = load_cluster("A100:1024");
    ASSERT_TRUE(a100.has_value());
    EXPECT_EQ(a100->nodes(), 128);
    EXPECT_DOUBLE_EQ(gigabits(a100->groups[0].type.network_per_device()), 200);
    EXPECT_GT(a100->groups[0].device.memory.value, 79LL << 30);
    EXPECT_EQ(a100->groups[0].device.peak(Precision::Bf16).value, 312e12);
    EXPECT_FALSE(a100->groups[0].type.nvls);
}

TEST(LoadCluster, NodeTypesAliasesAndSizesWithoutANumber) {
    EXPECT_EQ(load_cluster("dgx-h100:128")->nodes(), 16);
    EXPECT_EQ(load_cluster("dgx-h100")->devices(), 8);
    EXPECT_EQ(load_cluster("a100-80:16")->groups[0].device.name, "a100");
    EXPECT_EQ(load_cluster("v100:16")->groups[0].device.name, "v100-32");
    EXPECT_EQ(load_cluster("gb200:144")->nodes(), 2);
    EXPECT_EQ(load_cluster("cpu:2")->groups[0].type.link, IntraNodeLink::SharedMemory);
    EXPECT_EQ(load_cluster("cpu:4")->nodes(), 2);
}

TEST(LoadCluster, FewerDevicesThanANodeAreAPartOfIt) {
    const auto part = load_cluster("h100:4");
    ASSERT_TRUE(part.has_value());
    EXPECT_EQ(part->nodes(), 1);
    EXPECT_EQ(part->devices(), 4);
    EXPECT_EQ(part->groups[0].type.nics, 4);
    EXPECT_DOUBLE_EQ(gigabits(part->groups[0].type.network_per_device()), 400);
    EXPECT_EQ(load_cluster("p4d:1")->groups[0].type.nics, 1);
    EXPECT_EQ(load_cluster("gb200:8")->groups[0].type.devices_per_tray, 4);
    EXPECT_EQ(load_cluster("gb200:2")->groups[0].type.devices_per_tray, 2);
}

TEST(LoadCluster, SizesBetweenNodesNameTheirNeighbours) {
    const auto refused = load_cluster("h100:12");
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::Usage);
    EXPECT_NE(refused.error().message.find("12 devices are no multiple of the 8"), std::string::npos);
    EXPECT_NE(refused.error().hint.find("8 and 16"), std::string::npos);
    EXPECT_NE(load_cluster("gb200:100").error().hint.find("72 and 144"), std::string::npos);
}

TEST(LoadCluster, RefusesSizesThatAreNone) {
    for (const char* text : {"h100:", "h100:0", "h100:-8", "h100:8x", "h100: 8", "h100:99999999999999999999",
                             "h100:1e3", "h100:8:8", "h100:1048584"}) {
        const auto refused = load_cluster(text);
        ASSERT_FALSE(refused.has_value()) << text;
        EXPECT_EQ(refused.error().code, ErrorCode::Usage) << text;
        EXPECT_NE(refused.error().context.find(text), std::string::npos) << text;
    }
}

TEST(LoadCluster, UnknownNamesSuggestTheNearest) {
    EXPECT_NE(load_cluster("h10:8").error().hint.find("did you mean 'h100'"), std::string::npos);
    EXPECT_NE(load_cluster("dxg-a100:8").error().hint.find("did you mean 'dgx-a100'"), std::string::npos);
    EXPECT_NE(load_device("mi300").error().hint.find("did you mean 'mi300x'"), std::string::npos);
    EXPECT_NE(load_node_type("p4dd").error().hint.find("'p4d"), std::string::npos);
    EXPECT_EQ(load_cluster("").error().code, ErrorCode::Usage);
    EXPECT_EQ(load_cluster("no/such/file.json").error().code, ErrorCode::Unreadable);
}

TEST(Presets, CoverTheDevicesAndNodesThatPeopleName) {
    for (const char* name :
         {"v100-16", "v100-32", "a100-40",    "a100", "a100-pcie", "h100",   "h100-pcie", "h100-96",
          "h800",    "h200",    "b200",       "b300", "gb200",     "gb300",  "l40s",      "a40",
          "a10g",    "rtx4090", "rtxpro6000", "t4",   "p100",      "mi250x", "mi300x",    "cpu"}) {
        EXPECT_TRUE(load_device(name).has_value()) << name;
        const auto cluster = load_cluster(name);
        ASSERT_TRUE(cluster.has_value()) << name;
        EXPECT_EQ(cluster->groups[0].device.name, name);
    }
    for (const char* name : {"dgx-1v",
                             "dgx-2",
                             "dgx-a100",
                             "dgx-h100",
                             "dgx-h200",
                             "dgx-b200",
                             "gb200-nvl72",
                             "p3dn",
                             "p4d",
                             "p4de",
                             "p5",
                             "p5e",
                             "a2-ultra",
                             "a3-high",
                             "a3-mega",
                             "a3-ultra",
                             "nd-a100-v4",
                             "nd-h100-v5",
                             "oci-bm-gpu-h100-8",
                             "selene",
                             "jean-zay-a100",
                             "jean-zay-v100",
                             "rtx4090-pcie",
                             "l40s-pcie"}) {
        EXPECT_TRUE(load_node_type(name).has_value()) << name;
    }
}

TEST(Presets, EveryShippedDocumentDecodesUnderItsOwnName) {
    for (const std::string& name : embedded_names("hardware/devices"))
        EXPECT_EQ(load_device(name)->name, name);
    for (const std::string& name : embedded_names("hardware/nodes"))
        EXPECT_EQ(load_node_type(name)->name, name);
    EXPECT_EQ(shipped_devices().size(), embedded_names("hardware/devices").size());
    EXPECT_EQ(shipped_node_types().size(), embedded_names("hardware/nodes").size());
}

TEST(Presets, DevicesKeepToSaneBounds) {
    std::set<std::string> names;
    for (const Device& device : shipped_devices()) {
        SCOPED_TRACE(device.name);
        EXPECT_TRUE(names.insert(device.name).second);
        for (const std::string& alias : device.aliases)
            EXPECT_TRUE(names.insert(alias).second) << alias;
        EXPECT_FALSE(device.source.empty());
        EXPECT_FALSE(device.description.empty());
        EXPECT_GE(device.memory.value, 8LL << 30);
        EXPECT_LE(device.memory.value, 300LL << 30);
        EXPECT_LE(device.memory_bandwidth.value, 8e12);
        EXPECT_GT(device.peak_fp32.value, 0);
        double before = device.peak_fp32.value;
        for (const FlopRate rate : {device.peak_tf32, device.peak_bf16, device.peak_fp8}) {
            if (rate.value == 0) continue;
            EXPECT_GE(rate.value, before);
            before = rate.value;
        }
        if (device.peak_bf16.value > 0 && device.peak_fp16.value > 0) {
            EXPECT_EQ(device.peak_bf16.value, device.peak_fp16.value);
        }
        // A GEMM's ridge lies between 5 and 700 operations a byte on everything of the last ten years.
        const double ridge = device.peak(Precision::Fp16).value / device.memory_bandwidth.value;
        EXPECT_GT(ridge, 5);
        EXPECT_LT(ridge, 700);
        const auto node = load_node_type(device.default_node);
        ASSERT_TRUE(node.has_value()) << device.default_node;
        EXPECT_EQ(node->device, device.name);
    }
}

TEST(Presets, NodesKeepToSaneBounds) {
    for (const NodeType& type : shipped_node_types()) {
        SCOPED_TRACE(type.name);
        EXPECT_TRUE(load_device(type.device).has_value());
        EXPECT_FALSE(type.source.empty());
        EXPECT_GE(type.devices, 2);
        EXPECT_LE(type.devices, 72);
        EXPECT_GE(type.nics, 1);
        EXPECT_LE(gigabits(type.network_per_device()), 800);
        EXPECT_GE(gigabits(type.network_per_device()), 5);
        EXPECT_LE(type.network_per_device().value, type.link_bandwidth.value);
        EXPECT_LE(type.link_bandwidth.value, 900e9);
        EXPECT_GT(type.link_latency_s, 0);
        EXPECT_LT(type.link_latency_s, type.nic_latency_s);
        EXPECT_LE(type.nic_latency_s, 50e-6);
        if (type.devices_per_tray > 0) {
            EXPECT_EQ(type.devices % type.devices_per_tray, 0);
        }
        const std::string architecture = load_device(type.device)->architecture;
        const bool reduces = architecture == "hopper" || architecture == "blackwell";
        EXPECT_EQ(type.nvls, reduces && type.link == IntraNodeLink::NvSwitch);
    }
}

TEST(Presets, NicsAreSharedWhereTheyAreFewerThanDevices) {
    const auto p4d = load_node_type("p4d");
    EXPECT_EQ(p4d->nics, 4);
    EXPECT_EQ(p4d->devices, 8);
    EXPECT_DOUBLE_EQ(gigabits(p4d->network_per_device()), 50);
    EXPECT_DOUBLE_EQ(gigabits(load_node_type("jean-zay-a100")->network_per_device()), 50);
    EXPECT_DOUBLE_EQ(gigabits(load_node_type("jean-zay-v100")->network_per_device()), 100);
    EXPECT_DOUBLE_EQ(gigabits(load_node_type("p5")->network_per_device()), 400);
    EXPECT_DOUBLE_EQ(gigabits(load_node_type("a3-high")->network_per_device()), 100);
    EXPECT_DOUBLE_EQ(gigabits(load_node_type("p3dn")->network_per_device()), 12.5);
    const auto rack = load_node_type("gb200-nvl72");
    EXPECT_EQ(rack->devices, 72);
    EXPECT_EQ(rack->devices_per_tray, 4);
    EXPECT_DOUBLE_EQ(gigabits(rack->network_per_device()), 400);
}

TEST(Device, PeakFallsBackToFp32WhereAPrecisionIsMissing) {
    const auto v100 = load_device("v100-32");
    EXPECT_EQ(v100->peak(Precision::Fp16).value, 125e12);
    EXPECT_EQ(v100->peak(Precision::Bf16).value, 15.7e12);
    EXPECT_EQ(v100->peak(Precision::Tf32).value, 15.7e12);
    EXPECT_EQ(v100->peak(Precision::Fp8).value, 15.7e12);
    EXPECT_EQ(load_device("a100")->peak(Precision::Fp8).value, 312e12);
    EXPECT_EQ(load_device("h100")->peak(Precision::Fp8).value, 1979e12);
}

TEST(Cluster, RanksFollowTheGroups) {
    Cluster cluster;
    cluster.groups.push_back({*load_node_type("dgx-h100"), *load_device("h100"), 2});
    cluster.groups.push_back({*load_node_type("jean-zay-v100"), *load_device("v100-32"), 3});
    EXPECT_EQ(cluster.devices(), 28);
    EXPECT_EQ(cluster.nodes(), 5);
    EXPECT_EQ(cluster.node_of(0), 0);
    EXPECT_EQ(cluster.node_of(15), 1);
    EXPECT_EQ(cluster.node_of(16), 2);
    EXPECT_EQ(cluster.node_of(27), 4);
    EXPECT_EQ(cluster.group_of(15).device.name, "h100");
    EXPECT_EQ(cluster.group_of(16).device.name, "v100-32");
}

TEST(Cluster, AttentionIsTheFastestThatAllDevicesRun) {
    const auto kernel = [](const char* cluster) { return default_attention(*load_cluster(cluster)); };
    EXPECT_EQ(kernel("h100:8"), AttentionKernel::CuDnn);
    EXPECT_EQ(kernel("b200:8"), AttentionKernel::CuDnn);
    EXPECT_EQ(kernel("a100:8"), AttentionKernel::Flash2);
    EXPECT_EQ(kernel("rtx4090:8"), AttentionKernel::Flash2);
    EXPECT_EQ(kernel("t4:8"), AttentionKernel::Flash1);
    EXPECT_EQ(kernel("v100:8"), AttentionKernel::Unfused);
    Cluster mixed = *load_cluster("h100:8");
    mixed.groups.push_back(load_cluster("a100:8")->groups.front());
    EXPECT_EQ(default_attention(mixed), AttentionKernel::Flash2);
}

TEST(ClusterTable, HasARowForEveryNodeType) {
    const auto rows = cluster_table();
    ASSERT_EQ(rows.size(), shipped_node_types().size());
    EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end(),
                               [](const auto& a, const auto& b) { return a.name < b.name; }));
    const auto p4d =
        std::find_if(rows.begin(), rows.end(), [](const ClusterRow& row) { return row.name == "p4d"; });
    ASSERT_NE(p4d, rows.end());
    EXPECT_EQ(p4d->device, "a100-40");
    EXPECT_EQ(p4d->link, "nvswitch");
    EXPECT_EQ(nic_text(p4d->nics, p4d->nic_bandwidth), "4 x 100 Gb/s");
    EXPECT_EQ(p4d->peak_bf16.value, 312e12);
    EXPECT_TRUE(p4d->device_names.empty());
    const auto dgx =
        std::find_if(rows.begin(), rows.end(), [](const ClusterRow& row) { return row.name == "dgx-a100"; });
    EXPECT_EQ(dgx->device_names.front(), "a100");
    EXPECT_EQ(nic_text(0, BytesPerSecond(0)), "-");
}

}  // namespace
}  // namespace tw

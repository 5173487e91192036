// Words of measured rows, each with what must be read from it.
#include "sim/validate/row_words.hpp"

#include <cmath>

#include "sim/validate/truth_network.hpp"
#include "tests/sim/measured_rows.hpp"

namespace tw {
namespace {

TEST(RowWords, NumbersStandBesideWords) {
    EXPECT_EQ(number_after("fsdp shard group 8 gpus", "shard"), 8);
    EXPECT_EQ(number_after("replicate=4", "replicate"), 4);
    EXPECT_FALSE(number_after("shard group all ranks", "shard"));
    EXPECT_EQ(number_before("16 links of 100", "link"), 16);
    EXPECT_FALSE(number_before("v2 links", "link"));
    EXPECT_FALSE(number_before("99999999999 links", "link"));
}

TEST(RowFields, NumbersAndWordsChangePlaces) {
    const TruthRow row = row_with({{"id", 17},
                                   {"tp", "2"},
                                   {"vpp", "n/a"},
                                   {"fsdp", false},
                                   {"recompute", true},
                                   {"flash_attention", 1},
                                   {"sequence_parallel", "yes"},
                                   {"iteration_time_s", "1.5"},
                                   {"zero_stage", "ZeRO-1"}});
    EXPECT_TRUE(row.errors.empty()) << to_string(row.errors);
    EXPECT_EQ(row.id, "17");
    EXPECT_EQ(row.tp, 2);
    EXPECT_FALSE(row.vpp);
    EXPECT_EQ(row.sharding, "false");
    EXPECT_EQ(row.recompute, "true");
    EXPECT_EQ(row.flash_attention, true);
    EXPECT_EQ(row.sequence_parallel, true);
    EXPECT_DOUBLE_EQ(row.step_time_s, 1.5);
    EXPECT_EQ(row.zero_stage, 1);
    EXPECT_EQ(row_with({{"flash_attention", "unfused"}}).flash_attention, false);
    EXPECT_EQ(row_with({{"flash_attention", "FlashAttention-2"}}).flash_attention, true);
    EXPECT_EQ(refusal_of({{"tp", "many"}}), "expected a number, found \"many\"");
    EXPECT_EQ(case_of({{"precision", 16}}).plan.precision.compute, Precision::Fp16);
    EXPECT_EQ(row_with({{"float8", true}, {"precision", "bf16"}}).precision, "fp8");
}

TEST(TruthNetwork, RatesOfLinksNodesAndDevices) {
    const NodeType node = load_node_type("dgx-a100").value();  // 8 links of 200 Gb/s
    const auto gigabits = [&](const char* text) {
        return std::round(stated_network(text, node).node_bytes_per_s * 8 / 1e9);
    };
    EXPECT_EQ(gigabits("25 GB/s per GPU"), 1600);
    EXPECT_EQ(gigabits("RDMA 400 Gb/s per GPU"), 3200);
    EXPECT_EQ(gigabits("16 links of 100 Gb/s"), 1600);
    EXPECT_EQ(gigabits("Omni-Path 100 Gb/s (4 links per node)"), 400);
    EXPECT_EQ(gigabits("4x200Gb/s"), 800);
    EXPECT_EQ(gigabits("GCP A3 (TCPX) 8x200 Gbps"), 1600);
    EXPECT_EQ(gigabits("4 x 100 Gb/s RoCE per node"), 400);
    EXPECT_EQ(gigabits("8x HDR InfiniBand 200 Gb/s per node"), 1600);
    EXPECT_EQ(gigabits("RoCE 1600 Gbps per node"), 1600);
    EXPECT_EQ(gigabits("10 GbE"), 10);
    EXPECT_EQ(gigabits("2 x 100 GbE"), 200);
    EXPECT_EQ(gigabits("100 Gbit/s Ethernet"), 100);
    EXPECT_EQ(gigabits("1.6 Tb/s RoCE"), 1600);
    EXPECT_EQ(gigabits("4x HDR"), 800);
    EXPECT_EQ(gigabits("NDR400"), 3200);  // as many links as the node has
    EXPECT_EQ(gigabits("200 Gb/s InfiniBand"), 1600);
    EXPECT_EQ(gigabits("200 Gb/s per node"), 200);
    EXPECT_EQ(gigabits("RoCE (bandwidth not stated)"), 0);
    EXPECT_TRUE(stated_network("none", node).none);
    EXPECT_TRUE(stated_network("0 Gb/s", node).none);
    EXPECT_EQ(stated_network("10 GbE", node).taken, "10 Gb/s of a node");
    EXPECT_EQ(stated_network("4x HDR", node).taken, "");
}

// The device and node of the row with its hardware changed.
NodeGroup node_of(const Json& hardware) {
    return case_of({{"hardware", hardware}, {"precision", "fp16"}}).cluster.groups.front();
}

TEST(TruthHardware, MemoryAndFormTellParts) {
    EXPECT_EQ(node_of({{"gpu", "A100 40G"}, {"gpu_mem_gb", nullptr}}).device.name, "a100-40");
    EXPECT_EQ(node_of({{"gpu", "A100"}, {"intra_node", "PCIe (no NVLink)"}}).device.name, "a100-pcie");
    EXPECT_EQ(node_of({{"gpu", "A100"}, {"intra_node", "NVLink"}}).device.name, "a100");
    const Device less = node_of({{"gpu", "A800"}, {"gpu_mem_gb", 40}}).device;
    EXPECT_NEAR(static_cast<double>(less.memory.value) / (40 * 1073741824.0), 0.99, 1e-6);
    EXPECT_EQ(node_of({{"gpu", "A800"}, {"gpu_mem_gb", 80}}).device, load_device("a800").value());
    EXPECT_EQ(node_of({{"gpu", "GH200 480GB"}, {"gpu_mem_gb", nullptr}, {"gpus_per_node", nullptr}}).device,
              load_device("gh200").value());
    const ValidationCase nvl = case_of({{"hardware", {{"gpu", "H100 NVL"}, {"gpu_mem_gb", 94}}}});
    EXPECT_EQ(nvl.cluster.groups.front().device.name, "h100-pcie");
    EXPECT_EQ(nvl.assumed.front(), "gpu \"H100 NVL\": taken for h100-pcie");
    EXPECT_EQ(refusal_of({{"hardware", {{"gpu", "RTX A4000"}}}}), "GPU RTX A4000 is not known");  // no A40
}

TEST(TruthHardware, LinksAndDomains) {
    const NodeType card =
        node_of({{"gpu", "V100"}, {"gpu_mem_gb", 32}, {"intra_node", "PCIe (no NVLink)"}}).type;
    EXPECT_EQ(card.link, IntraNodeLink::Pcie);
    EXPECT_EQ(card.link_bandwidth, card.pcie_bandwidth);
    // Trays of 4 of one rack's domain, not domains of 4.
    const Json rack = {{"gpu", "GB200"}, {"gpu_mem_gb", nullptr}, {"gpus_per_node", 4}};
    EXPECT_EQ(node_of(rack).type.devices, 16);
    EXPECT_EQ(case_of({{"hardware", rack}}).cluster.nodes(), 1);
    EXPECT_EQ(refusal_of({{"hardware", {{"inter_node", "none"}}}}), "2 nodes and no network between them");
    EXPECT_EQ(case_of({{"hardware", {{"inter_node", "RoCE"}}}}).assumed.front(),
              "inter_node \"RoCE\": the network of dgx-a100");
}

TEST(TruthSharding, WordsOfPyTorchAndDeepSpeed) {
    const auto stage = [](const char* words, const char* framework) {
        const ValidationCase c = case_of(
            {{"fsdp", words}, {"framework", framework}, {"gpus", 16}, {"dp", 16}, {"tp", 1}, {"pp", 1}});
        return std::pair(c.plan.zero_stage, c.plan.zero_shard);
    };
    using Stage = std::pair<int, int>;
    EXPECT_EQ(stage("ZeRO-2", "DeepSpeed"), Stage(2, 0));
    EXPECT_EQ(stage("zero stage 3", "DeepSpeed"), Stage(3, 0));
    EXPECT_EQ(stage("", "DeepSpeed ZeRO-3"), Stage(3, 0));
    EXPECT_EQ(stage("", "PyTorch FSDP"), Stage(3, 0));
    EXPECT_EQ(stage("SHARD_GRAD_OP", "PyTorch"), Stage(2, 0));
    EXPECT_EQ(stage("NO_SHARD", "PyTorch FSDP"), Stage(0, 0));
    EXPECT_EQ(stage("ddp", "torchtitan"), Stage(0, 0));
    EXPECT_EQ(stage("none", "torchtitan"), Stage(0, 0));
    EXPECT_EQ(stage("HYBRID_SHARD", "PyTorch FSDP"), Stage(3, 8));
    EXPECT_EQ(stage("HYBRID_SHARD 4", "PyTorch FSDP"), Stage(3, 4));
    EXPECT_EQ(stage("HSDP shard 8 x replicate 2", "torchtitan"), Stage(3, 8));
    EXPECT_EQ(stage("FSDP, replicate 4", "torchtitan"), Stage(3, 4));
    EXPECT_EQ(case_of({{"fsdp", "full"}, {"framework", "PyTorch"}}).plan.framework, "torchtitan-eager");
    EXPECT_EQ(refusal_of({{"fsdp", "ZeRO-3"}, {"zero_stage", 1}}), "fsdp \"zero-3\" is not ZeRO 1");
}

TEST(TruthMemory, KindsAndUnits) {
    const auto read = [](const char* kind, double value) {
        const TruthRow row = row_with({{"memory_gb", value}, {"memory_kind", kind}});
        return std::pair(row.memory_kind, std::round(row.memory_bytes / 1e6));
    };
    using Memory = std::pair<MemoryKind, double>;
    EXPECT_EQ(read("max_memory_reserved, GiB", 40), Memory(MemoryKind::Reserved, 42950));
    EXPECT_EQ(read("reserved", 40), Memory(MemoryKind::Reserved, 40000));
    EXPECT_EQ(read("peak GPU memory, GB (allocated vs reserved not stated)", 40),
              Memory(MemoryKind::Allocated, 40000));
    EXPECT_EQ(read("torch max_memory_allocated, GiB; reserved GiB in note", 40),
              Memory(MemoryKind::Allocated, 42950));
    EXPECT_EQ(read("MB, max allocated", 40000), Memory(MemoryKind::Allocated, 40000));
    EXPECT_EQ(read("MiB, nvidia-smi", 40960), Memory(MemoryKind::Device, 42950));
    EXPECT_EQ(read("pynvml, GiB", 40), Memory(MemoryKind::Device, 42950));
    EXPECT_EQ(read("rocm-smi", 40).first, MemoryKind::Device);
    for (const char* none : {"percent of device", "total over 8 GPUs, GB", "estimated", "theoretical",
                             "model states only, GiB", "average over ranks"})
        EXPECT_EQ(read(none, 40), Memory(MemoryKind::None, 0)) << none;
    const TruthRow whole = row_with({{"memory_gb", 5120}, {"memory_kind", "GB"}});
    EXPECT_EQ(whole.memory_bytes, 0);
    EXPECT_EQ(whole.assumed.front(), "memory_gb 5120: more than a device has, left out");
}

}  // namespace
}  // namespace tw

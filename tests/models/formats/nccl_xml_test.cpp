#include "models/formats/nccl_xml.hpp"

#include <gtest/gtest.h>

namespace tw {
namespace {

// One GPU on four NVSwitches and one 400 Gb/s port; the forms are those of NCCL's own dump.
const std::string kSystem = R"(<!-- a dump -->
<system version="1">
  <cpu host_hash="0x1" numaid="1" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:08:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:0f:00.0" class="0x030200" vendor="0x10de" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:1a:00.0" count="4" tclass="0x068000"/>
          <nvlink target="0000:1b:00.0" count="5" tclass="0x068000"/>
          <nvlink target="0000:1c:00.0" count="5" tclass="0x068000"/>
          <nvlink target="0000:1d:00.0" count="4" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:0c:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_5" dev="1" speed="400000" port="1" latency="0.000000" guid="0x1" maxconn="131072" gdr="1"/>
          <gin name="x"/>
        </nic>
      </pci>
    </pci>
  </cpu>
</system>
)";

std::string with(std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
}

TEST(NcclXml, ReadsGpusSwitchesAndNets) {
    EXPECT_TRUE(looks_like_nccl_topology(kSystem));
    EXPECT_FALSE(looks_like_nccl_graphs(kSystem));
    const auto topology = parse_nccl_topology(kSystem, "topo.xml");
    ASSERT_TRUE(topology.has_value()) << to_string(topology.errors());
    ASSERT_EQ(topology->cpus.size(), 1U);
    EXPECT_EQ(topology->cpus[0].numa, 1);
    EXPECT_EQ(topology->pci_devices, 3);
    EXPECT_EQ(topology->pci_nics, 1);
    ASSERT_EQ(topology->gpus.size(), 1U);
    const NcclGpu& gpu = topology->gpus[0];
    EXPECT_EQ(gpu.sm, 90);
    EXPECT_EQ(gpu.numa, 1);
    EXPECT_DOUBLE_EQ(gpu.pci.value, 48e9);            // 16 lanes x 240 / 80
    EXPECT_DOUBLE_EQ(gpu.nvlink.value, 18 * 20.6e9);  // 370.8 GB/s a direction
    EXPECT_EQ(topology->switches.size(), 4U);
    ASSERT_EQ(topology->nets.size(), 1U);
    EXPECT_DOUBLE_EQ(topology->nets[0].speed.value, 50e9);  // 400000 Mb/s
    EXPECT_TRUE(topology->nets[0].gdr);
    EXPECT_EQ(topology->warnings, std::vector<std::string>{"element <gin> is not understood"});
}

TEST(NcclXml, AStaticTopologyHasGpusByClassOnly) {
    const auto topology = parse_nccl_topology(
        R"(<system version="1"><cpu numaid="0"><pci busid="a" class="0x030200" link_speed="16 GT/s" link_width="16"/>
           <pci busid="b" class="0x020700" link_speed="" link_width="0"/></cpu></system>)",
        "static.xml");
    ASSERT_TRUE(topology.has_value()) << to_string(topology.errors());
    ASSERT_EQ(topology->gpus.size(), 1U);
    EXPECT_FALSE(topology->gpus[0].described);
    EXPECT_DOUBLE_EQ(topology->gpus[0].pci.value, 24e9);
    EXPECT_EQ(topology->pci_nics, 1);
}

TEST(NcclXml, ReadsGraphs) {
    const std::string text =
        R"(<graphs version="1"><graph id="0" pattern="4" nchannels="2" speedintra="12" speedinter="12"
        typeintra="SYS" typeinter="PIX"><channel><gpu dev="0"/><gpu dev="1"/></channel></graph></graphs>)";
    EXPECT_TRUE(looks_like_nccl_graphs(text));
    const auto graphs = parse_nccl_graphs(text, "graph.xml");
    ASSERT_TRUE(graphs.has_value()) << to_string(graphs.errors());
    ASSERT_EQ(graphs->graphs.size(), 1U);
    EXPECT_EQ(graphs->graphs[0].channels, 2);
    EXPECT_EQ(graphs->graphs[0].gpus, 2);
    EXPECT_EQ(nccl_pattern_name(graphs->graphs[0].pattern), "ring");
    EXPECT_EQ(graphs->warnings.size(), 1U);  // announces two channels, lists one
}

TEST(NcclXml, ErrorsCarryTheLine) {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"", "not XML"},
        {"<system", "not XML"},
        {"<html/>", "the root is <html>"},
        {"<system/>", "without any <cpu>"},
        {with(kSystem, "speed=\"400000\"", "speed=\"fast\""), "x:15: net speed='fast'"},
        {with(kSystem, "count=\"4\"", "count=\"-4\""), "x:7: nvlink count='-4'"},
        {with(kSystem, "0x068000", "zebra"), "is not hexadecimal"},
        {with(kSystem, "</pci>", ""), "not XML"},
    };
    for (const auto& [text, message] : cases) {
        const auto topology = parse_nccl_topology(text, "x");
        ASSERT_FALSE(topology.has_value()) << message;
        EXPECT_NE(to_string(topology.errors()).find(message), std::string::npos)
            << to_string(topology.errors());
    }
    std::string deep = "<system><cpu>";
    for (int i = 0; i < 1000; ++i)
        deep += "<pci>";
    for (int i = 0; i < 1000; ++i)
        deep += "</pci>";
    EXPECT_FALSE(parse_nccl_topology(deep + "</cpu></system>", "x").has_value());
}

}  // namespace
}  // namespace tw

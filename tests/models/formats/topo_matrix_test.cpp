#include "models/formats/topo_matrix.hpp"

#include <gtest/gtest.h>

namespace tw {
namespace {

// Two NVLink pairs on two sockets, one NIC; the header carries terminal escapes as nvidia-smi prints them.
const std::string kFour =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV4\tSYS\tSYS\tPIX\t0-15,32-47\t0\t\tN/A\n"
    "GPU1\tNV4\t X \tSYS\tSYS\tPXB\t0-15,32-47\t0\t\tN/A\n"
    "GPU2\tSYS\tSYS\t X \tNV4\tSYS\t16-31,48-63\t1\t\tN/A\n"
    "GPU3\tSYS\tSYS\tNV4\t X \tNODE\t16-31,48-63\t1\t\tN/A\n"
    "NIC0\tPIX\tPXB\tSYS\tNODE\t X \t\n"
    "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
    "\nNIC Legend:\n\n  NIC0: mlx5_2\n";

std::string with(std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
}

TEST(TopoMatrix, ReadsDevicesCellsAndAffinities) {
    const auto matrix = parse_topo_matrix(kFour, "topo.txt");
    ASSERT_TRUE(matrix.has_value()) << to_string(matrix.errors());
    ASSERT_EQ(matrix->devices.size(), 5U);
    EXPECT_EQ(matrix->gpus(), 4);
    EXPECT_EQ(matrix->devices[2].cpus, "16-31,48-63");
    EXPECT_EQ(matrix->devices[2].numa, "1");
    EXPECT_EQ(matrix->devices[4].adapter, "mlx5_2");
    EXPECT_EQ(matrix->cells[0][1], (TopoCell{TopoPath::NvLink, 4}));
    EXPECT_EQ(matrix->cells[3][4].path, TopoPath::Node);
    EXPECT_EQ(to_string(matrix->cells[0][1]), "NV4");
    EXPECT_FALSE(matrix->all_pairs_nvlink());
    EXPECT_FALSE(matrix->peer_status());
    EXPECT_EQ(matrix->nvlinks_of(0), 4);
    EXPECT_TRUE(matrix->warnings.empty());
    EXPECT_TRUE(looks_like_topo_matrix(kFour));
}

TEST(TopoMatrix, CountsLinksThroughASwitchOnce) {
    const auto matrix = parse_topo_matrix(
        "     GPU0 GPU1 GPU2\nGPU0 X NV12 NV12\nGPU1 NV12 X NV12\nGPU2 NV12 NV12 X\n", "switch");
    ASSERT_TRUE(matrix.has_value());
    EXPECT_TRUE(matrix->all_pairs_nvlink());
    EXPECT_EQ(matrix->nvlinks_of(1), 12);
    const auto direct =
        parse_topo_matrix("GPU0 GPU1 GPU2\nGPU0 X NV2 NV1\nGPU1 NV2 X NV1\nGPU2 NV1 NV1 X\n", "mesh");
    ASSERT_TRUE(direct.has_value());
    EXPECT_EQ(direct->nvlinks_of(0), 3);
}

TEST(TopoMatrix, ReadsPeerStatusAndWarnsOfAsymmetry) {
    const auto peers =
        parse_topo_matrix("        GPU0    GPU1\n GPU0   X       OK\n GPU1   CNS      X\n", "p2p");
    ASSERT_TRUE(peers.has_value()) << to_string(peers.errors());
    EXPECT_TRUE(peers->peer_status());
    ASSERT_EQ(peers->warnings.size(), 1U);
    EXPECT_EQ(peers->warnings[0], "GPU0 to GPU1 is OK, back NS");
}

TEST(TopoMatrix, ErrorsCarryTheLine) {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"", "no header"},
        {with(kFour, "GPU1\tNV4\t X \tSYS", "GPU1\tNV4\t X \tSIS"), "t:3: row GPU1: 'SIS' is no connection"},
        {with(kFour, "GPU1\tNV4\t X ", "GPU1\t X \tNV4"), "t:3: row GPU1 does not have its X in column 2"},
        {with(kFour, "NIC0\tPIX\tPXB\tSYS\tNODE\t X \t\n", ""), "no row NIC0"},
        {with(kFour, "NIC0\tPIX\tPXB\tSYS\tNODE\t X \t\n", "NIC0\tPIX\n"),
         "t:6: row NIC0 has 1 cells, the header 5"},
        {with(kFour, "GPU0\t X \tNV4", "GPU0\t X \tNV0"), "'NV0' is no connection"},
    };
    for (const auto& [text, message] : cases) {
        const auto matrix = parse_topo_matrix(text, "t");
        ASSERT_FALSE(matrix.has_value()) << message;
        EXPECT_NE(to_string(matrix.errors()).find(message), std::string::npos) << to_string(matrix.errors());
    }
}

}  // namespace
}  // namespace tw

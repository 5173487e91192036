#include "models/formats/chakra.hpp"

#include <limits>

#include <gtest/gtest.h>

#include "models/formats/document.hpp"

namespace tw {
namespace {

// Each attribute in the type that Chakra's feeder asks for.
ChakraNode all_fields() {
    ChakraNode node;
    node.id = 300;
    node.name = "all-reduce s2";
    node.type = ChakraType::Collective;
    node.control_dependencies = {1};
    node.data_dependencies = {2, 200, 70'000};
    node.start_us = 5'000'000'000;
    node.duration_us = 128;
    node.attributes = {{"is_cpu_op", false},
                       {"num_ops", std::int64_t{1} << 45},
                       {"tensor_size", std::numeric_limits<std::uint64_t>::max()},
                       {"comm_type", std::int64_t{0}},
                       {"comm_size", std::int64_t{3'221'225'472}},
                       {"comm_src", std::int32_t{7}},
                       {"comm_tag", std::int32_t{-1}},
                       {"pg_name", std::string("12")}};
    return node;
}

TEST(Chakra, EveryFieldReadsBack) {
    const ChakraNode first = all_fields();
    ChakraNode second;
    second.name = "forward";
    const auto nodes = read_chakra(chakra_head() + chakra_message(first) + chakra_message(second), "t.et");
    ASSERT_TRUE(nodes) << to_string(nodes.errors());
    ASSERT_EQ(nodes->size(), 2U);
    EXPECT_EQ((*nodes)[0], first);
    EXPECT_EQ((*nodes)[1], second);
}

// comm_size int64 {1024}: field 9, not 13 of uint64, which the feeder reads as 0 (astra-sim#158).
TEST(Chakra, SizesAreInt64OnTheWire) {
    ChakraNode node;
    node.type = ChakraType::Collective;
    node.attributes = {{"comm_size", std::int64_t{1024}}};
    const std::string bytes = chakra_message(node);
    EXPECT_NE(bytes.find(std::string("comm_size") + "\x48\x80\x08"), std::string::npos);
    const auto trace = parse_chakra(chakra_head("0.0.4") + bytes, "t.et");
    ASSERT_TRUE(trace);
    EXPECT_EQ(trace->version, "0.0.4");
    EXPECT_EQ(trace->collective_bytes, 1024);
    EXPECT_FALSE(trace->sizes_of_wrong_type);
}

// Dependencies that are not packed, as older writers left them.
TEST(Chakra, DependenciesOneByOne) {
    const std::string node("\x28\x05\x28\x06", 4);
    const auto nodes = read_chakra(chakra_head() + static_cast<char>(node.size()) + node, "t.et");
    ASSERT_TRUE(nodes) << to_string(nodes.errors());
    EXPECT_EQ(nodes->front().data_dependencies, (std::vector<std::uint64_t>{5, 6}));
}

// A packed field without numbers is no dependency on node 0.
TEST(Chakra, NoDependenciesInAPackedField) {
    const std::string node("\x08\x01\x2a\x00", 4);
    const auto nodes = read_chakra(chakra_head() + static_cast<char>(node.size()) + node, "t.et");
    ASSERT_TRUE(nodes) << to_string(nodes.errors());
    EXPECT_EQ(nodes->front().id, 1U);
    EXPECT_TRUE(nodes->front().data_dependencies.empty());
}

TEST(Chakra, NoCyclesAreSaid) {
    ChakraNode node;
    node.name = "forward";
    const auto untimed = inspect_text(chakra_head() + chakra_message(node), "t.et");
    ASSERT_TRUE(untimed) << to_string(untimed.errors());
    ASSERT_EQ(untimed->warnings.size(), 1U);
    EXPECT_NE(untimed->warnings[0].find("0 cycles"), std::string::npos);
    node.duration_us = 1;
    EXPECT_TRUE(inspect_text(chakra_head() + chakra_message(node), "t.et")->warnings.empty());
}

}  // namespace
}  // namespace tw

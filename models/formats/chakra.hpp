// Chakra execution traces (mlcommons/chakra, schema/protobuf/et_def.proto): a GlobalMetadata message, then
// Nodes, each with its length before it. Read and written as far as simulators need them (ASTRA-sim; Chakra's
// own feeder, src/feeder/et_feeder_node.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"

namespace tw {

enum class ChakraType : std::uint8_t {  // enum NodeType; others are read as they are
    MemoryLoad = 2,
    MemoryStore = 3,
    Compute = 4,
    Send = 5,
    Receive = 6,
    Collective = 7
};
enum class ChakraCollective : std::uint8_t {  // enum CollectiveCommType
    AllReduce = 0,
    AllGather = 2,
    Broadcast = 5,
    AllToAll = 6,
    ReduceScatter = 7
};

// The value's type is a field of its own (AttributeProto: bool_val, int32_val, int64_val, uint64_val,
// string_val), and a feeder that asks for another one gets 0. What it asks for: is_cpu_op bool; num_ops,
// comm_type, comm_size int64; comm_src, comm_dst, comm_tag int32; tensor_size uint64; pg_name string.
struct ChakraAttribute {
    std::string name;
    std::variant<bool, std::int32_t, std::int64_t, std::uint64_t, std::string> value;
    friend bool operator==(const ChakraAttribute&, const ChakraAttribute&) = default;
};

struct ChakraNode {
    std::uint64_t id = 0;
    std::string name;
    ChakraType type = ChakraType::Compute;
    std::vector<std::uint64_t> control_dependencies, data_dependencies;  // ids of the same file
    std::uint64_t start_us = 0, duration_us = 0;
    std::vector<ChakraAttribute> attributes;  // those of the five types above
    friend bool operator==(const ChakraNode&, const ChakraNode&) = default;
};

// A file is a head and then its nodes, one after the other.
std::string chakra_head(std::string_view version = "0.0.4");
std::string chakra_message(const ChakraNode& node);

struct ChakraTrace {
    std::string version;
    std::int64_t nodes = 0, compute = 0, send = 0, receive = 0, collective = 0;
    std::int64_t collective_bytes = 0, sent_bytes = 0;
    std::string first_name;
    bool sizes_of_wrong_type = false;  // comm_size is not int64: ASTRA-sim's feeder then reads 0
    // Compute nodes with a duration or operations: where there is none a simulator gives 0 cycles.
    std::int64_t timed = 0;
};

bool looks_like_chakra(std::string_view bytes);
// Errors: Unreadable with the byte where a message ends beyond the file or a field is none of protobuf's.
Result<ChakraTrace> parse_chakra(std::string_view bytes, std::string_view name);
// The same file node by node.
Result<std::vector<ChakraNode>> read_chakra(std::string_view bytes, std::string_view name);

}  // namespace tw

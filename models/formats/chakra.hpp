// Chakra execution traces (mlcommons/chakra, schema/protobuf/et_def.proto): a GlobalMetadata message, then
// Nodes, each with its length before it. Read as far as an overview needs: names, types and the sizes of
// collectives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace tw {

struct ChakraTrace {
    std::string version;
    std::int64_t nodes = 0, compute = 0, send = 0, receive = 0, collective = 0;
    std::int64_t collective_bytes = 0, sent_bytes = 0;
    std::string first_name;
    bool sizes_of_wrong_type = false;  // comm_size is not int64: ASTRA-sim's feeder then reads 0
};

bool looks_like_chakra(std::string_view bytes);
// Errors: Unreadable with the byte where a message ends beyond the file or a field is none of protobuf's.
Result<ChakraTrace> parse_chakra(std::string_view bytes, std::string_view name);

}  // namespace tw

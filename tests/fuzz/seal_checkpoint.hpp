// A checkpoint's document with the checksum that fits it (real_exec/checkpoint/checkpoint_json.hpp).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/json.hpp"
#include "real_exec/checkpoint/crc32c.hpp"

namespace tw::fuzz {

inline std::uint32_t checksum(std::string_view bytes) {
    return crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

inline std::string sealed(Json json) {
    if (json.is_object()) {
        json.erase("crc32c");
        json["crc32c"] = checksum(json.dump());
    }
    return json.dump();
}

}  // namespace tw::fuzz

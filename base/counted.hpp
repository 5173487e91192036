// Numbers of things in messages: "1 microbatch", "3 microbatches".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tw {

// The count and its noun, in the plural where it is not 1 ("batch" -> "batches").
[[nodiscard]] inline std::string counted(std::int64_t count, std::string_view noun) {
    std::string text = std::to_string(count) + " " + std::string(noun);
    if (count == 1) return text;
    return text + (noun.ends_with("ch") ? "es" : "s");
}

}  // namespace tw

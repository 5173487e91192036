// What every fuzz target asserts of what its decoder answers: a value, or errors that a user can act on. The
// check aborts, which both drivers (libFuzzer, replay_main.cpp) report with the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/result.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace tw::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

inline void require(bool holds, const char* what, std::string_view shown = "") {
    if (holds) return;
    std::fprintf(stderr, "fuzz: %s: %.*s\n", what, static_cast<int>(shown.size()), shown.data());
    std::abort();
}

// Errors of a refused document: each says what and where, with the code that its kind of input calls for.
inline void require_refusal(const Errors& errors, ErrorCode code = ErrorCode::Unreadable) {
    require(!errors.empty(), "a refusal without errors");
    for (const Error& error : errors) {
        require(error.code == code, "an error of another code", to_string(error));
        require(!error.message.empty(), "an error without a message", to_string(error));
        require(!error.context.empty(), "an error that does not say where", to_string(error));
    }
}

template <class T>
void require_value_or_refusal(const Result<T>& result, ErrorCode code = ErrorCode::Unreadable) {
    if (!result) require_refusal(result.errors(), code);
}

}  // namespace tw::fuzz

// CHECK: a broken invariant of our own code. Alive in every build type; prints where and what, then aborts.
// Never used to validate input: a bad document or an illegal plan is an Error (base/result.hpp).
#pragma once

namespace tw::detail {
[[noreturn]] void check_failed(const char* expression, const char* file, int line, const char* message);
}  // namespace tw::detail

#define TW_CHECK_MSG(condition, message)                                         \
    do {                                                                         \
        if (!(condition)) [[unlikely]]                                           \
            ::tw::detail::check_failed(#condition, __FILE__, __LINE__, message); \
    } while (false)
#define TW_CHECK(condition) TW_CHECK_MSG(condition, "")

#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace tw::detail {

void check_failed(const char* expression, const char* file, int line, const char* message) {
    std::fprintf(stderr, "trainwright: internal error: CHECK(%s) failed at %s:%d %s\n", expression, file,
                 line, message);
    std::abort();
}

}  // namespace tw::detail

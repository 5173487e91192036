// How long random tests run. TW_TEST_SCALE multiplies the number of their cases (scripts/test --full sets
// 10).
#pragma once

#include <cstdlib>

namespace tw {

inline int scaled(int cases) {
    const char* text = std::getenv("TW_TEST_SCALE");
    const int scale = text == nullptr ? 1 : std::atoi(text);
    return cases * (scale < 1 ? 1 : scale > 1000 ? 1000 : scale);
}

}  // namespace tw

#include "sim/collectives/algorithm.hpp"

#include <bit>

namespace tw {

int ceil_log2(int n) {
    return n <= 1 ? 0 : std::bit_width(static_cast<unsigned>(n - 1));
}

}  // namespace tw

// Copies inside the backend's memory, from sizes that a cache holds to sizes that none does; and from the
// host.
#include <vector>

#include "profiler/bench/benchmarks.hpp"

namespace tw {

void run_copies(BenchContext& c) {
    Backend& b = *c.backend;
    const int last = b.host_memory() ? 26 : 29;
    for (int power = 12; power <= last; power += 2) {
        const std::int64_t floats = (std::int64_t{1} << power) / 4;
        const auto bytes = static_cast<std::size_t>(floats) * 4;
        // Small ones stay in the cache, as in a step.
        const std::size_t together = bytes < (std::size_t{1} << 20U) ? 4 * bytes : std::size_t{192} << 20U;
        const RotatedBuffers from(b, bytes, together), to(b, bytes, together);
        c.sample(kernel_point("copy", DType::F32, 1, floats), [&](std::int64_t i) {
            b.copy(from.tensor(i, DType::F32, {floats}), to.tensor(i, DType::F32, {floats}));
        });
        if (!b.host_memory()) {
            const std::vector<float> host(static_cast<std::size_t>(floats));
            c.sample(kernel_point("copy_from_host", DType::F32, 1, floats), [&](std::int64_t i) {
                b.copy_from_host(to.tensor(i, DType::F32, {floats}), host.data());
            });
        }
        if (c.sampler->over()) return;
    }
}

}  // namespace tw

// The host's time for one operation in a tight loop: a kernel over so little that nothing else is left.
#include "profiler/bench/benchmarks.hpp"

namespace tw {

void run_dispatch(BenchContext& c) {
    Backend& b = *c.backend;
    const RotatedBuffers x(b, 64, 0), y(b, 64, 0);
    SampleSeries point;
    point.benchmark = "dispatch";
    point.variant = "tight loop";
    if (c.measured(point)) return;
    // Not through sample(): that waits for the device after each call.
    if (c.sampler->measure(point, [&](std::int64_t i) {
            b.add(x.tensor(i, DType::F32, {16}), y.tensor(i, DType::F32, {16}));
        })) {
        b.synchronize();
        c.keep(std::move(point));
    }
    const RotatedBuffers memory(b, 64, 0);
    SampleSeries allocation;
    allocation.benchmark = "dispatch";
    allocation.variant = "allocation";
    c.sample(std::move(allocation),
             [&](std::int64_t) { const Buffer some = b.allocate(4096, MemoryUse::Temporaries); });
}

}  // namespace tw

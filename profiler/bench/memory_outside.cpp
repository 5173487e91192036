// Memory of the process that no allocator's figure shows: the program, its libraries, what they keep.
#include <fstream>
#include <string>

#include "profiler/bench/benchmarks.hpp"

namespace tw {
namespace {

// Resident now, in bytes; 0 where the system does not say.
double resident_bytes() {
    std::ifstream status("/proc/self/status");
    std::string word;
    while (status >> word) {
        if (word != "VmRSS:") continue;
        double kib = 0;
        status >> kib;
        return kib * 1024;
    }
    return 0;
}

}  // namespace

void run_memory_outside(BenchContext& c) {
    SampleSeries point;
    point.benchmark = "memory_outside";
    point.variant = "process";
    point.unit = "bytes";
    if (c.measured(point)) return;
    c.backend->release_cached();
    const double resident = resident_bytes();
    const double held = c.backend->host_memory() ? static_cast<double>(c.backend->memory().current) : 0;
    if (resident <= held) return;
    point.values = {resident - held};
    c.keep(std::move(point));
}

}  // namespace tw

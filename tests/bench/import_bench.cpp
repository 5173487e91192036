// Reading a profiler's trace: bytes a second, and how much memory it takes. The trace is written first,
// TW_TRACE_MB megabytes of it (64 where not set; docs/results/imports.md has the figures of 1000), as
// PyTorch's profiler writes it: host operations, launches, kernels, a collective every so often.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "models/formats/kineto.hpp"

namespace tw {
namespace {

std::int64_t trace_bytes() {
    const char* wanted = std::getenv("TW_TRACE_MB");
    const double megabytes = wanted != nullptr ? std::atof(wanted) : 64;
    return static_cast<std::int64_t>(megabytes * 1e6);
}

std::string events_from(int step) {
    std::string text;
    for (int i = 0; i < 500; ++i) {
        const double ts = 1661203462598738.0 + step * 10000.0 + i * 20.0;
        text += fmt::format(
            "  {{\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::addmm\", \"pid\": 4037, "
            "\"tid\": 23695,\n"
            "    \"ts\": {:.3f}, \"dur\": 12.500,\n    \"args\": {{\n      \"External id\": {},\"Sequence "
            "number\": {}, "
            "\"Input Dims\": [[4096], [8192, 4096], [4096, 4096]], \"Input type\": [\"float\", \"float\", "
            "\"float\"]\n"
            "    }}\n  }},\n",
            ts, i, i);
        text += fmt::format(
            "  {{\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": "
            "4037, \"tid\": 23695,\n"
            "    \"ts\": {:.3f}, \"dur\": 4.125,\n    \"args\": {{\n      \"External id\": {}, \"cbid\": "
            "211, \"correlation\": {}\n"
            "    }}\n  }},\n",
            ts + 3, i, i);
        const bool collective = i % 50 == 0;
        text += fmt::format(
            "  {{\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{}\", \"pid\": 0, \"tid\": 7,\n    "
            "\"ts\": {:.3f}, "
            "\"dur\": 15.250,\n    \"args\": {{\n      \"External id\": {}, \"queued\": 0, \"device\": 0, "
            "\"context\": 1, "
            "\"stream\": 7, \"correlation\": {}, \"registers per thread\": 128, \"grid\": [32, 1, 2]{}\n    "
            "}}\n  }},\n",
            collective ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
                       : "ampere_sgemm_128x64_tn",
            ts + 9, i, i,
            collective ? ", \"Collective name\": \"allreduce\", \"In msg nelems\": 1048576, \"Out msg "
                         "nelems\": 1048576, "
                         "\"Group size\": 8, \"dtype\": \"Float\", \"Process Group Name\": \"0\""
                       : "");
    }
    return text;
}

// Written once; every step has times of its own.
const std::filesystem::path& trace_file() {
    static const struct File {
        std::filesystem::path path =
            std::filesystem::temp_directory_path() / fmt::format("tw-import-bench-{}.json", getpid());
        File() {
            std::ofstream out(path, std::ios::binary);
            out << "{\"schemaVersion\": 1, \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 0, "
                   "\"world_size\": 8},\n"
                   "\"traceEvents\": [\n";
            std::int64_t written = 0;
            for (int step = 0; written < trace_bytes(); ++step) {
                const std::string events = events_from(step);
                out << events;
                written += static_cast<std::int64_t>(events.size());
            }
            out << "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 0}\n]}\n";
        }
        ~File() {
            std::error_code ignored;
            std::filesystem::remove(path, ignored);
        }
        File(const File&) = delete;
        File& operator=(const File&) = delete;
    } file;
    return file.path;
}

double peak_megabytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1e3;  // Linux counts in KiB
}

struct Counter : TraceVisitor {
    std::int64_t events = 0;
    void on_event(const ForeignEvent&) override { ++events; }
};

void BM_ReadTraceEvents(benchmark::State& state) {
    const auto& path = trace_file();
    const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
    std::int64_t events = 0;
    for (auto _ : state) {
        Counter counter;
        const auto read = read_trace_events(path, counter);
        if (!read) return state.SkipWithError("the trace cannot be read");
        events = counter.events;
    }
    state.SetBytesProcessed(state.iterations() * bytes);
    state.counters["events"] = static_cast<double>(events);
    state.counters["peak_MB"] = peak_megabytes();
}
BENCHMARK(BM_ReadTraceEvents)->Unit(benchmark::kMillisecond);

void BM_ReadKineto(benchmark::State& state) {
    const auto& path = trace_file();
    const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
    std::size_t collectives = 0;
    for (auto _ : state) {
        const auto trace = read_kineto(path);
        if (!trace) return state.SkipWithError("the trace cannot be read");
        collectives = trace->collectives.size();
    }
    state.SetBytesProcessed(state.iterations() * bytes);
    state.counters["collectives"] = static_cast<double>(collectives);
    state.counters["peak_MB"] = peak_megabytes();
}
BENCHMARK(BM_ReadKineto)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tw

BENCHMARK_MAIN();

// The text that nccl-tests prints (NVIDIA/nccl-tests, src/util.cu writeResultHeader; versions 2.0 to 2.19,
// RCCL's copy too): header, one row a size, footer, in between whatever NCCL_DEBUG and mpirun print.
//
//   #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw
//   busbw #wrong
//      1073741824     268435456     float     sum      -1   6276.0  171.09  299.40      0   6281.2  170.95
//      299.15      0
//
// Columns known: redop and root (absent in old versions), error instead of #wrong, cputime instead of time,
// #bitdiff, i_min i_max i_p99 i_cv% (per-iteration timing), a last timestamp. Sizes are bytes, times
// microseconds, bandwidths GB/s of 10^9 bytes. Operation and number of ranks are derived from the numbers and
// checked against what the log says: busbw / algbw is 2(n-1)/n for all-reduce, (n-1)/n for all-gather,
// reduce-scatter and all-to-all, 1 for broadcast, reduce and send-receive (doc/PERFORMANCE.md); size is count
// x element for the former, n times that for the second group.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "models/formats/finding.hpp"
#include "models/graph/op.hpp"

namespace tw {

struct NcclTestsTiming {
    Seconds time;
    AlgBandwidth algbw;
    BusBandwidth busbw;
    std::string wrong;                              // "0", "N/A", in old versions the largest error "5e-07"
    std::optional<Seconds> shortest, longest, p99;  // over iterations
};

struct NcclTestsRow {
    Bytes size;
    std::int64_t count = 0;
    std::string type;   // "float", "bfloat16"
    std::string redop;  // "sum", "none"; "" where the version does not print it
    std::optional<int> root;
    NcclTestsTiming out_of_place;
    std::optional<NcclTestsTiming> in_place;  // nothing where it reads N/A
    std::size_t line = 0;
};

struct NcclTestsLog {
    std::string version, nccl_version;  // "" where the log does not say
    std::vector<NcclTestsRow> rows;
    std::vector<CollectiveKind> operations;  // those that the numbers and the log's words allow; usually one
    int ranks = 0;                           // 0: the rows cannot tell and nothing else says
    int listed_ranks = 0, hosts = 0;         // of the "Using devices" list
    std::string device;                      // "NVIDIA H100 80GB HBM3"; "" where not listed
    bool cpu_time = false;                   // the time column is the CPU's
    std::optional<BusBandwidth> average_busbw;
    std::optional<std::int64_t> out_of_bounds;
    std::vector<std::string> transports;  // "NET/IB", "P2P", "SHM": of NCCL_DEBUG's lines, sorted
    std::vector<Finding> warnings;        // contradictions, rows left out, slow transports
};

bool looks_like_nccl_tests(std::string_view text);

// Errors: Unreadable where there is no row at all.
Result<NcclTestsLog> parse_nccl_tests(std::string_view text, std::string_view name);

// The report that `-J file` writes (src/util.cu): config with devices, results, out_of_bounds.
bool looks_like_nccl_tests_json(std::string_view text);
Result<NcclTestsLog> parse_nccl_tests_json(std::string_view text, std::string_view name);

// All tests of a log that holds the output of several, one after the other; or the one of a JSON report.
// Errors: those of the first that cannot be read.
Result<std::vector<NcclTestsLog>> parse_nccl_tests_all(std::string_view text, std::string_view name);

// busbw = factor x algbw (nccl-tests doc/PERFORMANCE.md).
double bus_factor(CollectiveKind kind, int ranks);

// 0 where nccl-tests knows no such type.
int nccl_type_bytes(std::string_view type);

}  // namespace tw

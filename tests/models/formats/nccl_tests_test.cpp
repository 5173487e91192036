#include "models/formats/nccl_tests.hpp"

#include <gtest/gtest.h>

namespace tw {
namespace {

const std::string kHeader =
    "#                                                              out-of-place                       "
    "in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
    "busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
    "(GB/s)\n";

NcclTestsLog parsed(const std::string& text) {
    auto log = parse_nccl_tests(text, "log.txt");
    EXPECT_TRUE(log.has_value()) << to_string(log.errors());
    return log.has_value() ? *log : NcclTestsLog{};
}

// The row of nccl-tests' issue 128: 16.96 / 19.39 = (n-1)/n with n = 8, and count x 4 x 8 = size.
TEST(NcclTests, DerivesOperationAndRanksFromARow) {
    const NcclTestsLog log = parsed(kHeader +
                                    "    67108864       2097152     float     sum      -1   3461.9   19.39   "
                                    "16.96      0   3461.9   19.39   16.96      0\n");
    ASSERT_EQ(log.rows.size(), 1U);
    EXPECT_EQ(log.operations, std::vector{CollectiveKind::ReduceScatter});
    EXPECT_EQ(log.ranks, 8);
    EXPECT_TRUE(log.warnings.empty()) << to_string(log.warnings.front());
    const NcclTestsRow& row = log.rows.front();
    EXPECT_EQ(row.size, Bytes(67'108'864));
    EXPECT_EQ(row.root, -1);
    EXPECT_DOUBLE_EQ(row.out_of_place.time.value, 3461.9e-6);
    EXPECT_DOUBLE_EQ(row.out_of_place.busbw.value, 16.96e9);
    ASSERT_TRUE(row.in_place.has_value());
    EXPECT_EQ(row.in_place->wrong, "0");
}

TEST(NcclTests, KnowsEveryOperation) {
    struct Case {
        const char* row;
        CollectiveKind kind;
        int ranks;
    };
    for (const Case& c : {
             Case{"1073741824 268435456 float sum -1 6276.0 171.09 299.40 0 6281.2 170.95 299.15 0",
                  CollectiveKind::AllReduce, 8},
             Case{"1073741824 268435456 float sum -1 10737 100.00 100.00 0 10737 100.00 100.00 0",
                  CollectiveKind::AllReduce, 2},
             Case{"1073741824 16777216 float none -1 10737 100.00 93.75 N/A 10737 100.00 93.75 N/A",
                  CollectiveKind::AllGather, 16},
             Case{"1073741824 268435456 float sum 0 10737 100.00 100.00 0 10737 100.00 100.00 0",
                  CollectiveKind::Reduce, 0},
             Case{"1073741824 268435456 float none 0 10737 100.00 100.00 0 10737 100.00 100.00 0",
                  CollectiveKind::Broadcast, 0},
             Case{"1073741824 268435456 float none -1 10737 100.00 100.00 0 10737 100.00 100.00 0",
                  CollectiveKind::SendRecv, 0},
             Case{"1073741824 536870912 half sum -1 10737 100.00 198.44 0 10737 100.00 198.44 0",
                  CollectiveKind::AllReduce, 128},
         }) {
        const NcclTestsLog log = parsed(kHeader + c.row + "\n");
        ASSERT_FALSE(log.operations.empty()) << c.row;
        EXPECT_EQ(log.operations.front(), c.kind) << c.row;
        EXPECT_EQ(log.ranks, c.ranks) << c.row;
    }
    // Words of the log tell all-gather from all-to-all.
    const NcclTestsLog log =
        parsed("# Collective test starting: alltoall_perf\n" + kHeader +
               "1073741824 16777216 float none -1 10737 100.00 93.75 0 10737 100.00 93.75 N/A\n");
    EXPECT_EQ(log.operations, std::vector{CollectiveKind::AllToAll});
}

TEST(NcclTests, ReadsEveryColumnLayout) {
    // Version 2.0: no redop, no root, a largest error.
    const NcclTestsLog old = parsed(
        "32 1 float 35.03 0.00 0.00 N/A 34.15 0.00 0.00 N/A\n"
        "8589934592 268435456 float 33646 255.31 223.39 N/A 32669 262.94 230.07 N/A\n");
    EXPECT_EQ(old.ranks, 8);
    EXPECT_EQ(old.rows.back().redop, "");
    EXPECT_FALSE(old.rows.back().root.has_value());
    // Per-iteration timing, bitwise check and a timestamp; behind a tag of mpirun; CPU time.
    const NcclTestsLog wide = parsed(
        "# nccl-tests version 2.19.6 nccl-headers=22907 nccl-library=23007\n"
        "# size count type redop root cputime algbw busbw #wrong #bitdiff i_min i_max i_p99 i_cv% cputime "
        "algbw busbw "
        "#wrong #bitdiff i_min i_max i_p99 i_cv% timestamp\n"
        "[1,0]<stdout>: 1073741824 268435456 float sum -1 10.0 100.00 175.00 0 0 9000 12000 11000 2.5 10.0 "
        "100.00 175.00 "
        "0 0 9001 12001 11001 2.6 2026-01-02 03:04:05\n");
    EXPECT_EQ(wide.version, "2.19.6");
    EXPECT_EQ(wide.nccl_version, "23007");
    EXPECT_TRUE(wide.cpu_time);
    EXPECT_EQ(wide.ranks, 8);
    ASSERT_TRUE(wide.rows[0].in_place.has_value());
    EXPECT_DOUBLE_EQ(wide.rows[0].out_of_place.shortest->value, 9000e-6);
    EXPECT_DOUBLE_EQ(wide.rows[0].in_place->p99->value, 11001e-6);
    // A row that was cut off is skipped and said.
    const NcclTestsLog cut = parsed(kHeader +
                                    "1024 256 float sum -1 10.0 0.10 0.18 0 10.0 0.10 0.18 0\n"
                                    "2048 512 float sum -1 10.0 0.20 0.36\n");
    EXPECT_EQ(cut.rows.size(), 1U);
    ASSERT_FALSE(cut.warnings.empty());
    EXPECT_EQ(cut.warnings.front().name, "numbers-missing");
    EXPECT_EQ(cut.warnings.front().line, 5U);
}

// Each suspect log raises its finding, and no other suspect one.
TEST(NcclTests, FlagsContradictions) {
    struct Case {
        const char* finding;
        std::string text;
        std::size_t line;
    };
    const std::string good =
        "1073741824 268435456 float sum -1 6276.0 171.09 299.40 0 6281.2 170.95 299.15 0\n";
    const std::string small =
        "536870912 134217728 float sum -1 3138.0 171.09 299.41 0 3140.6 170.95 299.16 0\n";
    const std::string device = " Group 0 Pid 1 on host0 device 0 [0x10] NVIDIA H100 80GB HBM3\n";
    for (const Case& c : {
             Case{"socket-transport",
                  "host:1:1 [0] NCCL INFO NET/Socket : Using [0]bond0:192.0.2.1<0>\n" + kHeader + good, 1},
             Case{"no-infiniband", "host:1:1 [0] NCCL INFO NET/IB : No device found.\n" + kHeader + good, 1},
             Case{"no-infiniband",
                  "host:1:1 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\n" + kHeader +
                      good,
                  1},
             Case{"p2p-disabled",
                  "h:1:1 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n" + kHeader + good, 1},
             // 370 ms for 1 GiB is 2.90 GB/s, whatever the log prints.
             Case{"rate-mismatch",
                  kHeader + "1073741824 268435456 float sum -1 370000 13.33 23.33 0 370000 13.33 23.33 0\n",
                  4},
             // GiB/s, Gbit/s, and milliseconds.
             Case{"rate-unit",
                  kHeader +
                      "1073741824 268435456 float sum -1 6276.0 159.34 278.85 0 6281.2 159.21 278.62 0\n",
                  4},
             Case{"rate-unit",
                  kHeader +
                      "1073741824 268435456 float sum -1 6276.0 1368.7 2395.2 0 6281.2 1367.6 2393.3 0\n",
                  4},
             Case{"rate-unit",
                  kHeader + "1073741824 268435456 float sum -1 6.276 171.09 299.40 0 6.281 170.95 299.15 0\n",
                  4},
             // busbw that is algbw: the factor was left out; one row with the factor of 16 ranks.
             Case{"factor-mismatch",
                  kHeader + small +
                      "1073741824 268435456 float sum -1 6276.0 171.09 320.79 0 6281.2 170.95 299.15 0\n",
                  5},
             // No operation moves 2.5 times the message over a link, whatever the number of ranks.
             Case{"factor-mismatch",
                  kHeader +
                      "1073741824 268435456 float sum -1 6276.0 171.09 427.73 0 6281.2 170.95 427.38 0\n",
                  0},
             Case{"ranks-mismatch", "# Rank 0" + device + "# Rank 1" + device + kHeader + good, 0},
             Case{"operation-mismatch", "# Collective test starting: broadcast_perf\n" + kHeader + good, 0},
             Case{"wrong-results",
                  kHeader +
                      "1073741824 268435456 float sum -1 6276.0 171.09 299.40 3 6281.2 170.95 299.15 0\n",
                  4},
             Case{"wrong-results", kHeader + good + "# Out of bounds values : 3 FAILED\n", 0},
             Case{"size-order", kHeader + good + small, 5},
             Case{"in-place-gap",
                  kHeader + "1073741824 268435456 float sum -1 6276.0 171.09 299.40 0 12552 85.54 149.70 0\n",
                  4},
             Case{"rate-dip",
                  kHeader + small +
                      "1073741824 268435456 float sum -1 12552 85.54 149.70 0 12552 85.54 149.70 0\n",
                  5},
             Case{"cpu-time",
                  "# size count type redop root cputime algbw busbw #wrong cputime algbw busbw #wrong\n" +
                      good,
                  0},
         }) {
        const NcclTestsLog log = parsed(c.text);
        EXPECT_TRUE(has_finding(log.warnings, c.finding)) << c.finding << "\n" << c.text;
        for (const Finding& finding : log.warnings) {
            if (finding.name == c.finding && c.line > 0) {
                EXPECT_EQ(finding.line, c.line) << to_string(finding);
            }
            EXPECT_TRUE(finding.name == c.finding || !is_suspect(finding))
                << c.finding << ": " << to_string(finding);
        }
    }
    // NCCL looks for InfiniBand first; what it uses in the end is AWS's.
    const NcclTestsLog aws = parsed(
        "h:1:1 [0] NCCL INFO NET/IB : No device found.\nh:1:1 [0] NCCL INFO Using network AWS Libfabric\n" +
        kHeader + good);
    EXPECT_TRUE(aws.warnings.empty());
    EXPECT_EQ(aws.transports, std::vector<std::string>{"network AWS Libfabric"});
    // An excerpt is no suspicion.
    const NcclTestsLog cut = parsed(kHeader + good + "# Avg bus bandwidth    : 111.1\n");
    ASSERT_EQ(cut.warnings.size(), 1U);
    EXPECT_FALSE(is_suspect(cut.warnings.front()));
}

// 370 ms for 1 GB over 16 ranks is busbw 5.07, and 50 ms would be 37.5: who says 25 contradicts himself.
TEST(NcclTests, RecomputesTheThreadsPair) {
    const NcclTestsLog slow =
        parsed(kHeader + "1000000000 250000000 float sum -1 370000 2.70 5.07 0 370000 2.70 5.07 0\n");
    EXPECT_TRUE(slow.warnings.empty() || !is_suspect(slow.warnings.front()));
    EXPECT_EQ(slow.ranks, 16);
    const NcclTestsLog claimed =
        parsed(kHeader + "1000000000 250000000 float sum -1 50000 13.33 25.00 0 50000 13.33 25.00 0\n");
    EXPECT_TRUE(has_finding(claimed.warnings, "rate-mismatch"));
}

TEST(NcclTests, SeveralTestsInOneLog) {
    const std::string reduce =
        "1073741824 268435456 float sum -1 6276.0 171.09 299.40 0 6281.2 170.95 299.15 0\n";
    const std::string gather =
        "1073741824 16777216 float none -1 10737 100.00 93.75 0 10737 100.00 93.75 0\n";
    const std::string text = "# Collective test starting: all_reduce_perf\n" + kHeader + reduce +
                             "# Out of bounds values : 0 OK\n" +
                             "# Collective test starting: all_gather_perf\n" + kHeader + gather +
                             gather.substr(0, 20) + "\n";
    const auto logs = parse_nccl_tests_all(text, "log.txt");
    ASSERT_TRUE(logs) << to_string(logs.errors());
    ASSERT_EQ(logs->size(), 2U);
    EXPECT_EQ((*logs)[0].operations, std::vector{CollectiveKind::AllReduce});
    EXPECT_EQ((*logs)[0].out_of_bounds, 0);
    EXPECT_EQ((*logs)[1].operations, std::vector{CollectiveKind::AllGather});
    EXPECT_EQ((*logs)[1].ranks, 16);
    EXPECT_EQ((*logs)[1].rows.front().line, 11U);
}

TEST(NcclTests, TheFilesNameDecidesWhereNothingElseDoes) {
    const std::string text =
        kHeader + "1073741824 16777216 float none -1 10737 100.00 93.75 0 10737 100.00 93.75 0\n";
    EXPECT_EQ(parse_nccl_tests(text, "x.txt")->operations.size(), 2U);
    EXPECT_EQ(parse_nccl_tests(text, "logs/all-gather_2n16.txt")->operations,
              std::vector{CollectiveKind::AllGather});
    const std::string reduce =
        kHeader + "1073741824 268435456 float sum -1 6276.0 171.09 299.40 0 6281.2 170.95 299.15 0\n";
    EXPECT_TRUE(parse_nccl_tests(reduce, "alltoall.txt")->warnings.empty());
}

const char* const kReport =
    R"({"version": 1, "start_time": "2026-01-02 03:04:05", "args": ["./build/all_reduce_perf", "-b", "512M"],
  "env": ["A=\"b\""], "nccl_version": 22907,
  "config": {"nthreads": 1, "ngpus": 1, "minimum_bytes": 536870912, "devices": [
    {"rank": 0, "group": 0, "pid": 1, "hostname": "host0", "device": 0, "device_hex": "0000:04:00", "device_info": "NVIDIA H100 80GB HBM3"},
    {"rank": 1, "group": 0, "pid": 2, "hostname": "host1", "device": 0, "device_hex": "0000:04:00", "device_info": "NVIDIA H100 80GB HBM3"}]},
  "results": [
    {"size": 536870912, "count": 134217728, "type": "float", "redop": "sum", "root": "    -1",
     "out_of_place": {"time": 5368.71, "alg_bw": 100.000000, "bus_bw": 100.000000, "nwrong": 0.000000},
     "in_place": {"time": 5368.71, "alg_bw": 100.000000, "bus_bw": 100.000000, "nwrong": null}, "actual_iterations": 20},
    {"size": 1073741824, "count": 268435456, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": null,
     "in_place": {"time": 10737.42, "alg_bw": 100.000000, "bus_bw": 100.000000, "nwrong": "nan"}}],
  "out_of_bounds": {"count": 0, "okay": true}, "average_bus_bandwidth": {"bandwidth": 100.0, "okay": "unchecked"}, "errors": []})";

TEST(NcclTests, ReadsTheJsonReport) {
    EXPECT_TRUE(looks_like_nccl_tests_json(kReport));
    EXPECT_FALSE(looks_like_nccl_tests_json("{\"results\": []}"));
    const auto log = parse_nccl_tests_json(kReport, "r.json");
    ASSERT_TRUE(log) << to_string(log.errors());
    EXPECT_EQ(log->rows.size(), 2U);
    EXPECT_EQ(log->operations, std::vector{CollectiveKind::AllReduce});
    EXPECT_EQ(log->ranks, 2);
    EXPECT_EQ(log->hosts, 2);
    EXPECT_EQ(log->device, "NVIDIA H100 80GB HBM3");
    EXPECT_EQ(log->nccl_version, "2.29.7");
    EXPECT_EQ(log->rows[0].out_of_place.wrong, "0");
    EXPECT_EQ(log->rows[1].in_place->wrong, "N/A");
    EXPECT_DOUBLE_EQ(log->rows[1].out_of_place.time.value, 10737.42e-6);
    EXPECT_TRUE(log->warnings.empty()) << to_string(log->warnings.front());
    for (const char* broken :
         {"{}", "{\"results\": [1, {}]}", "{\"results\": [{\"size\": 1, \"count\": 1, \"type\": \"x\"}]}"})
        EXPECT_FALSE(parse_nccl_tests_json(broken, "r.json")) << broken;
}

TEST(NcclTests, RefusesWhatIsNoLog) {
    for (const char* text : {"", "hello\n", "# size count algbw busbw time time\n", "1 2 float\n"}) {
        EXPECT_FALSE(parse_nccl_tests(text, "x").has_value()) << text;
    }
    EXPECT_FALSE(looks_like_nccl_tests("{\"a\": 1}"));
    EXPECT_TRUE(looks_like_nccl_tests(kHeader));
}

TEST(NcclTests, BusFactors) {
    EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::AllReduce, 8), 1.75);
    EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::AllToAll, 8), 0.875);
    EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::Broadcast, 8), 1);
    EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::AllReduce, 1), 0);
}

}  // namespace
}  // namespace tw

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
    EXPECT_TRUE(log.warnings.empty()) << log.warnings.front();
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
    EXPECT_NE(cut.warnings.front().find("line 5 skipped"), std::string::npos);
}

TEST(NcclTests, FlagsContradictions) {
    const auto says = [](const NcclTestsLog& log, const std::string& what) {
        for (const std::string& warning : log.warnings) {
            if (warning.find(what) != std::string::npos) return true;
        }
        return false;
    };
    // 370 ms for 1 GB is 2.90 GB/s, whatever the log prints; and over sockets.
    const NcclTestsLog socket =
        parsed("host:1:1 [0] NCCL INFO NET/Socket : Using [0]bond0:192.0.2.1<0>\n" + kHeader +
               "1073741824 268435456 float sum -1 370000 13.33 25.00 0 370000 13.33 25.00 0\n");
    EXPECT_TRUE(says(socket, "TCP sockets"));
    EXPECT_TRUE(says(socket, "algbw is not size / time"));
    EXPECT_TRUE(says(
        parsed("# Rank 0 Group 0 Pid 1 on host0 device 0 [0x10] NVIDIA H100 80GB HBM3\n"
               "# Rank 1 Group 0 Pid 2 on host0 device 1 [0x20] NVIDIA H100 80GB HBM3\n" +
               kHeader + "1073741824 268435456 float sum -1 6276.0 171.09 299.40 0 6281.2 170.95 299.15 0\n"),
        "lists 2 ranks, its numbers are those of 8"));
    EXPECT_TRUE(
        says(parsed("# Collective test starting: broadcast_perf\n" + kHeader +
                    "1073741824 268435456 float sum -1 6276.0 171.09 299.40 0 6281.2 170.95 299.15 0\n"),
             "the log speaks of broadcast"));
    EXPECT_TRUE(says(
        parsed(kHeader + "1073741824 268435456 float sum -1 6276.0 171.09 299.40 3 6281.2 170.95 299.15 0\n"
                         "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 111.1\n"),
        "wrong results"));
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

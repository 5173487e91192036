#include "models/formats/kineto.hpp"

#include <gtest/gtest.h>

#include "models/formats/kineto_args.hpp"

namespace tw {
namespace {

const char* const kTrace = R"trace({"schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 84974239744, "numSms": 108}],
  "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "pg_config": [{"pg_name": "0", "ranks": [0, 1, 2, 3]}]},
  "baseTimeNanoseconds": 1000000000,
  "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 0, "dur": 5, "args": {"External id": 1}},
  {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 9, "tid": 9, "ts": 2, "dur": 1,
   "args": {"External id": 5, "Collective name": "_allgather_base", "In msg nelems": 256, "Out msg nelems": 1024, "dtype": "BFloat16",
            "Group size": 4}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 3, "dur": 1},
  {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 10, "args": {"stream": 7}},
  {"ph": "X", "cat": "Kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 15, "dur": 20, "args": {"stream": 7}},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)",
                  "pid" : 0, "tid" : 7, "ts" : 40, "dur" : 100, "args" : {
    "bytes" : 2097152, "memory bandwidth (GB/s)" : 20.9
}
},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "pid": 0, "tid": 20,
   "ts": 200, "dur": 50, "args": {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 4,
   "dtype": "Float", "Process Group Name": "0"}},
  {"ph": "X", "cat": "kernel", "name": "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)", "pid": 0, "tid": 20, "ts": 100, "dur": 30,
   "args": {"External id": 5}},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 9, "tid": 9, "ts": 0, "dur": 300},
  {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Traces", "tid": "Trace", "ts": 0, "dur": 100000}]})trace";

TEST(Kineto, OneRank) {
    const auto trace = read_kineto_text(kTrace, "t.json");
    ASSERT_TRUE(trace) << to_string(trace.errors());
    EXPECT_EQ(trace->rank, 3);
    EXPECT_EQ(trace->world_size, 8);
    EXPECT_EQ(trace->backend, "nccl");
    ASSERT_EQ(trace->devices.size(), 1U);
    EXPECT_EQ(trace->devices[0].multiprocessors, 108);
    ASSERT_EQ(trace->groups.size(), 1U);
    EXPECT_EQ(trace->groups[0].ranks, (std::vector<int>{0, 1, 2, 3}));
    EXPECT_EQ(trace->host_ops, 2);
    EXPECT_EQ(trace->launches, 1);
    EXPECT_EQ(trace->device_events, 5);
    EXPECT_NEAR(trace->span_s, 300e-6, 1e-12);
    EXPECT_NEAR(trace->busy_s, (25 + 100 + 50) * 1e-6,
                1e-12);  // the two products overlap, and gather with copy
    ASSERT_EQ(trace->kernels.size(), 3U);
    EXPECT_NE(trace->kernels[0].name.find("AllReduce"), std::string::npos);
    EXPECT_EQ(trace->kernels[1].count + trace->kernels[2].count, 3);
    EXPECT_NEAR(trace->copies[0].best_rate, 2097152 / 100e-6, 1);
    EXPECT_NEAR(trace->median_step_s(), 300e-6, 1e-12);
    ASSERT_EQ(trace->collectives.size(), 2U);
    const KinetoCollective& gather = trace->collectives[0];  // by start; described by the host's op
    EXPECT_EQ(gather.kind, CollectiveKind::AllGather);
    EXPECT_EQ(gather.bytes, 2048);
    EXPECT_EQ(gather.group_size, 4);
    EXPECT_EQ(gather.start_ns, 1000000000 + 100000);
    const KinetoCollective& reduce = trace->collectives[1];
    EXPECT_EQ(reduce.kind, CollectiveKind::AllReduce);
    EXPECT_EQ(reduce.bytes, 4000);
    EXPECT_EQ(reduce.group, "0");
    EXPECT_NEAR(reduce.duration_s, 50e-6, 1e-12);
}

TEST(Kineto, NamesOfCollectives) {
    EXPECT_EQ(collective_by_name("_reduce_scatter_base"), CollectiveKind::ReduceScatter);
    EXPECT_EQ(collective_by_name("allgather_into_tensor_coalesced"), CollectiveKind::AllGather);
    EXPECT_EQ(collective_by_name("all_to_allv"), CollectiveKind::AllToAll);
    EXPECT_EQ(collective_by_name("ncclDevKernel_Broadcast_RING_LL"), CollectiveKind::Broadcast);
    EXPECT_EQ(collective_by_name("send"), CollectiveKind::SendRecv);
    EXPECT_EQ(collective_by_name("ncclDevKernel_Generic"), std::nullopt);
    EXPECT_EQ(collective_by_name("barrier"), std::nullopt);
    EXPECT_EQ(dtype_bytes("BFloat16"), 2);
    EXPECT_EQ(dtype_bytes("Float8_e4m3fn"), 1);
    EXPECT_EQ(dtype_bytes("ComplexDouble"), 0);
    EXPECT_TRUE(is_collective_kernel("ncclKernel_SendRecv"));
    EXPECT_FALSE(is_collective_kernel("gemm_nccl"));
}

TEST(Kineto, CutTraceSaysSo) {
    const std::string text(kTrace);
    const auto trace = read_kineto_text(std::string_view(text).substr(0, text.size() - 400), "t.json");
    ASSERT_TRUE(trace);
    EXPECT_TRUE(has_finding(trace->findings, "truncated"));
    EXPECT_FALSE(read_kineto_text("{\"nodes\": []}", "t.json"));
}

}  // namespace
}  // namespace tw

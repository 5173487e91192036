// Which kernels belong to which operation of a PyTorch trace.
#include <gtest/gtest.h>

#include "models/formats/kineto.hpp"

namespace tw {
namespace {

std::string event(const char* category, const char* name, int tid, double ts, double dur,
                  const std::string& args) {
    return std::string("{\"ph\": \"X\", \"cat\": \"") + category + "\", \"name\": \"" + name +
           "\", \"pid\": 1, \"tid\": " + std::to_string(tid) + ", \"ts\": " + std::to_string(ts) +
           ", \"dur\": " + std::to_string(dur) + ", \"args\": {" + args + "}}";
}

std::string operation(const char* name, int tid, double ts, double dur, const std::string& dims, int id = 0) {
    return event("cpu_op", name, tid, ts, dur,
                 "\"External id\": " + std::to_string(id) + ", \"Input Dims\": " + dims);
}

std::string launch(int tid, double ts, int correlation) {
    return event("cuda_runtime", "cudaLaunchKernel", tid, ts, 1,
                 "\"correlation\": " + std::to_string(correlation));
}

std::string kernel(double dur, int correlation, int id = 0) {
    return event(
        "kernel", "k", 7, 1000, dur,
        "\"correlation\": " + std::to_string(correlation) + ", \"External id\": " + std::to_string(id));
}

KinetoTrace trace_of(const std::vector<std::string>& events) {
    std::string text = "[";
    for (const std::string& e : events)
        text += (text.size() > 1 ? ",\n" : "") + e;
    auto trace = read_kineto_text(text + "]", "t.json");
    EXPECT_TRUE(trace) << to_string(trace.errors());
    return trace ? std::move(*trace) : KinetoTrace{};
}

// Two threads at once, an operation inside another, kernels listed before what launched them.
TEST(KinetoOperations, TheInnermostOnTheLaunchingThread) {
    const KinetoTrace trace = trace_of({
        kernel(30, 11), kernel(5, 12), kernel(7, 13), kernel(90, 14),
        operation("aten::_scaled_dot_product_flash_attention", 1, 0, 20, "[[1, 2, 3, 4]]"),
        operation("aten::_flash_attention_forward", 1, 2, 10, "[[1, 3, 2, 4]]"),
        operation("aten::mm", 2, 1, 12, "[[8, 4], [4, 2]]"), launch(1, 5, 11), launch(2, 6, 12),
        launch(2, 7, 13), launch(1, 40, 14),  // in nobody
    });
    ASSERT_EQ(trace.operations.size(), 2U);
    EXPECT_EQ(trace.operations[0].name, "aten::_flash_attention_forward");
    EXPECT_NEAR(trace.operations[0].median_s, 30e-6, 1e-12);
    EXPECT_EQ(trace.operations[1].name, "aten::mm");
    EXPECT_NEAR(trace.operations[1].median_s, 12e-6, 1e-12);  // both of its kernels
    EXPECT_EQ(trace.operations[1].dims, (std::vector<std::vector<std::int64_t>>{{8, 4}, {4, 2}}));
    EXPECT_EQ(trace.operations[1].kernel, "k");
}

TEST(KinetoOperations, OneShapeOnceWithItsMedian) {
    std::vector<std::string> events;
    for (int i = 0; i < 5; ++i) {
        events.push_back(operation("aten::mm", 1, 10 * i, 5, "[[8, 4], [4, 2]]"));
        events.push_back(launch(1, 10 * i + 2, i));
        events.push_back(kernel(i == 0 ? 100 : 10 + i, i));
    }
    events.push_back(event("cpu_op", "aten::mm", 1, 90, 5, "\"External id\": 3"));  // says no shapes
    const KinetoTrace trace = trace_of(events);
    ASSERT_EQ(trace.operations.size(), 1U);
    EXPECT_EQ(trace.operations[0].count, 5);
    EXPECT_NEAR(trace.operations[0].median_s, 13e-6, 1e-12);
    EXPECT_EQ(trace.operations_without_shapes, 1);
}

TEST(KinetoOperations, WithoutLaunchesByNumber) {
    const KinetoTrace trace = trace_of(
        {operation("aten::mm", 1, 0, 5, "[[8, 4], [4, 2]]", 77), kernel(10, 5, 77), kernel(20, 6, 78)});
    ASSERT_EQ(trace.operations.size(), 1U);
    EXPECT_NEAR(trace.operations[0].total_s, 10e-6, 1e-12);
}

}  // namespace
}  // namespace tw

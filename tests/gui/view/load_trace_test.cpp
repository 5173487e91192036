#include "gui/view/load_trace.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "gui/view/chrome_export.hpp"
#include "gui/view/flow.hpp"
#include "plan/trace/chrome.hpp"
#include "plan/trace/trace_json.hpp"
#include "tests/gui/view/view_fixtures.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tw {
namespace {

std::shared_ptr<const TraceModel> load(const std::filesystem::path& path) {
    const std::vector<std::filesystem::path> files = {path};
    const auto model = load_trace_model(files);
    EXPECT_TRUE(model) << to_string(model.errors());
    return model ? *model : nullptr;
}

std::filesystem::path written(const TemporaryFolder& folder, const std::string& name,
                              const std::string& text) {
    const std::filesystem::path path = folder.path() / name;
    std::ofstream(path) << text;
    return path;
}

TEST(LoadTrace, OurChromeExportOpensAsTheTraceItself) {
    const TemporaryFolder folder;
    Trace trace = view_test::pipeline_trace();
    trace.memory_categories = {"parameters", "activations"};
    trace.ranks[0].memory = {{0, {10, 0}}, {5'000'000'000, {10, 20}}};
    const auto path = folder.path() / "chrome.json";
    {
        std::ofstream out(path);
        write_chrome_trace(trace, out);
    }
    const auto expected = view_test::model_of(trace);
    const auto model = load(path);
    ASSERT_NE(model, nullptr);
    ASSERT_EQ(model->size(), expected->size());
    EXPECT_EQ(model->title(), trace.title);
    EXPECT_EQ(model->end(), expected->end());
    EXPECT_EQ(model->step_ends(), expected->step_ends());
    ASSERT_EQ(model->lanes().size(), expected->lanes().size());
    for (TaskId t = 0; t < model->size(); ++t) {
        ASSERT_EQ(model->name(t), expected->name(t));
        ASSERT_EQ(model->start(t), expected->start(t));
        ASSERT_EQ(model->finish(t), expected->finish(t));
        ASSERT_EQ(model->kind(t), expected->kind(t));
        ASSERT_EQ(model->microbatch(t), expected->microbatch(t));
    }
    EXPECT_EQ(model->memory(0)[1].bytes, (std::vector<std::int64_t>{10, 20}));
}

TEST(LoadTrace, OurDocumentOpens) {
    const TemporaryFolder folder;
    const auto path = folder.path() / "trace.json";
    {
        std::ofstream out(path);
        write_trace(view_test::pipeline_trace(), out);
    }
    const auto model = load(path);
    ASSERT_NE(model, nullptr);
    ASSERT_NE(model->source(), nullptr);
    EXPECT_EQ(model->size(), view_test::model_of(view_test::pipeline_trace())->size());
}

TEST(LoadTrace, KinetoTimesSpansAndWords) {
    const TemporaryFolder folder;
    const auto path = written(folder, "rank3.json", R"({"schemaVersion": 1, "distributedInfo": {"rank": 3},
"traceEvents": [
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":597913,"tid":598009,"ts":1661203462598738.250,"dur":100.5},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1661203462598800,"dur":50},
{"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#1","pid":0,"tid":7,"ts":1661203462598800,"dur":60},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":20,"ts":1661203462598850,"dur":25},
{"ph":"B","cat":"","name":"outer \"quoted\"","pid":"Spans","tid":"PyTorch","ts":1661203462598740},
{"ph":"E","pid":"Spans","tid":"PyTorch","ts":1661203462598750},
{"ph":"i","name":"[memory]","pid":597913,"tid":1,"ts":1661203462598820,"args":{"Device Id":0,"Total Allocated":100,"Total Reserved":250}},
{"ph":"M","name":"process_labels","pid":0,"args":{"labels":"GPU 0"}},
{"ph":"M","name":"process_name","pid":0,"args":{"name":"python"}}
]})");
    const auto model = load(path);
    ASSERT_NE(model, nullptr);
    ASSERT_EQ(model->nodes().size(), 1U);
    EXPECT_EQ(model->nodes()[0].name, "rank 3");
    EXPECT_EQ(model->origin(), "PyTorch");
    const ModelRank& gpu = model->ranks()[0];
    EXPECT_EQ(gpu.name, "python GPU 0");
    EXPECT_EQ(model->lanes()[gpu.lane_begin].name, "thread 7");
    EXPECT_EQ(model->kind(model->lanes()[gpu.lane_begin].begin), TaskKind::Kernel);
    EXPECT_EQ(model->start(model->lanes()[gpu.lane_begin].begin), 61'750'000);
    EXPECT_EQ(model->memory(0)[0].bytes, (std::vector<std::int64_t>{100, 150}));
    bool quoted = false;
    for (TaskId t = 0; t < model->size(); ++t)
        quoted = quoted || model->name(t) == "outer \"quoted\"";
    EXPECT_TRUE(quoted);
}

// The arrows of a file, as names: "launch>gemm".
std::vector<std::string> arrows_of(const TraceModel& model) {
    const FlowIndex flows(model);
    std::vector<std::string> out;
    for (std::size_t m = 0; m < flows.meetings(); ++m) {
        std::string way;
        for (const TaskId task : flows.members(m))
            way += (way.empty() ? "" : ">") + model.name(task);
        out.push_back(way);
    }
    std::sort(out.begin(), out.end());
    return out;
}

// What the export of a foreign timeline writes opens as that timeline: nesting, kinds, arrows, memory.
TEST(LoadTrace, TheExportOfAForeignTraceOpensAsItself) {
    const TemporaryFolder folder;
    const auto first = load(written(folder, "kineto.json", R"({"schemaVersion": 1, "traceEvents": [
{"ph":"X","cat":"cpu_op","name":"say \"mm\"","pid":1,"tid":1,"ts":0.5,"dur":30},
{"ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":5,"dur":4},
{"ph":"s","id":12,"pid":1,"tid":1,"ts":5,"cat":"ac2g","name":"ac2g"},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":40,"dur":9.000125},
{"ph":"f","id":12,"pid":0,"tid":7,"ts":40,"cat":"ac2g","name":"ac2g","bp":"e"},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":20,"ts":60,"dur":25},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","pid":0,"tid":7,"ts":90,"dur":1},
{"ph":"X","cat":"user_annotation","name":"step","pid":1,"tid":2,"ts":0,"dur":99},
{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":50,"args":{"Device Id":0,"Total Allocated":100,"Total Reserved":250}},
{"ph":"M","name":"process_name","pid":0,"args":{"name":"python"}}
]})"));
    ASSERT_NE(first, nullptr);
    const auto path = folder.path() / "export.json";
    {
        std::ofstream out(path);
        write_chrome(*first, out);
    }
    const auto again = load(path);
    ASSERT_NE(again, nullptr);
    ASSERT_EQ(again->size(), first->size());
    EXPECT_EQ(again->warnings(), std::vector<std::string>{});
    EXPECT_EQ(again->title(), first->title());
    EXPECT_EQ(again->origin(), first->origin());
    EXPECT_EQ(again->end(), first->end());
    ASSERT_EQ(again->lanes().size(), first->lanes().size());
    for (std::size_t l = 0; l < first->lanes().size(); ++l) {
        EXPECT_EQ(again->lanes()[l].name, first->lanes()[l].name);
        EXPECT_EQ(again->lanes()[l].depth, first->lanes()[l].depth);
    }
    for (TaskId t = 0; t < first->size(); ++t) {
        EXPECT_EQ(again->name(t), first->name(t));
        EXPECT_EQ(again->start(t), first->start(t));
        EXPECT_EQ(again->finish(t), first->finish(t));
        EXPECT_EQ(again->kind(t), first->kind(t));
    }
    EXPECT_EQ(arrows_of(*again), (std::vector<std::string>{"launch>gemm"}));
    EXPECT_EQ(again->memory(0)[0].bytes, (std::vector<std::int64_t>{100, 150}));
    EXPECT_EQ(again->memory_categories(), first->memory_categories());
}

// Kineto writes ac2g arrows from a launch to its kernel, both at the beginning of their slices.
TEST(LoadTrace, ArrowsOfKinetoJoinLaunchesAndKernels) {
    const TemporaryFolder folder;
    const auto model = load(written(folder, "kineto.json", R"({"schemaVersion": 1, "traceEvents": [
{"ph":"X","cat":"cpu_op","name":"mm","pid":1,"tid":1,"ts":0,"dur":30},
{"ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":5,"dur":4},
{"ph":"s","id":12,"pid":1,"tid":1,"ts":5,"cat":"ac2g","name":"ac2g"},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":40,"dur":9},
{"ph":"f","id":12,"pid":0,"tid":7,"ts":40,"cat":"ac2g","name":"ac2g","bp":"e"},
{"ph":"s","id":12,"pid":1,"tid":1,"ts":1,"cat":"fwdbwd","name":"fwdbwd"},
{"ph":"f","id":99,"pid":0,"tid":7,"ts":40,"cat":"ac2g","name":"ac2g","bp":"e"},
{"ph":"s","id":13,"pid":1,"tid":1,"ts":900,"cat":"ac2g","name":"ac2g"}
]})"));
    ASSERT_NE(model, nullptr);
    // The innermost task is meant; an arrow of the same number but another category is another one.
    EXPECT_EQ(arrows_of(*model), (std::vector<std::string>{"launch>gemm"}));
    ASSERT_EQ(model->warnings().size(), 1U);
    EXPECT_NE(model->warnings()[0].find("2 ends of arrows"), std::string::npos) << model->warnings()[0];
    const FlowIndex flows(*model);
    TaskId launch = kNoTask;
    for (TaskId t = 0; t < model->size(); ++t)
        if (model->name(t) == "launch") launch = t;
    const TaskId gemm = along_flow(*model, flows, launch, false);
    ASSERT_NE(gemm, kNoTask);
    EXPECT_EQ(model->name(gemm), "gemm");
    EXPECT_EQ(along_flow(*model, flows, gemm, true), launch);
    EXPECT_EQ(along_flow(*model, flows, gemm, false), kNoTask);
}

// Steps, ends without "bp" (which mean the next slice to begin), several ends, bind ids.
TEST(LoadTrace, ArrowsOfOtherWriters) {
    const TemporaryFolder folder;
    const auto model = load(written(folder, "chrome.json", R"([
{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":10},
{"ph":"X","name":"b","pid":1,"tid":2,"ts":20,"dur":10},
{"ph":"X","name":"c","pid":2,"tid":1,"ts":40,"dur":10},
{"ph":"X","name":"d","pid":2,"tid":2,"ts":60,"dur":10},
{"ph":"s","id":"0x1","name":"way","cat":"c","pid":1,"tid":1,"ts":10},
{"ph":"t","id":"0x1","name":"way","cat":"c","pid":1,"tid":2,"ts":25},
{"ph":"f","id":"0x1","name":"way","cat":"c","pid":2,"tid":1,"ts":35},
{"ph":"f","id":"0x1","name":"way","cat":"c","pid":2,"tid":2,"ts":60,"bp":"e"},
{"ph":"X","name":"p","pid":3,"tid":1,"ts":100,"dur":5,"bind_id":"0x7","flow_out":true},
{"ph":"X","name":"q","pid":3,"tid":2,"ts":110,"dur":5,"bind_id":"0x7","flow_in":true,"flow_out":true},
{"ph":"X","name":"r","pid":3,"tid":3,"ts":120,"dur":5,"bind_id":"0x7","flow_in":true},
{"ph":"s","id":"0x1","name":"way","cat":"c","pid":3,"tid":1,"ts":101},
{"ph":"f","id":"0x1","name":"way","cat":"c","pid":3,"tid":3,"ts":121,"bp":"e"}
])"));
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(arrows_of(*model), (std::vector<std::string>{"a>b>c", "b>d", "p>q>r", "p>r"}));
    EXPECT_TRUE(model->warnings().empty());
}

TEST(LoadTrace, ArrowsOfOurExportJoinSendsAndReceives) {
    const TemporaryFolder folder;
    const auto path = folder.path() / "chrome.json";
    {
        std::ofstream out(path);
        write_chrome_trace(view_test::pipeline_trace(), out);
    }
    const auto model = load(path);
    ASSERT_NE(model, nullptr);
    ASSERT_EQ(model->source(), nullptr);
    const FlowIndex flows(*model);
    std::size_t sends = 0;
    for (TaskId t = 0; t < model->size(); ++t)
        sends += model->name(t).starts_with("send ") ? 1U : 0U;
    EXPECT_GT(sends, 0U);
    EXPECT_EQ(flows.meetings(), sends);
    for (std::size_t m = 0; m < flows.meetings(); ++m) {
        const auto way = flows.members(m);
        ASSERT_EQ(way.size(), 2U);
        EXPECT_TRUE(model->name(way[0]).starts_with("send ")) << model->name(way[0]);
        EXPECT_TRUE(model->name(way[1]).starts_with("receive ")) << model->name(way[1]);
        EXPECT_EQ(model->microbatch(way[0]), model->microbatch(way[1]));
        EXPECT_NE(model->rank_of(way[0]), model->rank_of(way[1]));
    }
}

TEST(LoadTrace, SeveralFilesShareOneAxis) {
    const TemporaryFolder folder;
    const auto text = [](int rank, double start) {
        return R"({"distributedInfo":{"rank":)" + std::to_string(rank) +
               R"(},"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)" +
               std::to_string(start) + R"(,"dur":5}]})";
    };
    const std::vector<std::filesystem::path> files = {written(folder, "a.json", text(0, 1000)),
                                                      written(folder, "b.json", text(1, 1010))};
    const auto model = load_trace_model(files);
    ASSERT_TRUE(model);
    ASSERT_EQ((*model)->nodes().size(), 2U);
    EXPECT_EQ((*model)->nodes()[1].name, "rank 1");
    EXPECT_EQ((*model)->start(1), 10'000'000);
}

// Two ranks leave a collective together: the second's clock is 7.5 ms ahead. Both times are relative to the
// file's own base.
TEST(LoadTrace, ClocksOfRanksAreAligned) {
    const TemporaryFolder folder;
    const auto text = [](int rank, double clock_us, std::int64_t base_ns) {
        std::string events;
        for (int i = 0; i < 5; ++i) {
            const double end = 1000.0 + 400 * i + clock_us - static_cast<double>(base_ns) * 1e-3;
            const double length = rank == 0 ? 100 : 30;  // rank 1 comes later and waits less
            events +=
                (i > 0 ? "," : "") +
                std::string(
                    R"({"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":20,"ts":)") +
                std::to_string(end - length) + R"(,"dur":)" + std::to_string(length) + "}";
        }
        return R"({"schemaVersion":1,"baseTimeNanoseconds":)" + std::to_string(base_ns) +
               R"(,"distributedInfo":{"backend":"nccl","rank":)" + std::to_string(rank) +
               R"(,"world_size":2,"pg_config":[{"ranks":[0,1]}]},"traceEvents":[)" + events + "]}";
    };
    const std::string first = text(0, 0, 0), second = text(1, 7500, 2'000'000);
    ASSERT_TRUE(traced_rank(second));
    EXPECT_EQ(traced_rank(second)->rank, 1);
    EXPECT_EQ(traced_rank(second)->world_size, 2);
    EXPECT_FALSE(traced_rank(R"({"traceEvents":[]})"));
    const std::vector<std::filesystem::path> files = {written(folder, "a.json", first),
                                                      written(folder, "b.json", second)};
    const auto model = load_trace_model(files);
    ASSERT_TRUE(model);
    ASSERT_EQ((*model)->lanes().size(), 2U);
    const Lane &a = (*model)->lanes()[0], &b = (*model)->lanes()[1];
    for (TaskId i = 0; i < 5; ++i)
        EXPECT_EQ((*model)->finish(a.begin + i), (*model)->finish(b.begin + i));
    ASSERT_EQ((*model)->warnings().size(), 1U);
    EXPECT_NE((*model)->warnings()[0].find("rank 1: its clock is 7.500 ms ahead of"), std::string::npos)
        << (*model)->warnings()[0];
}

// NCCL has one kernel for sends, receives and all-to-alls: the collective's name tells, or the operation that
// launched it.
TEST(LoadTrace, SendRecvKernelsAreTransfersWhereTheyAreCalledSo) {
    const TemporaryFolder folder;
    const auto model = load(written(folder, "p2p.json", R"({"schemaVersion": 1, "traceEvents": [
{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":0,"dur":5,"args":{"External id":7,"Collective name":"recv"}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv","pid":0,"tid":7,"ts":10,"dur":5,"args":{"Collective name":"send"}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv","pid":0,"tid":7,"ts":20,"dur":5,"args":{"Collective name":"alltoall_base"}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv","pid":0,"tid":7,"ts":30,"dur":5,"args":{"External id":7}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv","pid":0,"tid":7,"ts":40,"dur":5,"args":{"External id":8}}
]})"));
    ASSERT_NE(model, nullptr);
    const Lane& lane = model->lanes()[model->ranks()[0].lane_begin];
    ASSERT_EQ(lane.end - lane.begin, 4U);
    EXPECT_EQ(model->kind(lane.begin), TaskKind::PipelineTransfer);
    EXPECT_EQ(model->kind(lane.begin + 1), TaskKind::Communication);
    EXPECT_EQ(model->kind(lane.begin + 2), TaskKind::PipelineTransfer);
    EXPECT_EQ(model->kind(lane.begin + 3), TaskKind::Communication);
}

TEST(LoadTrace, CanBeGivenUp) {
    const TemporaryFolder folder;
    const auto path = folder.path() / "chrome.json";
    {
        std::ofstream out(path);
        write_chrome_trace(view_test::pipeline_trace(), out);
    }
    const std::vector<std::filesystem::path> files = {path};
    const auto model = load_trace_model(files, [](double share) { return share < 0.5; });
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, ErrorCode::Interrupted);
}

TEST(LoadTrace, ErrorsNameTheFile) {
    const TemporaryFolder folder;
    const std::vector<std::filesystem::path> missing = {folder.path() / "none.json"};
    EXPECT_EQ(load_trace_model(missing).error().code, ErrorCode::Unreadable);
    const std::vector<std::filesystem::path> empty = {written(folder, "empty.json", R"({"traceEvents":[]})")};
    EXPECT_NE(to_string(load_trace_model(empty).errors()).find("empty.json"), std::string::npos);
}

// The traces of others that this machine has: none crashes, all have tasks that add up.
TEST(LoadTrace, ForeignTracesOpen) {
    const std::filesystem::path folder = std::filesystem::path(TW_SOURCE_DIR) / "../shared/inputs/traces";
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no ../shared/inputs/traces beside the source";
    int opened = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        if (!entry.is_regular_file()) continue;
        const std::vector<std::filesystem::path> files = {entry.path()};
        const auto model = load_trace_model(files);
        if (!model) {
            EXPECT_NE(model.error().message, "") << entry.path();
            continue;
        }
        ++opened;
        EXPECT_GT((*model)->size(), 0U) << entry.path();
        for (const Lane& lane : (*model)->lanes())
            for (TaskId t = lane.begin; t + 1 < lane.end; ++t)
                ASSERT_LE((*model)->finish(t), (*model)->start(t + 1)) << entry.path();
    }
    EXPECT_GT(opened, 0);
}

}  // namespace
}  // namespace tw

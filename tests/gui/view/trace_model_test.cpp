#include "gui/view/trace_model.hpp"

#include <set>

#include <gtest/gtest.h>

#include "gui/view/trace_model_builder.hpp"
#include "tests/gui/view/view_fixtures.hpp"

namespace tw {
namespace {

using view_test::model_of;

TEST(TraceModel, GroupsLanesByRankAndNode) {
    const auto model = model_of(view_test::pipeline_trace());
    ASSERT_EQ(model->nodes().size(), 2U);
    EXPECT_EQ(model->nodes()[1].name, "node1");
    ASSERT_EQ(model->ranks().size(), 4U);
    EXPECT_EQ(model->ranks()[2].node, 1U);
    EXPECT_EQ(model->ranks()[2].name, "PP02");
    for (const ModelRank& rank : model->ranks())
        EXPECT_EQ(model->lanes()[rank.lane_begin].name, "compute");
}

TEST(TraceModel, EveryEventIsOneTaskAndLeadsBack) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        const auto model = model_of(view_test::random_trace(seed, 5, 200, seed % 2 == 1));
        std::size_t events = 0;
        for (std::uint32_t r = 0; r < model->source()->ranks.size(); ++r) {
            const auto& list = model->source()->ranks[r].events;
            events += list.size();
            for (std::uint32_t e = 0; e < list.size(); ++e) {
                const TaskId task = model->task_of({r, e});
                ASSERT_NE(task, kNoTask);
                EXPECT_EQ(model->event_ref(task), (EventRef{r, e}));
                EXPECT_EQ(model->start(task), list[e].start);
                EXPECT_EQ(model->finish(task), list[e].end);
                EXPECT_EQ(model->name(task), event_name(list[e].instruction));
            }
        }
        EXPECT_EQ(events, model->size());
    }
}

TEST(TraceModel, TasksOfALaneDoNotOverlap) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        const auto model = model_of(view_test::random_trace(seed, 3, 500, true));
        TaskId next = 0;
        bool deeper = false;
        for (const Lane& lane : model->lanes()) {
            EXPECT_EQ(lane.begin, next);
            next = lane.end;
            deeper = deeper || lane.depth > 0;
            for (TaskId t = lane.begin; t + 1 < lane.end; ++t)
                ASSERT_LE(model->finish(t), model->start(t + 1));
        }
        EXPECT_EQ(next, model->size());
        EXPECT_TRUE(deeper);
    }
}

TEST(TraceModel, FindsTheTaskAtATime) {
    const auto model = model_of(view_test::random_trace(7, 2, 400));
    for (std::uint32_t l = 0; l < model->lanes().size(); ++l) {
        const Lane& lane = model->lanes()[l];
        for (TaskId t = lane.begin; t < lane.end; ++t) {
            if (model->duration(t) == 0) continue;
            const SimTime middle = model->start(t) + model->duration(t) / 2;
            EXPECT_EQ(model->task_at(l, middle), t);
            EXPECT_EQ(model->lane_of(t), l);
        }
        EXPECT_EQ(model->task_at(l, model->end() + 1), kNoTask);
    }
}

TEST(TraceModel, KeepsAtMostFortyBytesATask) {
    const auto model = model_of(view_test::random_trace(3, 4, 50'000));
    EXPECT_LE(static_cast<double>(model->bytes()) / static_cast<double>(model->size()), 40.0);
}

TEST(TraceModel, TellsDetails) {
    const auto model = model_of(view_test::pipeline_trace());
    const auto details = model->details(model->lanes()[0].begin);
    EXPECT_EQ(details[0], (std::pair<std::string, std::string>("task", "F mb0 s0")));
    EXPECT_EQ(details[2].second, "PP00 @ node0");
    EXPECT_EQ(details[5].second, "10.00 ms");
}

TEST(TraceModel, AnEmptyTraceIsEmpty) {
    const auto model = model_of({});
    EXPECT_EQ(model->size(), 0U);
    EXPECT_LT(model->begin(), model->end());
}

TEST(TraceModelBuilder, NestsOverlappingSpansOfAThread) {
    TraceModelBuilder builder;
    const auto thread = builder.thread(0, 7, 1);
    const auto task = [&](SimTime start, SimTime finish, std::string_view name) {
        ForeignTask t;
        t.start = start;
        t.finish = finish;
        t.name = builder.intern(name);
        builder.add(thread, t);
    };
    task(120, 150, "inner");  // children before parents, and not in order
    task(100, 200, "outer");
    task(125, 140, "innermost");
    task(200, 210, "next");
    builder.name_process(0, 7, "trainer");
    builder.name_thread(0, 7, 1, "main");
    const auto model = builder.build();
    ASSERT_EQ(model->lanes().size(), 3U);
    EXPECT_EQ(model->lanes()[0].name, "main");
    EXPECT_EQ(model->lanes()[1].name, "main +1");
    EXPECT_EQ(model->ranks()[0].name, "trainer");
    EXPECT_EQ(model->name(model->lanes()[0].begin), "outer");
    EXPECT_EQ(model->start(0), 0);  // the first task is at time 0
    EXPECT_EQ(model->name(model->lanes()[2].begin), "innermost");
    EXPECT_EQ(model->name_key(0), model->name_key(0));
}

TEST(TraceModelBuilder, FilesAreNodesAndTheBusiestStreamStandsForTheRank) {
    TraceModelBuilder builder;
    for (std::uint32_t file = 0; file < 2; ++file) {
        builder.name_file(file, file == 0 ? "rank 0" : "rank 1");
        for (std::int64_t stream = 7; stream < 10; ++stream) {
            ForeignTask t;
            t.start = 10;
            t.finish = 10 + 100 * stream;
            t.kind = stream == 8 ? TaskKind::Kernel : TaskKind::CpuOp;
            builder.add(builder.thread(file, 0, stream), t);
        }
        builder.memory(file, 0, 20, "allocated", 100);
        builder.memory(file, 0, 20, "reserved", 200);
        builder.memory(file, 0, 30, "allocated", 300);
    }
    const auto model = builder.build([](double share) { return share <= 1; });
    ASSERT_EQ(model->nodes().size(), 2U);
    EXPECT_EQ(model->nodes()[1].name, "rank 1");
    EXPECT_EQ(model->lanes()[model->ranks()[1].lane_begin].name, "thread 8");
    ASSERT_EQ(model->memory(0).size(), 2U);
    EXPECT_EQ(model->memory(0)[1].bytes, (std::vector<std::int64_t>{300, 200}));
    EXPECT_EQ(model->memory(0)[0].time, 10);
    EXPECT_EQ(builder.build([](double) { return false; })->size(), 0U);
}

TEST(TaskKind, KnowsForeignKernels) {
    EXPECT_EQ(foreign_kind("kernel", "ncclDevKernel_AllReduce_Sum_bf16"), TaskKind::Communication);
    EXPECT_EQ(foreign_kind("kernel", "ncclDevKernel_SendRecv"), TaskKind::Communication);
    for (const char* name :
         {"send", "recv", "c10d::send", "c10d::recv_", "nccl:send 0->1", "batch_isend_irecv"})
        EXPECT_TRUE(is_send_or_receive(name)) << name;
    for (const char* name : {"", "alltoall_base", "all_to_allv", "nccl:all_to_all", "record_param_comms"})
        EXPECT_FALSE(is_send_or_receive(name)) << name;
    EXPECT_EQ(foreign_kind("kernel", "sm90_xmma_gemm"), TaskKind::Kernel);
    EXPECT_EQ(foreign_kind("dp", "all-reduce s1"), TaskKind::DataParallel);
    EXPECT_EQ(foreign_kind("cpu_op", "aten::mm"), TaskKind::CpuOp);
    const NamedPlace place = place_in_name("F mb3 s12");
    EXPECT_EQ(place.microbatch, 3);
    EXPECT_EQ(place.stage, 12);
    EXPECT_EQ(place_in_name("aten::mm").microbatch, -1);
    TaskKind kind{};
    for (int k = 0; k < kTaskKinds; ++k) {
        ASSERT_TRUE(find_kind(title(static_cast<TaskKind>(k)), kind));
    }
    EXPECT_FALSE(find_kind("nonsense", kind));
}

}  // namespace
}  // namespace tw

#include "gui/view/flow.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "gui/view/derived.hpp"
#include "tests/gui/view/view_fixtures.hpp"

namespace tw {
namespace {

using view_test::model_of;

TaskId find(const TraceModel& model, const std::string& name, int rank) {
    for (TaskId t = 0; t < model.size(); ++t)
        if (model.name(t) == name && model.ranks()[model.rank_of(t)].rank == rank) return t;
    return kNoTask;
}

TEST(Flow, AMicrobatchWalksThroughEveryStageAndBack) {
    const auto model = model_of(view_test::pipeline_trace(4, 6, 1));
    const FlowIndex flows(*model);
    TaskId task = find(*model, "F mb2 s0", 0);
    std::vector<std::string> names = {model->name(task)};
    std::vector<TaskId> way = {task};
    while ((task = along_flow(*model, flows, task, false)) != kNoTask) {
        names.push_back(model->name(task));
        way.push_back(task);
    }
    EXPECT_EQ(names, (std::vector<std::string>{"F mb2 s0", "F mb2 s1", "F mb2 s2", "F mb2 s3", "B mb2 s3",
                                               "B mb2 s2", "B mb2 s1", "B mb2 s0"}));
    std::vector<TaskId> back = {way.back()};
    for (task = way.back(); (task = along_flow(*model, flows, task, true)) != kNoTask;)
        back.push_back(task);
    std::reverse(back.begin(), back.end());
    EXPECT_EQ(back, way);
}

TEST(Flow, ASendLeadsToItsReceiveAndToTheComputeThatUsesIt) {
    const auto model = model_of(view_test::pipeline_trace(3, 4, 1));
    const FlowIndex flows(*model);
    const TaskId send = find(*model, "send activation mb1 s0", 0);
    ASSERT_NE(send, kNoTask);
    const TaskId receive = along_flow(*model, flows, send, false);
    ASSERT_NE(receive, kNoTask);
    EXPECT_EQ(model->name(receive), "receive activation mb1 s1");
    EXPECT_EQ(along_flow(*model, flows, receive, true), send);
    EXPECT_EQ(model->name(along_flow(*model, flows, receive, false)), "F mb1 s1");
    EXPECT_EQ(model->name(along_flow(*model, flows, send, true)), "F mb1 s0");
    const auto partners = flows.partners(send);
    ASSERT_EQ(partners.size(), 2U);
    EXPECT_EQ(flows.partners(find(*model, "F mb1 s0", 0)).size(), 0U);
}

TEST(Flow, ACollectiveVisitsAllItsRanksAndComesBack) {
    Trace trace;
    for (int r = 0; r < 3; ++r) {
        RankTrace rank;
        rank.rank = r;
        rank.replica = r;
        rank.pipeline_rank = 0;
        Instruction i;
        i.opcode = Opcode::AllReduce;
        i.stream = Stream::Dp;
        rank.events.push_back(hand::event(i, 10, 20));
        trace.ranks.push_back(rank);
    }
    const auto model = model_of(std::move(trace));
    const FlowIndex flows(*model);
    TaskId task = 0;
    for (int n = 0; n < 3; ++n)
        task = along_flow(*model, flows, task, false);
    EXPECT_EQ(task, 0U);
    EXPECT_EQ(along_flow(*model, flows, 0, true), 2U);
}

TEST(Derived, BubblesAndExposedCommunicationFillTheIdleTime) {
    const auto model = model_of(view_test::pipeline_trace());
    const auto derived = derive(*model);
    for (std::size_t r = 0; r < model->ranks().size(); ++r) {
        SimTime work = 0;
        const ModelRank& rank = model->ranks()[r];
        for (TaskId t = model->lanes()[rank.lane_begin].begin; t < model->lanes()[rank.lane_begin].end; ++t)
            work += model->duration(t);
        EXPECT_EQ(length(derived->bubbles[r]) + length(derived->exposed[r]),
                  model->end() - model->begin() - work);
    }
}

TEST(Derived, TheCriticalPathCoversTheTrace) {
    const auto model = model_of(view_test::pipeline_trace());
    const auto derived = derive(*model);
    ASSERT_FALSE(derived->critical_path.empty());
    SimTime busy = derived->path_gaps;
    for (const TaskId task : derived->critical_path) {
        busy += model->duration(task);
        EXPECT_TRUE(derived->is_on_path(task));
    }
    EXPECT_EQ(busy, derived->path_length);
    EXPECT_EQ(derived->path_length, model->end());
}

}  // namespace
}  // namespace tw

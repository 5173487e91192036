#include "plan/trace/compare.hpp"

#include <gtest/gtest.h>

#include "tests/plan/trace/hand_traces.hpp"

namespace tw {
namespace {

const ErrorRow& row(const TraceComparison& c, Opcode opcode, int stage) {
    for (const ErrorRow& r : c.rows) {
        if (r.opcode == opcode && r.stage == stage) return r;
    }
    static const ErrorRow kNone;
    return kNone;
}

TEST(Compare, ATraceWithItself) {
    const Trace trace = hand::run(hand::one_f_one_b(3, 5), {20, 40, 0, 1, 3, 2}, 2);
    const TraceComparison c = compare_traces(trace, trace);
    std::size_t events = 0;
    for (const RankTrace& rank : trace.ranks)
        events += rank.events.size();
    EXPECT_EQ(c.joined, static_cast<std::int64_t>(events));
    EXPECT_EQ(c.only_predicted + c.only_measured, 0);
    EXPECT_FALSE(c.order_divergence.has_value());
    EXPECT_FALSE(c.duration_divergence.has_value());
    EXPECT_EQ(c.step_error(), 0);
    EXPECT_EQ(c.predicted_bubble, c.measured_bubble);
    for (const ErrorRow& r : c.rows)
        EXPECT_EQ(r.relative_error(), 0);
    EXPECT_EQ(row(c, Opcode::Forward, 1).count, 10);
    EXPECT_DOUBLE_EQ(row(c, Opcode::Forward, 1).measured_s, 20e-12);
}

TEST(Compare, FindsTheErrorOfEveryInstructionAndTheFirstDivergence) {
    const Trace predicted = hand::run(hand::gpipe(2, 4), {20, 40});
    const Trace measured = hand::run(hand::gpipe(2, 4), {20, 50});
    const TraceComparison c = compare_traces(predicted, measured);
    EXPECT_DOUBLE_EQ(row(c, Opcode::Forward, 0).relative_error(), 0);
    EXPECT_DOUBLE_EQ(row(c, Opcode::Backward, 1).relative_error(), -0.2);
    ASSERT_TRUE(c.duration_divergence.has_value());
    EXPECT_EQ(c.duration_divergence->rank, 1);  // the last stage's backward comes first
    EXPECT_NE(c.duration_divergence->text.find("1B0 predicted 40.0 ps, measured 50.0 ps"), std::string::npos);
    EXPECT_DOUBLE_EQ(c.predicted_step_s, 300e-12);
    EXPECT_DOUBLE_EQ(c.measured_step_s, 350e-12);
    EXPECT_NEAR(c.step_error(), -1.0 / 7, 1e-12);
    EXPECT_NE(error_table(c).render().find("backward"), std::string::npos);
}

TEST(Compare, NamesOtherAndMissingInstructions) {
    const Trace predicted = hand::run(hand::gpipe(2, 3), {20, 40});
    Trace measured = predicted;
    std::swap(measured.ranks[0].events[1].instruction, measured.ranks[0].events[0].instruction);
    measured.ranks[1].events.pop_back();
    const TraceComparison c = compare_traces(predicted, measured);
    EXPECT_EQ(c.only_predicted, 1);
    EXPECT_EQ(c.only_measured, 0);
    ASSERT_TRUE(c.order_divergence.has_value());
    EXPECT_EQ(c.order_divergence->kind, Divergence::Kind::Instruction);
    EXPECT_EQ(c.order_divergence->text, "rank 0, step 0, 0: predicted 0F0, measured 0SEND_F0");

    Trace fewer = predicted;
    fewer.ranks.pop_back();
    EXPECT_EQ(compare_traces(predicted, fewer).only_predicted,
              static_cast<std::int64_t>(predicted.ranks[1].events.size()));
}

TEST(Compare, SteadyHoldsEveryMeasuredStepAgainstTheLastPredicted) {
    const Trace predicted = hand::run(hand::gpipe(2, 4), {20, 40}, 2);
    Trace measured = hand::run(hand::gpipe(2, 4), {20, 40}, 5);
    measured.ranks[0].events[0].end += 5;  // a slow start
    CompareOptions options;
    options.steady = true;
    options.first_measured_step = 1;
    const TraceComparison c = compare_traces(predicted, measured, options);
    EXPECT_EQ(c.only_predicted + c.only_measured, 0);
    EXPECT_EQ(row(c, Opcode::Forward, 0).count, 16);
    EXPECT_FALSE(c.duration_divergence.has_value());
    EXPECT_DOUBLE_EQ(c.measured_step_s, 300e-12);
    EXPECT_EQ(c.ranks, (std::vector<int>{0, 1}));
    EXPECT_EQ(c.predicted_rank_bubble, c.measured_rank_bubble);
}

}  // namespace
}  // namespace tw

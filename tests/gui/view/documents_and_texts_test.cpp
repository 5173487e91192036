#include <cmath>

#include <gtest/gtest.h>

#include "gui/view/memory_curve.hpp"
#include "gui/view/time_text.hpp"
#include "gui/view/trace_difference.hpp"
#include "gui/view/view_state_json.hpp"
#include "tests/gui/view/view_fixtures.hpp"

namespace tw {
namespace {

using view_test::model_of;

TEST(ViewStateJson, ReadsBackWhatItWrote) {
    const auto model = model_of(view_test::pipeline_trace());
    ViewState state;
    state.begin = 5;
    state.end = 123'456'789;
    state.scroll = 17.5;
    state.tracks.collapsed = {{TrackKind::Rank, 2}, {TrackKind::Node, 1}};
    state.tracks.hidden = {{TrackKind::Lane, 1}};
    state.tracks.pinned = {{TrackKind::Rank, 3}, {TrackKind::Lane, 0}};
    state.tracks.filter = "PP0[0-3]";
    state.tracks.regex = true;
    state.tracks.ranks = {0, 2};
    state.options.bubbles = true;
    state.options.time_format = TimeFormat::OfStep;
    state.range = RangeSelection{10, 20, {0, 2}};
    state.notes = {{5, 5, "here"}, {6, 9, "slow \"part\""}};
    const auto read = view_state_from_json(to_json(state, *model), *model);
    ASSERT_TRUE(read) << to_string(read.errors());
    EXPECT_EQ(*read, state);
}

TEST(ViewStateJson, ReportsAllErrors) {
    const auto model = model_of(view_test::pipeline_trace());
    Json json = to_json({}, *model);
    json["end_ps"] = -5;
    json["bubles"] = true;
    json["options"]["time_format"] = "fortnights";
    const auto read = view_state_from_json(json, *model, "/view");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.errors().size(), 3U) << to_string(read.errors());
    EXPECT_NE(to_string(read.errors()).find("/view/options/time_format"), std::string::npos);
}

TEST(ViewStateJson, RefusesNumbersThatNoRankHas) {
    const auto model = model_of(view_test::pipeline_trace());
    for (const char* number : {"-1", "4294967296", "18446744073709551615", "0.5", "\"0\""}) {
        Json json = to_json({}, *model);
        json["ranks"].push_back(Json::parse(number));
        EXPECT_FALSE(view_state_from_json(json, *model)) << number;
    }
}

TEST(ViewStateJson, PutsNotesInOrder) {
    const auto model = model_of(view_test::pipeline_trace());
    ViewState state;
    state.notes = {{9, 9, "late"}, {5, 7, "early"}};
    const auto read = view_state_from_json(to_json(state, *model), *model);
    ASSERT_TRUE(read) << to_string(read.errors());
    EXPECT_EQ(read->notes, (std::vector<TimeNote>{{5, 7, "early"}, {9, 9, "late"}}));
}

TEST(ViewStateJson, LeavesOutTracksThatTheTraceLacks) {
    const auto large = model_of(view_test::pipeline_trace(8));
    const auto small = model_of(view_test::pipeline_trace(2));
    ViewState state;
    state.tracks.pinned = {{TrackKind::Rank, 1}, {TrackKind::Rank, 7}};
    const auto read = view_state_from_json(to_json(state, *large), *small);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->tracks.pinned, (std::vector<TrackRef>{{TrackKind::Rank, 1}}));
}

TEST(MemoryCurve, NoPeakVanishesAtAnyZoom) {
    Prng prng(3);
    std::vector<MemorySample> samples;
    SimTime now = 0;
    for (int n = 0; n < 5000; ++n) {
        now += prng.integer(1, 1000);
        samples.push_back({now, {prng.integer(0, 1000), prng.integer(0, 1000)}});
    }
    const MemoryCurve curve(samples);
    for (int n = 0; n < 100; ++n) {
        TimeWindow window;
        window.begin = prng.integer(0, now);
        window.end = window.begin + prng.integer(1000, now);
        window.width = 300;
        std::vector<std::uint32_t> columns(300);
        curve.columns(window, columns);
        std::int64_t most = 0;
        for (std::size_t s = curve.sample_at(window.begin); s <= curve.sample_at(window.end); ++s)
            most = std::max(most, curve.total(s));
        std::int64_t seen = 0;
        for (const std::uint32_t s : columns)
            if (s != MemoryCurve::kNoSample) seen = std::max(seen, curve.total(s));
        ASSERT_EQ(seen, most);
    }
    std::int64_t most = 0;
    for (std::size_t s = 0; s < samples.size(); ++s)
        most = std::max(most, curve.total(s));
    EXPECT_EQ(curve.peak().bytes, most);
}

// A run records its first sample when its first forward is done: before, nothing is known.
TEST(MemoryCurve, BeginsEmpty) {
    const std::vector<MemorySample> samples = {{500, {7}}, {900, {3}}};
    const MemoryCurve curve(samples);
    std::vector<std::uint32_t> columns(10);
    curve.columns({0, 1000, 10}, columns);
    EXPECT_EQ(columns[0], MemoryCurve::kNoSample);
    EXPECT_EQ(columns[3], MemoryCurve::kNoSample);
    EXPECT_EQ(columns[6], 0U);
    EXPECT_EQ(columns[8], 0U);  // the larger of both that the column shows
    EXPECT_EQ(columns[9], 1U);
    EXPECT_FALSE(curve.begun(499));
    EXPECT_TRUE(curve.begun(500));
    EXPECT_EQ(category_title("master_weights"), "master weights");
}

TEST(MemoryCurve, ExplainsThePeak) {
    Trace trace = view_test::pipeline_trace(2, 2, 1);
    trace.memory_categories = {"parameters", "activations"};
    trace.memory_capacity_bytes = std::int64_t{4} << 30;
    trace.ranks[0].memory = {
        {0, {1LL << 30, 0}}, {5'000'000'000, {1LL << 30, 2LL << 30}}, {9'000'000'000, {1LL << 30, 0}}};
    const auto model = model_of(std::move(trace));
    const MemoryCurve curve(model->memory(0));
    const auto lines = explain_peak(*model, 0, curve.peak());
    EXPECT_EQ(lines,
              (std::vector<std::string>{"PP00 peaks at 3.00 GiB at 5.0000 ms",
                                        "activations 2.00 GiB (66.7 %)", "parameters 1.00 GiB (33.3 %)",
                                        "during F mb0 s0", "1.00 GiB below the capacity of 4.00 GiB"}));
}

TEST(TimeText, WritesOneUnitForAllTicks) {
    const auto model = model_of(view_test::pipeline_trace(2, 2, 2));
    const TimeWindow window{0, 10'000'000'000, 1000};
    const auto ticks = time_ticks(*model, window, TimeFormat::Automatic);
    ASSERT_GE(ticks.size(), 5U);
    for (std::size_t n = 1; n < ticks.size(); ++n)
        EXPECT_GE(ticks[n].x - ticks[n - 1].x, 89);
    EXPECT_EQ(ticks[1].label, "1 ms");
    EXPECT_EQ(instant_text(*model, 1'234'567'890, TimeFormat::Automatic, window), "1.23 ms");
    EXPECT_EQ(instant_text(*model, 1'234'567'890, TimeFormat::InMicroseconds, window), "1235 µs");
    EXPECT_EQ(instant_text(*model, -1, TimeFormat::InSeconds, window), "0.00000 s");
    const SimTime second_step = model->step_ends()[0] + 1'000'000'000;
    EXPECT_EQ(instant_text(*model, second_step, TimeFormat::OfStep, window), "step 1 + 1.00 ms");
    EXPECT_EQ(instant_text(*model, model->end(), TimeFormat::ShareOfTrace, window).substr(0, 5), "100.0");
    TimeFormat format = TimeFormat::Automatic;
    for (int n = 0; n < 7; ++n)
        format = next_format(format);
    EXPECT_EQ(format, TimeFormat::Automatic);
}

TEST(TraceDifference, JoinsTheSameInstructions) {
    Trace slow = view_test::pipeline_trace(3, 4, 2);
    for (RankTrace& rank : slow.ranks)
        for (TraceEvent& e : rank.events)
            if (e.instruction.opcode == Opcode::Forward) e.end -= (e.end - e.start) / 2;
    const auto first = model_of(view_test::pipeline_trace(3, 4, 2));
    const auto second = model_of(std::move(slow));
    const TraceDifference d = difference(*first, *second);
    ASSERT_EQ(d.first.size(), first->size());
    for (TaskId t = 0; t < first->size(); ++t) {
        ASSERT_NE(d.partner_of_first[t], kNoTask);
        EXPECT_EQ(d.partner_of_second[d.partner_of_first[t]], t);
        EXPECT_FLOAT_EQ(d.first[t], first->kind(t) == TaskKind::Forward ? 1.0F : 0.0F);
    }
    const TraceDifference shifted = difference(*first, *second, 1);
    std::size_t joined = 0;
    for (const TaskId partner : shifted.partner_of_first)
        joined += partner != kNoTask ? 1U : 0U;
    EXPECT_EQ(joined, first->size() / 2);
    EXPECT_TRUE(std::isnan(shifted.first[first->task_of(
        {0, static_cast<std::uint32_t>(first->source()->ranks[0].events.size() - 1)})]));
}

}  // namespace
}  // namespace tw

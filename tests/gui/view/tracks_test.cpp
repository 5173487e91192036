#include <gtest/gtest.h>

#include "gui/view/fuzzy.hpp"
#include "gui/view/track_layout.hpp"
#include "tests/gui/view/view_fixtures.hpp"

namespace tw {
namespace {

using view_test::model_of;

TEST(TrackLayout, RowsLieBelowEachOther) {
    Prng prng(4);
    const auto model = model_of(view_test::random_trace(1, 12, 10, true));
    for (int n = 0; n < 200; ++n) {
        TrackState state;
        for (std::uint32_t r = 0; r < 12; ++r) {
            if (prng.uniform() < 0.3) state.collapsed.insert({TrackKind::Rank, r});
            if (prng.uniform() < 0.2) state.hidden.insert({TrackKind::Rank, r});
            if (prng.uniform() < 0.1) state.pinned.push_back({TrackKind::Rank, r});
        }
        if (prng.uniform() < 0.2) state.collapsed.insert({TrackKind::Node, 0});
        if (prng.uniform() < 0.3) state.filter = prng.uniform() < 0.5 ? "p2p" : "R1";
        const TrackLayout layout = lay_out(*model, state);
        double y = 0;
        for (std::size_t i = 0; i < layout.rows.size(); ++i) {
            const TrackRow& row = layout.rows[i];
            ASSERT_GE(row.y, y);
            y = row.bottom();
            ASSERT_EQ(layout.row_at(row.y), i);
            ASSERT_EQ(layout.row_at(row.y + row.height / 2), i);
            ASSERT_EQ(layout.row_of(row.track), i);
            ASSERT_FALSE(state.hidden.contains(row.track));
        }
        ASSERT_GE(layout.height, y);
        EXPECT_EQ(layout.row_at(layout.height + 1), layout.rows.size());
        EXPECT_EQ(layout.row_at(-1), layout.rows.size());
        EXPECT_EQ(layout.pinned.size(), state.pinned.size());
    }
}

TEST(TrackLayout, EveryLaneHasARowUnlessFolded) {
    const auto model = model_of(view_test::pipeline_trace());
    const TrackLayout open = lay_out(*model, {});
    for (std::uint32_t l = 0; l < model->lanes().size(); ++l)
        EXPECT_LT(open.row_of_lane(l), open.rows.size());
    TrackState folded;
    folded.collapsed.insert({TrackKind::Rank, 0});
    const TrackLayout layout = lay_out(*model, folded);
    EXPECT_LT(layout.row_of_lane(0), layout.rows.size());
    EXPECT_EQ(layout.row_of_lane(1), layout.rows.size());
    folded.collapsed.insert({TrackKind::Node, 0});
    EXPECT_EQ(lay_out(*model, folded).row_of_lane(0), lay_out(*model, folded).rows.size());
    EXPECT_LT(lay_out(*model, folded).row_of({TrackKind::Node, 0}), lay_out(*model, folded).rows.size());
}

TEST(TrackLayout, FiltersByTextAndByRegularExpression) {
    const auto model = model_of(view_test::pipeline_trace());
    TrackState state;
    state.filter = "pp02";
    TrackLayout layout = lay_out(*model, state);
    EXPECT_EQ(layout.row_of({TrackKind::Rank, 1}), layout.rows.size());
    EXPECT_LT(layout.row_of({TrackKind::Rank, 2}), layout.rows.size());
    EXPECT_EQ(layout.row_of({TrackKind::Node, 0}), layout.rows.size());
    state.filter = "PP0[13]$";
    state.regex = true;
    layout = lay_out(*model, state);
    EXPECT_LT(layout.row_of({TrackKind::Rank, 1}), layout.rows.size());
    EXPECT_EQ(layout.row_of({TrackKind::Rank, 2}), layout.rows.size());
    state.filter = "PP0[";
    EXPECT_FALSE(check_filter(state));
    EXPECT_EQ(check_filter(state).error().context, "PP0[");
    EXPECT_EQ(lay_out(*model, state).rows.size(), lay_out(*model, {}).rows.size());
}

TEST(TrackLayout, OpensAsMuchAsThereIsRoomFor) {
    const auto model = model_of(view_test::random_trace(1, 40, 3));
    EXPECT_TRUE(default_tracks(*model, 500).collapsed.empty());
    EXPECT_LE(lay_out(*model, default_tracks(*model, 60)).rows.size(), 60U);
    EXPECT_LE(lay_out(*model, default_tracks(*model, 5)).rows.size(), 5U);
}

TEST(TrackLayout, ShowsAGroupOfRanks) {
    const auto model = model_of(view_test::pipeline_trace());
    TrackState state;
    state.ranks = {1, 3};
    const TrackLayout layout = lay_out(*model, state);
    EXPECT_EQ(layout.row_of({TrackKind::Rank, 0}), layout.rows.size());
    EXPECT_LT(layout.row_of({TrackKind::Rank, 3}), layout.rows.size());
}

TEST(Fuzzy, FindsLettersInOrder) {
    EXPECT_TRUE(fuzzy_score("p3", "node0/PP03/compute"));
    EXPECT_FALSE(fuzzy_score("3p", "PP03"));
    EXPECT_GT(*fuzzy_score("pp03", "node0/PP03"), *fuzzy_score("pp03", "node0/PP13/dp 0p3"));
    EXPECT_EQ(fuzzy_score("", "anything"), 0);
    EXPECT_TRUE(fuzzy_score("n1 dp", "node1/PP02/dp 1"));
}

TEST(Fuzzy, FindsTracksByAFewLetters) {
    const auto model = model_of(view_test::pipeline_trace());
    const auto found = find_tracks(*model, "pp2");
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found.front().track, (TrackRef{TrackKind::Rank, 2}));
    EXPECT_EQ(find_tracks(*model, "").front().track, (TrackRef{TrackKind::Node, 0}));
    EXPECT_TRUE(find_tracks(*model, "zzz").empty());
}

}  // namespace
}  // namespace tw

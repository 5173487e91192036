#include <gtest/gtest.h>

#include "gui/view/range_sums.hpp"
#include "gui/view/task_search.hpp"
#include "tests/gui/view/view_fixtures.hpp"

namespace tw {
namespace {

using view_test::model_of;

TEST(RangeSums, AreThoseOfTheClippedTasks) {
    const auto model = model_of(view_test::random_trace(2, 3, 1000));
    Prng prng(12);
    for (int n = 0; n < 200; ++n) {
        RangeSelection range;
        range.begin = prng.integer(0, model->end());
        range.end = range.begin + prng.integer(1, model->end() / 3);
        for (std::uint32_t l = 0; l < model->lanes().size(); ++l)
            if (prng.uniform() < 0.5) range.lanes.push_back(l);
        SimTime total = 0;
        std::int64_t count = 0;
        SimTime longest = 0;
        for (const std::uint32_t l : range.lanes) {
            for (TaskId t = model->lanes()[l].begin; t < model->lanes()[l].end; ++t) {
                const SimTime inside =
                    std::min(model->finish(t), range.end) - std::max(model->start(t), range.begin);
                const bool instant =
                    model->duration(t) == 0 && model->start(t) >= range.begin && model->start(t) < range.end;
                if (inside <= 0 && !instant) continue;
                total += inside;
                longest = std::max(longest, inside);
                ++count;
            }
        }
        const RangeSums sums = sum_range(*model, range);
        ASSERT_EQ(sums.all.total, total);
        ASSERT_EQ(sums.all.count, count);
        ASSERT_EQ(sums.all.longest, longest);
        ASSERT_EQ(sums.idle + total, (range.end - range.begin) * static_cast<SimTime>(range.lanes.size()));
        SimTime by_kind = 0;
        for (const RangeRow& row : sums.rows)
            by_kind += row.total;
        ASSERT_EQ(by_kind, total);
    }
}

TEST(RangeSums, TsvHasPlainNumbers) {
    const auto model = model_of(view_test::pipeline_trace(2, 2, 1));
    RangeSelection range{0, 10'000'000'000, {0}};
    EXPECT_EQ(range_tsv(sum_range(*model, range)),
              "kind\tsum_s\tshare\tcount\tmean_s\tmax_s\nforward\t0.01\t1\t1\t0.01\t0.01\nall\t0.01\t1\t1\t0."
              "01\t0.01\n");
    EXPECT_NE(range_table(sum_range(*model, range)).render().find("100.0 %"), std::string::npos);
}

std::vector<std::string> search(const std::shared_ptr<const TraceModel>& model, std::string_view text) {
    const auto query = parse_query(text);
    EXPECT_TRUE(query);
    TaskSearch search(model, *query);
    while (!search.step(7)) {
    }
    std::vector<std::string> names;
    for (const TaskId task : search.matches())
        names.push_back(model->name(task));
    return names;
}

TEST(TaskSearch, FindsByNameAndProperty) {
    const auto model = model_of(view_test::pipeline_trace(2, 3, 1));
    EXPECT_EQ(search(model, "f MB1"), (std::vector<std::string>{"F mb1 s0", "F mb1 s1"}));
    EXPECT_EQ(search(model, "mb:1 kind:forward").size(), 2U);
    EXPECT_EQ(search(model, "mb:0-2 kind:backward rank:1").size(), 3U);
    EXPECT_EQ(search(model, "kind:backward >19ms stage:0").size(), 3U);
    EXPECT_EQ(search(model, "kind:backward >20ms").size(), 0U);
    EXPECT_EQ(search(model, "kind:backward <20.1ms").size(), 6U);
    EXPECT_EQ(search(model, "lane:compute step:0").size(), 14U);
    EXPECT_EQ(search(model, "nothing like it").size(), 0U);
}

TEST(TaskSearch, NamesWhatItDoesNotKnow) {
    const auto query = parse_query("kind:nonsense mb:x");
    ASSERT_FALSE(query);
    EXPECT_EQ(query.errors().size(), 2U);
    EXPECT_NE(query.errors()[0].hint.find("pipeline transfer"), std::string::npos);
    EXPECT_EQ(query.errors()[1].hint, "mb:3 or mb:2-5");
}

TEST(TaskSearch, StepsAroundTheEnds) {
    const auto model = model_of(view_test::pipeline_trace(2, 3, 1));
    TaskSearch search(model, *parse_query("kind:forward"));
    while (!search.step(1000)) {
    }
    const auto& matches = search.matches();
    ASSERT_EQ(matches.size(), 6U);
    EXPECT_EQ(search.after(kNoTask, 0), 0U);
    EXPECT_EQ(search.after(matches[0], 0), 1U);
    EXPECT_EQ(search.after(matches[5], 0), 0U);
    EXPECT_EQ(search.before(matches[0], 0), 5U);
    EXPECT_EQ(search.before(matches[3], 0), 2U);
    EXPECT_EQ(search.before(kNoTask, model->end()), 5U);
}

}  // namespace
}  // namespace tw

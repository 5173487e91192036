// Terminal and SVG drawings.
#include <sstream>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <gtest/gtest.h>

#include "base/text_style.hpp"
#include "plan/trace/ascii_timeline.hpp"
#include "plan/trace/svg_timeline.hpp"
#include "plan/trace/time_axis.hpp"
#include "tests/plan/trace/hand_traces.hpp"

namespace tw {
namespace {

using boost::property_tree::ptree;

// Throws where the text is not well-formed.
ptree parse_xml(const std::string& text) {
    std::istringstream in(text);
    ptree tree;
    boost::property_tree::read_xml(in, tree);
    return tree;
}

void count_elements(const ptree& tree, std::string_view name, int& count) {
    for (const auto& [key, child] : tree) {
        if (key == name) ++count;
        count_elements(child, name, count);
    }
}

int elements(const std::string& svg, std::string_view name) {
    int count = 0;
    count_elements(parse_xml(svg), name, count);
    return count;
}

TEST(TimeAxis, TicksAreNiceAndInOneUnit) {
    const TimeAxis axis = make_time_axis(0, 73'200'000'000, 12);
    EXPECT_EQ(axis.unit, "ms");
    EXPECT_EQ(axis.tick, 10'000'000'000);
    EXPECT_EQ(axis.ticks.size(), 8U);
    EXPECT_EQ(axis.label(axis.ticks[3]), "30");
    EXPECT_EQ(make_time_axis(0, 1'000'000'000'000, 6).label(200'000'000'000), "0.2");
    EXPECT_EQ(make_time_axis(17, 17, 5).end, 18);
    for (SimTime end = 1; end < 4'000'000'000'000'000; end = end * 3 + 1) {
        const TimeAxis a = make_time_axis(end / 3, end, 10);
        ASSERT_LE(a.ticks.size(), 10U) << end;
        ASSERT_GE(a.ticks.size(), 1U) << end;
    }
}

TEST(AsciiTimeline, GPipeByHand) {
    AsciiTimelineOptions options;
    options.width = 50;
    const Trace trace = hand::run(hand::gpipe(2, 2), {2, 4}, 1, "GPipe, 2 stages");
    EXPECT_EQ(ascii_timeline(trace, options),
              "GPipe, 2 stages\n"
              "step 18.0 ps · bubble 33.3 % · simulated\n"
              "PP0 │F0──F1──············B0══════B1══════│  33.3 %\n"
              "PP1 │····F0──F1──B0══════B1══════········│  33.3 %\n"
              "     0                   10 ps\n"
              "     F forward   B backward   · idle\n");
}

// Where several passes share a column, forwards have their share of the columns: a third here.
TEST(AsciiTimeline, ShowsForwardsAmongManyMicrobatches) {
    AsciiTimelineOptions options;
    options.width = 100;
    const Trace trace = hand::run(hand::one_f_one_b(1, 256), {1000, 2000}, 1);
    const std::string text = ascii_timeline(trace, options);
    const std::string row =
        text.substr(text.find("PP0"), text.find('\n', text.find("PP0")) - text.find("PP0"));
    const auto forwards = std::count(row.begin(), row.end(), 'F');
    const auto backwards = std::count(row.begin(), row.end(), 'B');
    EXPECT_GT(forwards + backwards, 80) << row;
    EXPECT_NEAR(static_cast<double>(forwards) / static_cast<double>(forwards + backwards), 1.0 / 3, 0.05)
        << row;
}

TEST(AsciiTimeline, FitsTheWidthInEveryForm) {
    const Trace trace = hand::run(hand::one_f_one_b(4, 40), {1000, 2000, 0, 100, 900, 300}, 2);
    for (const int width : {40, 80, 100, 173}) {
        for (const bool colour : {false, true}) {
            AsciiTimelineOptions options;
            options.width = width;
            options.colour = colour;
            options.unicode = colour;
            std::istringstream lines(ascii_timeline(trace, options));
            int rows = 0;
            for (std::string line; std::getline(lines, line);) {
                if (!line.starts_with("PP")) continue;
                ++rows;
                EXPECT_EQ(display_width(line), static_cast<std::size_t>(width));
            }
            EXPECT_EQ(rows, 4);
        }
    }
    AsciiTimelineOptions plain;
    plain.unicode = false;
    for (const char c : ascii_timeline(trace, plain))
        EXPECT_LT(static_cast<unsigned char>(c), 128);
    plain.max_ranks = 2;
    EXPECT_NE(ascii_timeline(trace, plain).find("2 of 4 ranks"), std::string::npos);
    EXPECT_FALSE(ascii_timeline(Trace{}).empty());
}

TEST(Svg, IsWellFormedAndShowsEveryEvent) {
    Trace trace = hand::run(hand::one_f_one_b(4, 8), {1000, 2000, 0, 150, 900, 300}, 2, "a <b> & \"c\"");
    hand::add_memory(trace, 1 << 30, 1 << 29, std::int64_t{16} << 30);
    SvgOptions options;
    options.memory = true;
    const std::string svg = render_svg(trace, options);
    std::size_t events = 0;
    for (const RankTrace& rank : trace.ranks) {
        for (const TraceEvent& e : rank.events)
            events += e.end > e.start ? 1 : 0;
    }
    // One tooltip an event that takes time, and the document's own title.
    EXPECT_EQ(elements(svg, "title"), static_cast<int>(events) + 1);
    EXPECT_EQ(elements(svg, "path"), 4 * 3);  // three categories a rank
    EXPECT_EQ(elements(svg, "circle"), 4);    // the peaks
    EXPECT_NE(svg.find("a &lt;b&gt; &amp; &quot;c&quot;"), std::string::npos);
    EXPECT_EQ(svg, render_svg(trace, options));
    options.critical_path = true;
    EXPECT_GT(elements(render_svg(trace, options), "line"), elements(svg, "line"));
    EXPECT_NO_THROW(parse_xml(render_svg(Trace{}, options)));
}

TEST(Svg, MergesTinyEventsWithTheirNumber) {
    Trace trace;
    trace.ranks.resize(1);
    for (int k = 0; k < 100'000; ++k) {
        trace.ranks[0].events.push_back(
            hand::event(hand::compute(Opcode::Forward, 0, k), 10 * k, 10 * k + 9));
    }
    const std::string svg = render_svg(trace);
    EXPECT_LT(svg.size(), 400'000U);
    std::int64_t told = 0;
    for (std::size_t at = 0; (at = svg.find("<title>", at)) != std::string::npos; ++at) {
        const std::string text = svg.substr(at + 7, svg.find('<', at + 7) - at - 7);
        if (text.find(" events, forward") != std::string::npos) told += std::stoll(text);
        if (text.starts_with("F mb")) ++told;
    }
    EXPECT_EQ(told, 100'000);
}

TEST(Svg, SixteenRanksOfFourHundredEventsStaySmall) {
    Trace trace = hand::run(hand::one_f_one_b(16, 200), {1'000'000, 2'000'000, 0, 50'000, 900, 300});
    hand::add_memory(trace, 1 << 30, 1 << 29, std::int64_t{160} << 30);
    SvgOptions options;
    options.memory = true;
    options.critical_path = true;
    EXPECT_LT(render_svg(trace, options).size(), 2'000'000U);
}

}  // namespace
}  // namespace tw

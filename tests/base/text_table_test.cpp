#include "base/text_table.hpp"

#include <cstdlib>

#include <gtest/gtest.h>

namespace tw {
namespace {

TextTable sample() {
    TextTable table({"name", "time", "note"});
    table.add_row({"größe", "12.1 ms", "a, \"b\""});
    table.add_row({"x", "9 s", "c|d"});
    return table;
}

TEST(TextTable, AlignsByColumnsNotBytes) {
    EXPECT_EQ(sample().render(),
              "name      time  note\n"
              "─────  ───────  ──────\n"
              "größe  12.1 ms  a, \"b\"\n"
              "x          9 s  c|d\n");
}

TEST(TextTable, Markdown) {
    EXPECT_EQ(sample().render(TableFormat::Markdown),
              "| name | time | note |\n"
              "|---|---:|---|\n"
              "| größe | 12.1 ms | a, \"b\" |\n"
              "| x | 9 s | c\\|d |\n");
}

TEST(TextTable, CsvQuotesAndTsvDoesNot) {
    EXPECT_EQ(sample().render(TableFormat::Csv),
              "name,time,note\ngröße,12.1 ms,\"a, \"\"b\"\"\"\nx,9 s,c|d\n");
    EXPECT_EQ(sample().render(TableFormat::Tsv), "name\ttime\tnote\ngröße\t12.1 ms\ta, \"b\"\nx\t9 s\tc|d\n");
}

TEST(TextTable, ColourDoesNotMoveColumns) {
    TextTable table({"a", "b"});
    table.add_row({TableCell("red", TextStyle::Red), "1"});
    table.add_row({"plain", "2"});
    const std::string plain = table.render();
    std::string coloured = table.render(TableFormat::Terminal, true);
    EXPECT_NE(coloured, plain);
    for (std::size_t at; (at = coloured.find('\x1b')) != std::string::npos;) {
        coloured.erase(at, coloured.find('m', at) - at + 1);
    }
    EXPECT_EQ(coloured, plain);
}

TEST(TextStyle, PrintableEscapesWhatATerminalWouldObey) {
    EXPECT_EQ(printable("µ─█ 日本 😀\tline\n"), "µ─█ 日本 😀\tline\n");
    EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
    EXPECT_EQ(printable("\x1b[31mred\x1b[0m"), "\\x1b[31mred\\x1b[0m");
    EXPECT_EQ(printable("\x1b[31mred\x1b[0m", true), "\x1b[31mred\x1b[0m");
    EXPECT_EQ(printable("\x1b[2J\x1b]0;title\x07\r", true), "\\x1b[2J\\x1b]0;title\\x07\\x0d");
    EXPECT_EQ(printable("\xff\xfe caf\xe9"), "\\xff\\xfe caf\\xe9");
    EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");                    // a C1 control
    EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
    EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
    EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
    EXPECT_EQ(printable("\xe2\x94"), "\\xe2\\x94");                    // cut
}

TEST(TextStyle, WidthOfTextAndColourChoice) {
    EXPECT_EQ(display_width("abc"), 3U);
    EXPECT_EQ(display_width("µ─█"), 3U);
    EXPECT_EQ(display_width("\x1b[31mred\x1b[0m"), 3U);
    EXPECT_EQ(display_width("日本"), 4U);
    EXPECT_EQ(display_width("e\u0301"), 1U);
    EXPECT_EQ(pad_left("é", 3), "  é");
    EXPECT_TRUE(colour_enabled(ColourMode::Always, 1));
    EXPECT_FALSE(colour_enabled(ColourMode::Never, 1));
    setenv("NO_COLOR", "1", 1);
    EXPECT_FALSE(colour_enabled(ColourMode::Auto, 1));
    unsetenv("NO_COLOR");
}

}  // namespace
}  // namespace tw

// Wrapped text, help and the commands' own descriptions.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "cli/commands.hpp"
#include "cli/common/help.hpp"
#include "cli/common/shells.hpp"
#include "cli/common/wrap.hpp"

namespace tw::cli {
namespace {

TEST(Wrap, BreaksBetweenWords) {
    EXPECT_EQ(wrapped_lines("one two three", 7), (std::vector<std::string>{"one two", "three"}));
    EXPECT_EQ(wrapped_lines("incomprehensible it is", 5),
              (std::vector<std::string>{"incomprehensible", "it is"}));
    EXPECT_EQ(wrapped_lines("", 5), std::vector<std::string>{""});
    EXPECT_EQ(wrap("± µ · ─ x", 5, 2), "± µ ·\n  ─ x");  // columns, not bytes
}

TEST(Wrap, RowsOfATableStayTogether) {
    TextTable table({"a", "b"});
    add_wrapped_row(table, {"x", "one two three"}, {0, 7});
    EXPECT_EQ(table.rows(), 2U);
    EXPECT_EQ(table.render(TableFormat::Csv), "a,b\nx,one two\n,three\n");
}

TEST(Commands, AllDescribeThemselves) {
    std::set<std::string> names;
    for (const auto& command : make_commands()) {
        EXPECT_TRUE(names.insert(command->name()).second) << command->name();
        EXPECT_FALSE(command->summary().empty());
        EXPECT_FALSE(command->summary().ends_with('.')) << command->summary();
        ASSERT_FALSE(command->examples().empty()) << command->name();
        for (const Example& example : command->examples())
            EXPECT_TRUE(example.line.starts_with(command->name())) << example.line;
        std::set<std::string> options;
        for (const OptionSpec& option : command->options()) {
            EXPECT_TRUE(options.insert(option.name).second) << option.name;
            EXPECT_FALSE(option.help.empty()) << option.name;
            EXPECT_TRUE(option.positional || option.name.find("--") != std::string::npos) << option.name;
            EXPECT_EQ(option.flag == nullptr, static_cast<bool>(option.assign)) << option.name;
        }
    }
}

TEST(Help, FitsIntoAHundredColumnsAndNamesEveryOption) {
    const Commands commands = make_commands();
    const auto narrow = [](const std::string& text) {
        std::size_t begin = 0;
        while (begin < text.size()) {
            const std::size_t end = std::min(text.find('\n', begin), text.size());
            const std::string line = text.substr(begin, end - begin);
            if (!line.starts_with("  trainwright ")) {
                EXPECT_LE(display_width(line), 100U) << line;
            }
            begin = end + 1;
        }
    };
    narrow(program_help(commands, false));
    for (const auto& command : commands) {
        const std::string help = command_help(*command, false);
        narrow(help);
        for (const OptionSpec& option : command->options())
            EXPECT_NE(help.find(option.long_name()), std::string::npos)
                << command->name() << " " << option.name;
    }
}

// Every value that is a path completes to files: folders, traces and plans too.
TEST(Completion, PathsAreFiles) {
    const Commands commands = make_commands();
    const std::string zsh = zsh_completion(commands), fish = fish_completion(commands);
    for (const char* path : {":PREDICTED:_files'", ":MEASURED:_files'", ":FOLDER:_files'", ":PATH:_files'",
                             ":OTHER:_files'", ":FILE:_files'", ":PLAN:_files'"})
        EXPECT_NE(zsh.find(path), std::string::npos) << path;
    for (const char* option :
         {" -l resume -r", " -l weights -r", " -l checkpoint -r", " -l cluster -r", " -l steps -x"})
        EXPECT_NE(fish.find(option), std::string::npos) << option;
}

TEST(Completion, KnowsEveryCommandAndOption) {
    const Commands commands = make_commands();
    for (const std::string& script :
         {bash_completion(commands), zsh_completion(commands), fish_completion(commands)}) {
        for (const auto& command : commands) {
            EXPECT_NE(script.find(command->name()), std::string::npos);
            for (const OptionSpec& option : command->options()) {
                if (option.positional) continue;
                EXPECT_NE(script.find(option.long_name().substr(2)), std::string::npos) << option.name;
            }
        }
        EXPECT_NE(script.find("llama3-70b"), std::string::npos);
        EXPECT_NE(script.find("zb-h1"), std::string::npos);
    }
}

}  // namespace
}  // namespace tw::cli

#include "cli/common/man_page.hpp"

#include <gtest/gtest.h>

#include "cli/commands.hpp"

namespace tw::cli {
namespace {

TEST(ManPage, SaysWhatTheHelpSays) {
    for (const auto& command : make_commands()) {
        const std::string page = command_man_page(*command, "1.2.3");
        EXPECT_EQ(page.rfind(".TH TRAINWRIGHT\\-", 0), 0U) << command->name();
        EXPECT_NE(page.find("1.2.3"), std::string::npos);
        for (const char* section : {".SH NAME\n", ".SH SYNOPSIS\n", ".SH OPTIONS\n"})
            EXPECT_NE(page.find(section), std::string::npos) << command->name() << section;
        for (const OptionSpec& option : command->options()) {
            std::string name = option.positional ? option.name : option.long_name();
            for (std::size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2)
                name.insert(at, "\\");
            EXPECT_NE(page.find(name), std::string::npos) << command->name() << " " << name;
        }
    }
}

// No line of text may be taken for a request.
TEST(ManPage, RequestsAreTroffsOwn) {
    Command command("show", "Show it");
    bool flag = false;
    command.flag("--all", flag, ".TH is no request, nor is \\fB an escape");
    const std::string page = command_man_page(command, "1");
    EXPECT_NE(page.find("\n\\&.TH is no request, nor is \\efB an escape\n"), std::string::npos) << page;
}

TEST(ManPage, TheProgramsNamesTheOthers) {
    const Commands commands = make_commands();
    const std::string page = program_man_page(commands, "1");
    for (const auto& command : commands)
        EXPECT_NE(page.find(".BR trainwright\\-" + command->name() + " (1)"), std::string::npos);
}

}  // namespace
}  // namespace tw::cli

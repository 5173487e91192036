// How words become a command: values, flags, and every way in which they can be wrong.
#include "cli/common/parse.hpp"

#include <gtest/gtest.h>

namespace tw::cli {
namespace {

struct Options {
    std::string name, kind = "small", file, picture;
    std::vector<std::string> more;
    int count = 1;
    std::int64_t large = 0;
    double share = 0, seconds = 0;
    bool loud = false, list = false;
    int legs = 0;
};

class ParseTest : public testing::Test {
  protected:
    ParseTest() {
        commands_.push_back(std::make_unique<Command>("make", "Make something"));
        options_ = &commands_.back()->keep<Options>();
        Command& make = *commands_.back();
        make.positional("NAME", options_->name, "what to make");
        make.positionals("MORE", options_->more, "and what else", Need::Optional);
        make.integer("-c,--count", options_->count, 1, 10, "N", "how many", Need::Required);
        make.integer("--large", options_->large, 0, std::int64_t{1} << 40, "N", "a large number");
        make.number("--share", options_->share, 0, 1, "X", "a share");
        make.duration("--within", options_->seconds, "a time limit");
        make.word("--kind", options_->kind, {"small", "large"}, "of what kind");
        make.output("-o,--output", options_->file, "where to");
        make.output("--svg", options_->picture, "where its picture goes to");
        make.flag("--loud", options_->loud, "noisily");
        make.answer("--list", options_->list, "what was made");
        make.integer("--legs", options_->legs, 0, 8, "N", "of a chair");
        make.needs("--legs", "--kind", "large");
        make.needs("--within", "--share");
        make.run([](Console&) { return 0; });
        commands_.push_back(std::make_unique<Command>("unmake", "Undo it"));
        commands_.back()->run([](Console&) { return 0; });
    }

    Invocation parse(std::vector<std::string> words) { return parse_command_line(commands_, words); }
    std::string errors(std::vector<std::string> words) {
        const Invocation invocation = parse(std::move(words));
        for (const Error& error : invocation.errors)
            EXPECT_EQ(error.code, ErrorCode::Usage);
        return to_string(invocation.errors);
    }

    Commands commands_;
    Options* options_ = nullptr;
};

TEST_F(ParseTest, OneDocumentOnStdout) {
    const auto said = [this](std::vector<std::string> words) {
        options_->file.clear();  // what the call before left
        options_->picture.clear();
        return errors(std::move(words));
    };
    const std::string hint = " all write to stdout (hint: one of them; an output may go to a file)";
    EXPECT_EQ(said({"make", "chair", "-c", "3", "-o", "-", "--svg", "chair.svg"}), "");
    EXPECT_EQ(said({"make", "chair", "-c", "3", "-o", "chair.json", "--json"}), "");
    EXPECT_EQ(said({"make", "chair", "-c", "3", "-o", "-", "--svg", "-"}),
              "make: --output -, --svg -" + hint);
    EXPECT_EQ(said({"make", "chair", "-c", "3", "--svg", "-", "--json"}), "make: --svg -, --json" + hint);
    EXPECT_EQ(said({"--json", "make", "chair", "-c", "3", "-o", "-"}), "make: --output -, --json" + hint);
    EXPECT_EQ(said({"make", "chair", "-c", "3", "--svg", ""}),
              "--svg: names no file (hint: a path, or - for stdout)");
}

TEST_F(ParseTest, AnswersExcludeEachOther) {
    EXPECT_EQ(errors({"make", "chair", "-c", "3", "--list"}), "");
    options_->list = false;
    EXPECT_EQ(errors({"make", "chair", "-c", "3", "--list", "--json"}),
              "make: --list, --json all write to stdout (hint: one of them; an output may go to a file)");
}

TEST_F(ParseTest, WhatDoesNothingIsRefused) {
    EXPECT_EQ(errors({"make", "chair", "-c", "3", "--legs", "4", "--kind", "large"}), "");
    EXPECT_EQ(errors({"make", "chair", "-c", "3", "--legs", "4", "--kind", "small"}),
              "--legs: does nothing without --kind large (hint: add --kind large, or leave --legs out)");
}

TEST_F(ParseTest, AnOptionMayNeedAnother) {
    EXPECT_EQ(errors({"make", "chair", "-c", "3", "--within", "1s"}),
              "--within: does nothing without --share (hint: add --share, or leave --within out)");
}

TEST_F(ParseTest, FillsEveryKindOfValue) {
    const Invocation invocation =
        parse({"make", "chair", "table", "-c", "3", "--large=1099511627776", "--share", "0.25", "--within",
               "1.5min", "--kind", "large", "-o", "-", "--loud", "lamp"});
    ASSERT_TRUE(invocation.errors.empty()) << to_string(invocation.errors);
    ASSERT_NE(invocation.command, nullptr);
    EXPECT_EQ(invocation.command->name(), "make");
    EXPECT_EQ(options_->name, "chair");
    EXPECT_EQ(options_->more, (std::vector<std::string>{"table", "lamp"}));
    EXPECT_EQ(options_->count, 3);
    EXPECT_EQ(options_->large, std::int64_t{1} << 40);
    EXPECT_EQ(options_->share, 0.25);
    EXPECT_EQ(options_->seconds, 90);
    EXPECT_EQ(options_->kind, "large");
    EXPECT_EQ(options_->file, "-");
    EXPECT_TRUE(options_->loud);
    EXPECT_TRUE(invocation.command->given("--output"));
    EXPECT_FALSE(invocation.command->given("--json"));
}

TEST_F(ParseTest, CommonFlagsCountBeforeAndAfterTheCommand) {
    EXPECT_TRUE(parse({"--json", "unmake"}).console.json);
    EXPECT_TRUE(parse({"unmake", "--json"}).console.json);
    EXPECT_FALSE(parse({"unmake"}).console.json);
    EXPECT_EQ(parse({"unmake", "--color", "always"}).console.colour, ColourMode::Always);
    EXPECT_EQ(parse({"--color=never", "unmake"}).console.colour, ColourMode::Never);
    EXPECT_NE(errors({"unmake", "--color", "blue"}).find("unknown value 'blue'"), std::string::npos);
}

TEST_F(ParseTest, HelpAsksForNothingElse) {
    const Invocation invocation = parse({"make", "--help"});
    EXPECT_TRUE(invocation.help);
    EXPECT_TRUE(invocation.errors.empty());
    EXPECT_EQ(invocation.command->name(), "make");
    EXPECT_TRUE(parse({"-h"}).help);
    EXPECT_TRUE(parse({"--version"}).version);
}

TEST_F(ParseTest, AllErrorsAtOnce) {
    const std::string text =
        errors({"make", "chair", "-c", "11", "--share", "2", "--within", "soon", "--kind", "lrge"});
    for (const char* part :
         {"--count: '11' is not a whole number from 1 to 10", "--share: '2' is not a number from 0 to 1",
          "--within: 'soon' is not a duration", "--kind: unknown value 'lrge'", "did you mean 'large'?"})
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST_F(ParseTest, NamesWhatIsMissingUnknownOrTwice) {
    EXPECT_NE(errors({"make", "chair"}).find("--count N is missing"), std::string::npos);
    EXPECT_NE(errors({"make", "-c", "1"}).find("NAME is missing"), std::string::npos);
    EXPECT_NE(errors({"make", "chair", "--cuont", "1"}).find("did you mean '--count'?"), std::string::npos);
    EXPECT_EQ(errors({"make", "chair", "--xyzzy", "-c", "1"}).find("did you mean"), std::string::npos);
    EXPECT_NE(errors({"make", "chair", "-c", "1", "-c", "2"}).find("more than once"), std::string::npos);
    EXPECT_NE(errors({"make", "chair", "-c"}).find("needs a value"), std::string::npos);
    EXPECT_NE(errors({"mkae", "chair"}).find("did you mean 'make'?"), std::string::npos);
    EXPECT_NE(errors({"unmake", "all"}).find("unexpected argument 'all'"), std::string::npos);
    EXPECT_NE(errors({"--jsn", "unmake"}).find("unknown option '--jsn'"), std::string::npos);
}

TEST_F(ParseTest, StrangeWordsAreErrorsNotCrashes) {
    for (const std::string word : {"", "-", "--", "---", "-=", "--=x", "\xff\xfe",
                                   "-c=", "--count=", "-99999999999999999999", "NaN"}) {
        (void)parse({word});
        (void)parse({"make", word});
        (void)parse({"make", "chair", "-c", word});
        (void)parse({"make", word, word, word, word});
    }
    EXPECT_EQ(parse({}).command, nullptr);
    EXPECT_NE(errors({"make", "chair", "-c", "99999999999999999999"}).find("whole number"),
              std::string::npos);
    EXPECT_NE(errors({"make", "chair", "-c", "1", "--share", "nan"}).find("--share"), std::string::npos);
}

}  // namespace
}  // namespace tw::cli

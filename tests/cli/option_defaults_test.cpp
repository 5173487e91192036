#include "cli/common/option_defaults.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/common/parse.hpp"

namespace tw::cli {
namespace {

namespace fs = std::filesystem;

// A working directory and a home of the test's own.
class OptionDefaultsTest : public testing::Test {
  protected:
    OptionDefaultsTest()
        : before_(fs::current_path()),
          root_(fs::temp_directory_path() / ("tw_option_defaults_" + std::to_string(getpid()))) {
        fs::create_directories(root_ / "home" / "trainwright");
        fs::create_directories(root_ / "work");
        fs::current_path(root_ / "work");
        setenv("XDG_CONFIG_HOME", (root_ / "home").c_str(), 1);
        commands_.push_back(std::make_unique<Command>("make", "Make something"));
        Command& make = *commands_.back();
        make.positional("NAME", name_, "what to make", Need::Optional);
        make.integer("-j,--jobs", jobs_, 1, 100, "N", "threads");
        make.text("--cluster-size", size_, "S", "of the cluster", Need::Required);
        make.flag("--loud", loud_, "noisily");
        make.run([](Console&) { return 0; });
        commands_.push_back(std::make_unique<Command>("undo", "Undo it"));
        commands_.back()->integer("-j,--jobs", undo_jobs_, 1, 100, "N", "threads");
        commands_.back()->run([](Console&) { return 0; });
    }
    ~OptionDefaultsTest() override {
        unsetenv("TRAINWRIGHT_JOBS");
        unsetenv("TRAINWRIGHT_CONFIG");
        unsetenv("XDG_CONFIG_HOME");
        fs::current_path(before_);
        std::error_code ignored;
        fs::remove_all(root_, ignored);
    }

    void project(const std::string& text) { std::ofstream("trainwright.toml") << text; }
    void own(const std::string& text) { std::ofstream(root_ / "home/trainwright/config.toml") << text; }
    std::string errors(const std::vector<std::string>& words) {
        const Invocation invocation = parse_command_line(commands_, words);
        return invocation.errors.empty() ? "" : to_string(invocation.errors);
    }

    fs::path before_, root_;
    Commands commands_;
    std::string name_, size_;
    int jobs_ = 1, undo_jobs_ = 1;
    bool loud_ = false;
};

TEST_F(OptionDefaultsTest, FlagBeforeEnvironmentBeforeProjectBeforeHome) {
    own("jobs = 5\ncluster-size = \"home\"\n");
    EXPECT_EQ(errors({"make"}), "");
    EXPECT_EQ(jobs_, 5);
    EXPECT_EQ(size_, "home");
    project("jobs = 6\n");
    EXPECT_EQ(errors({"make"}), "");
    EXPECT_EQ(jobs_, 6);
    EXPECT_EQ(size_, "home");
    setenv("TRAINWRIGHT_JOBS", "7", 1);
    EXPECT_EQ(errors({"make"}), "");
    EXPECT_EQ(jobs_, 7);
    EXPECT_EQ(errors({"make", "--jobs", "8"}), "");
    EXPECT_EQ(jobs_, 8);
}

TEST_F(OptionDefaultsTest, ATableServesItsCommandAlone) {
    project("jobs = 2\n[make]\njobs = 3\ncluster-size = 64\nloud = true\n");
    EXPECT_EQ(errors({"make"}), "");
    EXPECT_EQ(jobs_, 3);
    EXPECT_EQ(size_, "64");
    EXPECT_TRUE(loud_);
    EXPECT_EQ(errors({"undo"}), "");
    EXPECT_EQ(undo_jobs_, 2);
}

TEST_F(OptionDefaultsTest, WrongValuesNameTheLineOrTheVariable) {
    project("cluster-size = \"s\"\njobs = 1000\n");
    EXPECT_EQ(errors({"make"}).find("--jobs, from trainwright.toml:2: "), 0U) << errors({"make"});
    setenv("TRAINWRIGHT_JOBS", "many", 1);
    EXPECT_EQ(errors({"make"}).find("--jobs, from TRAINWRIGHT_JOBS: "), 0U) << errors({"make"});
}

// A rank is told all as words: neither a broken file nor a variable reaches it.
TEST_F(OptionDefaultsTest, AWorkerHasNone) {
    project("unknown = 1\njobs = 9\n");
    setenv("TRAINWRIGHT_JOBS", "7", 1);
    const Invocation invocation = parse_command_line(commands_, {"undo"}, Defaults::None);
    EXPECT_TRUE(invocation.errors.empty()) << to_string(invocation.errors);
    EXPECT_EQ(undo_jobs_, 1);
}

TEST_F(OptionDefaultsTest, EveryFaultOfAFileIsNamedAtOnce) {
    project("job = 1\n[make]\nclustersize = 2\njobs = [1, 2]\n[mak]\njobs = 1\n");
    const Invocation invocation = parse_command_line(commands_, {"undo"});
    ASSERT_EQ(invocation.errors.size(), 4U) << to_string(invocation.errors);
    const std::string text = to_string(invocation.errors);
    EXPECT_NE(text.find("trainwright.toml:1: unknown key 'job' (hint: did you mean 'jobs'?"),
              std::string::npos);
    EXPECT_NE(text.find("trainwright.toml:3: unknown key 'clustersize'"), std::string::npos);
    EXPECT_NE(text.find("trainwright.toml:4: 'jobs' is neither text nor a number"), std::string::npos);
    EXPECT_NE(text.find("unknown key 'mak' (hint: did you mean 'make'?"), std::string::npos);
    EXPECT_EQ(invocation.errors.front().code, ErrorCode::Unreadable);
}

TEST_F(OptionDefaultsTest, BrokenTomlIsRefusedByLine) {
    project("jobs = 1\ncluster-size = \n");
    EXPECT_EQ(errors({"undo"}).find("trainwright.toml:2: "), 0U) << errors({"undo"});
    setenv("TRAINWRIGHT_CONFIG", "/nowhere/x.toml", 1);
    EXPECT_NE(errors({"undo"}).find("/nowhere/x.toml"), std::string::npos);
}

}  // namespace
}  // namespace tw::cli

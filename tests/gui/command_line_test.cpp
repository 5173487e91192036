// The command line of trainwright-gui: what is not legal is refused by its name, what cannot be read is told.
#include "gui/app/command_line.hpp"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QProcess>
#include <QTemporaryDir>

#include <gtest/gtest.h>

namespace tw::gui {
namespace {

const QString kPlan = TW_SOURCE_DIR "/tests/golden/inputs/tiny.json";

Result<CommandLine> read(const QStringList& words) {
    return read_command_line(QStringList{"trainwright-gui"} + words);
}

TEST(CommandLine, LegalWordsAreRead) {
    const auto line = read({"--screenshot", "d", "--view", "timeline", "--scale", "2", "--size", "800x450",
                            "--theme", "dark", "--run", "3", "plan.json"});
    ASSERT_TRUE(line) << to_string(line.errors());
    EXPECT_EQ(line->wants, CommandLine::Wants::Pictures);
    EXPECT_EQ(line->pictures.folder, "d");
    EXPECT_EQ(line->pictures.only, "timeline");
    EXPECT_EQ(line->pictures.run_steps, 3);
    EXPECT_EQ(line->pictures.files, QStringList{"plan.json"});
    EXPECT_FALSE(line->pictures.search);
    EXPECT_EQ(line->size, QSize(800, 450));
    EXPECT_EQ(line->theme, "dark");
    EXPECT_FALSE(line->setup);
    EXPECT_FALSE(line->goes_on());
    // A model or a cluster alone is something that is asked for too.
    EXPECT_FALSE(read({"--model", "gpt2-tiny"})->goes_on());
    EXPECT_FALSE(read({"--cluster", "cpu:2"})->goes_on());
    EXPECT_TRUE(read({"--theme", "dark"})->goes_on());

    const auto setup = read({"--model", "gpt2-tiny", "--cluster", "cpu:2", "--global-batch", "8", "--seq-len",
                             "64", "--fix", "pp=2"});
    ASSERT_TRUE(setup) << to_string(setup.errors());
    EXPECT_EQ(setup->wants, CommandLine::Wants::Window);
    EXPECT_TRUE(setup->search());
    EXPECT_EQ(setup->setup->global_batch, 8);
    EXPECT_EQ(setup->setup->seq_len, 64);
    EXPECT_EQ(setup->setup->fix, "pp=2");
    EXPECT_FALSE(setup->size);
    EXPECT_EQ(read({"--help"})->wants, CommandLine::Wants::Help);
    EXPECT_EQ(read({"--version"})->wants, CommandLine::Wants::Version);
    EXPECT_EQ(read({"--keys"})->wants, CommandLine::Wants::Keys);
}

TEST(CommandLine, WhatIsNotLegalIsAUsageErrorOfItsOption) {
    const QStringList pictures = {"--screenshot", "d"},
                      study = {"--model", "gpt2-tiny", "--cluster", "cpu:2"};
    const std::pair<QStringList, std::string> cases[] = {
        {pictures + QStringList{"--scale", "0"}, "--scale: '0' is not a number from 0.25 to 8"},
        {pictures + QStringList{"--scale", "-1"}, "--scale: '-1' is not"},
        {pictures + QStringList{"--scale", "nan"}, "--scale: 'nan' is not"},
        {pictures + QStringList{"--scale", "1e9"}, "--scale: '1e9' is not"},
        {pictures + QStringList{"--scale", "abc"}, "--scale: 'abc' is not"},
        {pictures + QStringList{"--scale", "8", "--size", "1600x900"},
         "--scale: 8 times 1600x900 is more than 8192"},
        {pictures + QStringList{"--size", "100000x100000"},
         "--size: '100000x100000' is not WIDTHxHEIGHT, each from 100 to 8192 pixels"},
        {pictures + QStringList{"--size", "0x900"}, "--size: '0x900' is not"},
        {pictures + QStringList{"--size", "wide"}, "--size: 'wide' is not"},
        {pictures + QStringList{"--theme", "pink"}, "--theme: unknown value 'pink'"},
        {pictures + QStringList{"--run", "abc"}, "--run: 'abc' is not a whole number from 1 to 1000000"},
        {pictures + QStringList{"--run", "-1"}, "--run: '-1' is not"},
        {study + QStringList{"--seq-len", "-5"},
         "--seq-len: '-5' is not a whole number from 1 to 1073741824"},
        {study + QStringList{"--global-batch", "0"}, "--global-batch: '0' is not"},
        {study + QStringList{"--fix", "tp=many"}, "--fix: tp: 'many' is not an integer"},
        {{"--model", "gpt9", "--cluster", "cpu:2"}, "--model: unknown model 'gpt9'"},
        {{"--model", "gpt2-tiny", "--cluster", "z900:2"}, "--cluster"},
        {{"--model", "", "--cluster", "cpu:2"}, "--model: is empty"},
        {{"--global-batch", "8"}, "--global-batch: does nothing without --model and --cluster"},
        {{"--view", "timeline"}, "--view: does nothing without --screenshot"},
        {{"--run", "3"}, "--run: does nothing without --screenshot"},
        {{"--screenshot", ""}, "--screenshot: names no folder"},
        {{"--screen"}, "screen"},
    };
    for (const auto& [words, said] : cases) {
        const auto line = read(words);
        ASSERT_FALSE(line) << said;
        EXPECT_EQ(exit_code(line.errors()), 2) << said;
        EXPECT_NE(to_string(line.errors()).find(said), std::string::npos) << to_string(line.errors());
    }
    const auto absent = read({"--model", "none/config.json"});
    ASSERT_FALSE(absent);
    EXPECT_EQ(exit_code(absent.errors()), 5);
}

struct Ended {
    int code = -1;
    QString out, err;
};

// The program itself; its settings go to a folder of their own (gui_test_main.cpp).
Ended run_gui(const QStringList& words,
              const QProcessEnvironment& environment = QProcessEnvironment::systemEnvironment()) {
    QProcess process;
    process.setProcessEnvironment(environment);
    process.start(TW_BINARY_DIR "/bin/trainwright-gui", words);
    if (!process.waitForFinished(120'000)) return {};
    return {process.exitStatus() == QProcess::NormalExit ? process.exitCode() : 139,
            QString::fromUtf8(process.readAllStandardOutput()),
            QString::fromUtf8(process.readAllStandardError())};
}

TEST(GuiProgram, AScaleThatQtDoesNotSurviveIsRefused) {
    const QTemporaryDir folder;
    const QString pictures = folder.filePath("d");
    for (const char* scale : {"0", "-1", "nan", "1e9"}) {
        const Ended ended =
            run_gui({"--screenshot", pictures, "--view", "timeline", "--scale", scale, kPlan});
        EXPECT_EQ(ended.code, 2) << scale << ended.err.toStdString();
        EXPECT_TRUE(ended.err.contains("trainwright-gui: --scale: ")) << ended.err.toStdString();
    }
    EXPECT_FALSE(QDir(pictures).exists());
}

TEST(GuiProgram, RefusedFilesEndWith5AndTheRestIsDrawn) {
    const QTemporaryDir folder;
    QFile twice(folder.filePath("twice.json")), deep(folder.filePath("deep.json")),
        config(folder.filePath("config.json"));
    ASSERT_TRUE(twice.open(QIODevice::WriteOnly) && deep.open(QIODevice::WriteOnly) &&
                config.open(QIODevice::WriteOnly));
    twice.write(R"({"schema": "trainwright/plan", "version": 1, "version": 1})");
    deep.write(R"({"schema": "trainwright/plan", "a": )" + QByteArray(1000, '['));
    config.write(R"({"model_type": "llama", "hidden_size": 64, "hidden_size": 64})");
    config.close();
    twice.close();
    deep.close();
    const std::pair<QString, QString> cases[] = {
        {folder.filePath("none.json"), "does not exist"},
        {twice.fileName(), "duplicate key 'version'"},
        {deep.fileName(), "nested deeper than 64"},
        {config.fileName(), "duplicate key 'hidden_size'"},
        {TW_SOURCE_DIR "/tests/golden/inputs/misspelt-cluster.json", "unknown key 'cuont'"}};
    for (const auto& [file, said] : cases) {
        const Ended ended =
            run_gui({"--screenshot", folder.filePath("d"), "--view", "timeline", kPlan, file});
        EXPECT_EQ(ended.code, 5) << ended.err.toStdString();
        EXPECT_TRUE(ended.err.contains("trainwright-gui: " + QFileInfo(file).fileName() + ": "))
            << ended.err.toStdString();
        EXPECT_TRUE(ended.err.contains(said)) << ended.err.toStdString();
        EXPECT_TRUE(ended.out.contains("timeline.png")) << ended.out.toStdString();
    }
}

TEST(GuiProgram, WithoutADisplayWordsAreStillRead) {
    QProcessEnvironment none = QProcessEnvironment::systemEnvironment();
    for (const char* variable : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"})
        none.remove(variable);
    const Ended wrong = run_gui({"--theme", "pink"}, none);
    EXPECT_EQ(wrong.code, 2) << wrong.err.toStdString();
    EXPECT_TRUE(wrong.err.contains("--theme: unknown value 'pink'")) << wrong.err.toStdString();
    const Ended window = run_gui({kPlan}, none);
    EXPECT_EQ(window.code, 1) << window.err.toStdString();
    EXPECT_TRUE(window.err.contains("there is no display")) << window.err.toStdString();
    EXPECT_EQ(run_gui({"--version"}, none).code, 0);
}

TEST(GuiProgram, AnUnknownViewIsRefused) {
    const QTemporaryDir folder;
    const Ended ended = run_gui({"--screenshot", folder.filePath("d"), "--view", "timelin", kPlan});
    EXPECT_EQ(ended.code, 2);
    EXPECT_TRUE(ended.err.contains("--view: 'timelin' is no view")) << ended.err.toStdString();
    EXPECT_TRUE(ended.err.contains("did you mean 'timeline'?")) << ended.err.toStdString();
}

TEST(GuiProgram, NothingThatFitsEndsWith3) {
    const QTemporaryDir folder;
    const Ended ended =
        run_gui({"--screenshot", folder.filePath("d"), "--view", "plans", "--model", "gpt3-175b", "--cluster",
                 "a100:16", "--global-batch", "16", "--seq-len", "2048"});
    EXPECT_EQ(ended.code, 3) << ended.err.toStdString();
    EXPECT_TRUE(ended.out.contains("plans.png"));
}

}  // namespace
}  // namespace tw::gui

// Files by drop, pictures of every view, closing while work runs.
#include <QDir>
#include <QDirIterator>
#include <QDockWidget>
#include <QDropEvent>
#include <QImage>
#include <QLineEdit>
#include <QMimeData>
#include <QSvgRenderer>
#include <QTemporaryDir>
#include <QUrl>
#include <algorithm>

#include "gui/app/screenshots.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/widgets/panel.hpp"
#include "gui/widgets/run_panel.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "gui/widgets/trace_panels.hpp"
#include "gui/worker/plan_fields.hpp"
#include "models/formats/document.hpp"
#include "models/hardware/profile_document.hpp"
#include "plan/parallel_plan.hpp"
#include "plan/trace/trace.hpp"
#include "sim/report/report.hpp"
#include "tests/gui/window_fixtures.hpp"

namespace tw::gui {
namespace {

QStringList shared_inputs(const QStringList& folders) {
    QStringList files;
    for (const QString& folder : folders) {
        QDirIterator at(QString(TW_SOURCE_DIR "/../shared/inputs/") + folder, QDir::Files,
                        QDirIterator::Subdirectories);
        while (at.hasNext())
            files.append(at.next());
    }
    files.sort();
    return files;
}

// What opening a file adds to: a refused one to the problems.
std::size_t opened_or_refused(const Workbench& workbench) {
    return workbench.problems().size() + workbench.measured().size() + workbench.imported().size() +
           workbench.profiles().size() + workbench.plans().size();
}

void drop(MainWindow& window, const QStringList& files) {
    QMimeData data;
    QList<QUrl> urls;
    for (const QString& file : files)
        urls.append(QUrl::fromLocalFile(file));
    data.setUrls(urls);
    QDragEnterEvent enter({10, 10}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window, &enter);
    EXPECT_TRUE(enter.isAccepted());
    QDropEvent event({10, 10}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window, &event);
}

// Not one colour alone: something was painted.
bool has_content(const QImage& image) {
    const QRgb first = image.pixel(image.width() / 2, image.height() / 2);
    int others = 0;
    for (int y = 0; y < image.height(); y += 3)
        for (int x = 0; x < image.width(); x += 3)
            others += image.pixel(x, y) != first ? 1 : 0;
    return others > 200;
}

TEST(Files, EverySharedTopologyTraceAndLogOpensByDrop) {
    const QStringList files = shared_inputs({"topology", "traces", "nccl-tests"});
    if (files.isEmpty()) GTEST_SKIP() << "the shared inputs are not beside the source tree";
    MainWindow window(false);
    window.show();
    for (const QString& file : files) {
        const std::size_t before = opened_or_refused(window.workbench());
        drop(window, {file});
        ASSERT_TRUE(wait_idle(window.workbench(), 60)) << file.toStdString();
        EXPECT_GT(opened_or_refused(window.workbench()), before)
            << file.toStdString() << ": neither opened nor refused";
    }
    EXPECT_GT(window.workbench().measured().size(), 0U);
    EXPECT_GT(window.workbench().imported().size(), 20U);
    // The traces are shown, too.
    window.show_panel(window.panel("timeline"));
    QTest::qWait(50);
    EXPECT_TRUE(has_content(window.grab().toImage()));
}

// By content, not by name: what is compressed is what it holds.
TEST(Files, ACompressedTraceOpens) {
    // {"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "a", "cat": "kernel", "pid": 0, "tid": 7, …}]}
    static constexpr char kTrace[] =
        "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x2a\x4e\xce\x48\xcd\x4d\x0c\x4b"
        "\x2d\x2a\xce\xcc\xcf\x53\xb2\x52\x30\xd4\x51\x50\x2a\x29\x4a\x4c\x4e\x75\x2d\x4b"
        "\xcd\x2b\x29\x06\x8a\x44\x57\x2b\x15\x64\x00\x69\xa5\x08\x25\xa0\x5c\x5e\x62\x6e"
        "\x2a\x88\x93\x08\xe2\x24\x27\x96\x80\xd8\xd9\xa9\x45\x79\xa9\x39\x20\x81\x82\xcc"
        "\x14\xa0\x80\x01\xc8\x0c\x30\xcb\x1c\xc4\x2a\x86\x1a\x9b\x52\x5a\x04\x64\x19\xd5"
        "\xc6\xd6\x02\x00\x09\x9a\x2e\x64\x77\x00\x00\x00";
    const QTemporaryDir folder;
    const QString path = folder.filePath("of-some-rank");
    QFile file(path);
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(kTrace, sizeof kTrace - 1);
    file.close();
    MainWindow window(false);
    drop(window, {path});
    ASSERT_TRUE(wait_idle(window.workbench()));
    EXPECT_EQ(window.workbench().measured().size(), 1U);
}

// Models, profiles, logs and launch scripts of other programs: each becomes something, or is refused by name
// and reason, whatever it is.
TEST(Files, EverySharedFileOfAnyKindIsOpenedOrRefused) {
    const QStringList files = shared_inputs({"launch", "logs", "models", "profiles"});
    if (files.isEmpty()) GTEST_SKIP() << "the shared inputs are not beside the source tree";
    MainWindow window(false);
    window.show();
    Workbench& workbench = window.workbench();
    int models = 0, refused = 0;
    for (const QString& file : files) {
        const QString name = QFileInfo(file).fileName();
        workbench.clear_problems(name);
        const gui::Setup setup = workbench.setup();
        const std::size_t before = opened_or_refused(workbench);
        drop(window, {file});
        ASSERT_TRUE(wait_until([&] { return !workbench.jobs().busy(); }, 60)) << file.toStdString();
        const bool taken = !(workbench.setup() == setup);
        models += taken ? 1 : 0;
        // The same model again changes nothing, and needs to say nothing.
        const bool same = setup.model == file.toStdString() || !setup.model_text.empty();
        const bool told = opened_or_refused(workbench) > before;
        EXPECT_TRUE(taken || told || same) << file.toStdString() << ": neither opened nor refused";
        for (const Problem& problem : workbench.problems())
            if (problem.where.startsWith(name)) {
                ++refused;
                EXPECT_FALSE(problem.message.isEmpty()) << file.toStdString();
                break;
            }
    }
    EXPECT_GT(models, 50);
    EXPECT_GT(refused, 50);
    EXPECT_TRUE(has_content(window.grab().toImage()));
}

TEST(Files, EverySharedFileAtOnce) {
    const QStringList files =
        shared_inputs({"topology", "traces", "nccl-tests", "launch", "logs", "models", "profiles"});
    if (files.isEmpty()) GTEST_SKIP() << "the shared inputs are not beside the source tree";
    MainWindow window(false);
    window.show();
    drop(window, files);
    ASSERT_TRUE(wait_idle(window.workbench(), 240));
    EXPECT_GT(window.workbench().imported().size(), 20U);
    EXPECT_GT(window.workbench().measured().size(), 0U);
}

TEST(Files, ADroppedConfigBecomesTheModel) {
    const QTemporaryDir folder;
    QFile file(folder.filePath("config.json"));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(
        R"({"model_type": "llama", "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8,
        "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 2048})");
    file.close();
    MainWindow window(false);
    gui::Setup setup = small_setup();
    window.workbench().edit_setup(setup, "test");
    ASSERT_TRUE(wait_idle(window.workbench()));
    drop(window, {file.fileName()});
    ASSERT_TRUE(wait_idle(window.workbench()));
    EXPECT_EQ(window.workbench().setup().model, file.fileName().toStdString());
    ASSERT_NE(window.workbench().study(), nullptr);
    EXPECT_EQ(window.workbench().study()->document.graph.blocks, 8);
    window.workbench().undo().undo();
    EXPECT_EQ(window.workbench().setup().model, setup.model);
}

// File managers offer the name as text, too: a field must not take it for its own.
TEST(Files, AFileMayBeDroppedOnAFieldAndOnAFloatingPanel) {
    const QTemporaryDir folder;
    QFile file(folder.filePath("config.json"));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(
        R"({"model_type": "llama", "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8,
        "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 2048})");
    file.close();
    QMimeData data;
    data.setUrls({QUrl::fromLocalFile(file.fileName())});
    data.setText(file.fileName());
    MainWindow window(false);
    window.show();
    auto* dock = window.findChild<QDockWidget*>("dock_plans");
    dock->setFloating(true);
    QList<QWidget*> targets = {dock};
    for (QLineEdit* field : window.findChildren<QLineEdit*>())
        if (field->isVisible()) targets.append(field);
    ASSERT_GT(targets.size(), 3);
    for (QWidget* target : targets) {
        window.workbench().edit_setup({}, "test");
        ASSERT_TRUE(wait_idle(window.workbench()));
        // As Qt looks for it: the innermost that accepts drops, within the window.
        QWidget* taker = target;
        while (!taker->acceptDrops() && !taker->isWindow())
            taker = taker->parentWidget();
        QDragEnterEvent enter({2, 2}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(taker, &enter);
        EXPECT_TRUE(enter.isAccepted()) << target->accessibleName().toStdString();
        QDropEvent drop({2, 2}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(taker, &drop);
        ASSERT_TRUE(wait_idle(window.workbench()));
        EXPECT_EQ(window.workbench().setup().model, file.fileName().toStdString())
            << target->metaObject()->className() << " " << target->accessibleName().toStdString();
    }
}

TEST(Files, PicturesOfEveryViewHaveContent) {
    const QTemporaryDir folder;
    MainWindow window(false);
    window.resize(1200, 800);
    find_small_plans(window.workbench());
    ScreenshotOptions options;
    options.folder = folder.path();
    const Screenshots taken = write_screenshots(window, options);
    EXPECT_EQ(taken.wrong.toStdString(), "");
    EXPECT_TRUE(taken.refused.empty());
    EXPECT_EQ(taken.written.size(), static_cast<qsizetype>(window.panels().size()) + 1);
    for (const QString& path : taken.written) {
        const QImage image(path);
        ASSERT_FALSE(image.isNull()) << path.toStdString();
        EXPECT_EQ(image.size(), QSize(1200, 800));
        EXPECT_TRUE(has_content(image)) << path.toStdString();
    }
}

TEST(Files, EveryViewExportsToEveryPictureFormat) {
    const QTemporaryDir folder;
    MainWindow window(false);
    window.show();
    find_small_plans(window.workbench());
    for (Panel* panel : window.panels()) {
        window.show_only(panel);
        ASSERT_TRUE(wait_idle(window.workbench()));
        for (const char* suffix : {"png", "svg", "pdf"}) {
            const QString path = folder.filePath(panel->objectName() + "." + suffix);
            EXPECT_EQ(export_picture(*panel, path).toStdString(), "");
            EXPECT_GT(QFileInfo(path).size(), 500) << path.toStdString();
        }
        EXPECT_TRUE(QSvgRenderer(folder.filePath(panel->objectName() + ".svg")).isValid());
        EXPECT_NE(export_picture(*panel, folder.filePath("x.bmp")), "");
    }
}

TEST(Files, ClosingWhileASearchRunsKeepsWhatItFound) {
    const QTemporaryDir state;
    qputenv("XDG_STATE_HOME", state.path().toUtf8());
    std::size_t found = 0;
    {
        MainWindow window(true);
        window.show();
        gui::Setup setup;
        setup.model = "llama3-70b";
        setup.cluster = "h100:512";
        setup.global_batch = 1024;
        setup.seq_len = 8192;
        setup.objective = "pareto";
        window.workbench().edit_setup(setup, "test");
        window.workbench().start_search();
        ASSERT_TRUE(wait_until([&] { return !window.workbench().plans().empty(); }));
        window.close();
        EXPECT_FALSE(window.workbench().jobs().busy());
        found = window.workbench().plans().size();
    }
    EXPECT_GT(found, 0U);
    MainWindow window(true);
    window.open_last_session();
    ASSERT_TRUE(wait_idle(window.workbench()));
    EXPECT_EQ(window.workbench().plans().size(), found);
    EXPECT_EQ(window.workbench().setup().model, "llama3-70b");
}

// An edit whose simulation is not back yet, a kept plan, marks of the timeline: all are there the next time.
TEST(Files, ClosingWhileAnEditIsSimulatedKeepsTheEdit) {
    const QTemporaryDir state;
    qputenv("XDG_STATE_HOME", state.path().toUtf8());
    std::string edited;
    std::size_t plans = 0;
    {
        MainWindow window(true);
        window.show();
        Workbench& workbench = window.workbench();
        find_small_plans(workbench);
        workbench.select(workbench.plans()[1].id);
        ASSERT_TRUE(wait_idle(workbench));
        workbench.keep_plan();
        ASSERT_TRUE(wait_idle(workbench));
        window.timeline()->view()->perform("timeline.mark");
        workbench.set_field("recompute",
                            field_text(*workbench.shown().plan, "recompute") == "full" ? "none" : "full");
        EXPECT_TRUE(workbench.jobs().busy());  // the simulation
        edited = field_text(*workbench.shown().plan, "recompute");
        plans = workbench.plans().size();
        window.close();
        EXPECT_FALSE(workbench.jobs().busy());
    }
    MainWindow window(true);
    window.open_last_session();
    Workbench& workbench = window.workbench();
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_EQ(workbench.plans().size(), plans);
    EXPECT_TRUE(workbench.shown().edited);
    ASSERT_NE(workbench.shown().report, nullptr);
    EXPECT_EQ(field_text(workbench.shown().report->plan, "recompute"), edited);
    EXPECT_EQ(window.timeline()->view()->state().notes.size(), 1U);
}

// A run that is cut short by closing has been told to end in order: what it measured is open the next time.
void close_while_a_run_goes_on(bool after_stop) {
    const QTemporaryDir state;
    qputenv("XDG_STATE_HOME", state.path().toUtf8());
    {
        MainWindow window(true);
        window.show();
        find_small_plans(window.workbench());
        window.run()->set_options(100'000, {});
        window.run()->start();
        ASSERT_TRUE(window.run()->running());
        // A few steps are done when their losses are drawn.
        ASSERT_TRUE(wait_until([&] { return window.run()->steps_done() > 2 || !window.run()->running(); }));
        ASSERT_TRUE(window.run()->running());
        if (after_stop) {
            window.run()->stop();
            EXPECT_TRUE(window.run()->stopping());
        }
        window.close();
        EXPECT_FALSE(window.run()->running());
        ASSERT_EQ(window.workbench().measured().size(), 1U);
    }
    MainWindow window(true);
    window.open_last_session();
    ASSERT_TRUE(wait_idle(window.workbench()));
    ASSERT_EQ(window.workbench().measured().size(), 1U);
    ASSERT_NE(window.workbench().measured()[0].trace, nullptr);
    EXPECT_GT(window.workbench().measured()[0].trace->steps, 1);
}

TEST(Files, ClosingWhileARunGoesOnKeepsItsTrace) {
    if (Workbench::program("trainwright").isEmpty()) GTEST_SKIP() << "trainwright is not built";
    close_while_a_run_goes_on(false);
}

// Closing asks no second time: that would end the run at once.
TEST(Files, ClosingWhileARunIsStoppingKeepsItsTrace) {
    if (Workbench::program("trainwright").isEmpty()) GTEST_SKIP() << "trainwright is not built";
    close_while_a_run_goes_on(true);
}

TEST(Files, DestroyingAWindowWhileWorkRunsEndsTheWork) {
    MainWindow window(false);
    gui::Setup setup = small_setup();
    setup.model = "llama3-70b";
    setup.cluster = "h100:512";
    setup.global_batch = 1024;
    setup.seq_len = 8192;
    window.workbench().edit_setup(setup, "test");
    window.workbench().start_search();
    QTest::qWait(300);
}

// Logs and topologies of one machine say what they say together: one profile, its findings with the file,
// what is wrong and what to do, and its nodes as the cluster.
TEST(Files, DroppedTogetherTheyAreImportedTogether) {
    if (Workbench::program("trainwright").isEmpty()) GTEST_SKIP() << "trainwright is not built";
    const QString folder = TW_SOURCE_DIR "/docs/examples/import/";
    MainWindow window(false);
    Workbench& workbench = window.workbench();
    drop(window, {folder + "all_reduce_8.log", folder + "all_reduce_2x8.log", folder + "topo.xml",
                  folder + "topo.txt"});
    ASSERT_TRUE(wait_until([&] { return !workbench.profiles().empty(); }));
    ASSERT_TRUE(wait_until([&] { return window.idle(); }));
    ASSERT_EQ(workbench.profiles().size(), 1U);
    const OpenedProfile& imported = workbench.profiles().front();
    EXPECT_TRUE(QFileInfo(imported.path).fileName().contains("-and-3-more")) << imported.path.toStdString();
    ASSERT_TRUE(imported.document->cluster);
    EXPECT_EQ(imported.document->cluster->devices(), 16);
    const auto shared = std::ranges::find_if(workbench.problems(), [](const Problem& problem) {
        return problem.where == "topo.xml" && problem.message.startsWith("shared-nic: ");
    });
    ASSERT_NE(shared, workbench.problems().end());
    EXPECT_FALSE(shared->hint.isEmpty());
    workbench.use_as_cluster(imported);
    gui::Setup setup = workbench.setup();
    setup.model = "gpt2-tiny";
    workbench.edit_setup(setup, "test");
    ASSERT_TRUE(wait_idle(workbench));
    ASSERT_NE(workbench.study(), nullptr);
    EXPECT_EQ(workbench.study()->document.cluster.devices(), 16);
}

// Documents are called in lower case, whatever the file that they are made of is called.
TEST(Files, AnImportOfAFileInCapitalsIsRead) {
    if (Workbench::program("trainwright").isEmpty()) GTEST_SKIP() << "trainwright is not built";
    const QTemporaryDir folder;
    const QString topology = folder.filePath("Rack 7 (200GBps).xml");
    ASSERT_TRUE(QFile::copy(TW_SOURCE_DIR "/docs/examples/import/topo.xml", topology));
    MainWindow window(false);
    Workbench& workbench = window.workbench();
    workbench.import_by_program({topology}, "a100");
    ASSERT_TRUE(wait_until([&] { return !workbench.importing() && !workbench.jobs().busy(); }));
    for (const Problem& problem : workbench.problems())
        EXPECT_NE(problem.severity, Problem::Severity::Error)
            << problem.where.toStdString() << ": " << problem.message.toStdString();
    ASSERT_EQ(workbench.profiles().size(), 1U);
    EXPECT_EQ(workbench.profiles().front().document->profile.name, "rack-7--200gbps-");
}

// Logs that name no device are of the cluster at hand.
TEST(Files, AnImportWithoutADeviceTakesTheSetups) {
    if (Workbench::program("trainwright").isEmpty()) GTEST_SKIP() << "trainwright is not built";
    MainWindow window(false);
    Workbench& workbench = window.workbench();
    gui::Setup setup = small_setup();
    setup.cluster = "a100:8";
    workbench.edit_setup(setup, "test");
    ASSERT_TRUE(wait_idle(workbench));
    drop(window, {TW_SOURCE_DIR "/docs/examples/import/topo.xml"});
    ASSERT_TRUE(wait_until([&] { return !workbench.profiles().empty(); }));
    EXPECT_EQ(workbench.profiles().front().document->cluster->groups.front().device.name, "a100");
}

// The ranks of one job are one trace; others open by themselves.
TEST(Files, TracesOfTheRanksOfAJobOpenAsOne) {
    const QTemporaryDir folder;
    const auto trace = [&](const QString& name, int rank, int world) {
        QFile file(folder.filePath(name));
        EXPECT_TRUE(file.open(QIODevice::WriteOnly));
        file.write(
            QString(
                R"({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": %1, "world_size": %2},
"traceEvents": [{"ph": "X", "name": "a", "cat": "kernel", "pid": 0, "tid": 7, "ts": 10, "dur": 5}]})")
                .arg(rank)
                .arg(world)
                .toUtf8());
        return file.fileName();
    };
    const QStringList files = {trace("r0.json", 0, 2), trace("of-four.json", 1, 4), trace("r1.json", 1, 2),
                               trace("again.json", 1, 2)};
    MainWindow window(false);
    Workbench& workbench = window.workbench();
    drop(window, files);
    ASSERT_TRUE(wait_idle(workbench));
    ASSERT_EQ(workbench.measured().size(), 3U);
    const auto both =
        std::ranges::find_if(workbench.measured(), [](const Measured& m) { return !m.more.isEmpty(); });
    ASSERT_NE(both, workbench.measured().end());
    EXPECT_EQ(both->name(), "r0.json and 1 more");
    EXPECT_EQ(both->model->nodes().size(), 2U);
    // A session names them all and opens them as before.
    const QString session = folder.filePath("a.session.json");
    ASSERT_EQ(workbench.save_session(session, {}).toStdString(), "");
    Workbench other;
    other.open({session});
    ASSERT_TRUE(wait_idle(other));
    EXPECT_EQ(other.measured().size(), 3U);
}

TEST(Files, WhatALinkSaysThatIsNoPlaceIsTold) {
    MainWindow window(false);
    Workbench& workbench = window.workbench();
    const QTemporaryDir folder;
    QFile file(folder.filePath("t.json"));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(
        R"({"traceEvents": [{"ph": "X", "name": "a", "cat": "kernel", "pid": 0, "tid": 7, "ts": 10, "dur": 5}]})");
    file.close();
    window.open({file.fileName() + "#t=soon&rank=99&colour=red"});
    ASSERT_TRUE(wait_idle(workbench));
    QStringList said;
    for (const Problem& problem : workbench.problems()) {
        said.append(problem.message);
        EXPECT_EQ(problem.severity, Problem::Severity::Warning);
        EXPECT_FALSE(problem.hint.isEmpty());
    }
    ASSERT_GE(said.size(), 2) << said.join("\n").toStdString();
    EXPECT_TRUE(said[0].contains("t=soon"));
    EXPECT_TRUE(said[1].contains("colour=red"));
}

}  // namespace
}  // namespace tw::gui

// What a session document and the window's own one between two starts keep.
#include <QFile>
#include <QFileInfo>
#include <QTemporaryDir>

#include "gui/view/trace_model.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "gui/widgets/trace_panels.hpp"
#include "tests/gui/window_fixtures.hpp"

namespace tw::gui {
namespace {

constexpr char kLog[] =
    "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n"
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 8 minBytes 8388608 maxBytes 8388608 step: 2(factor) warmup iters: 1 iters: 20 agg "
    "iters: 1 validation: 1 graph: 0\n"
    "#\n"
    "#                                                              out-of-place                       "
    "in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw  "
    " "
    "busbw  #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  "
    "(GB/s)\n"
    "     8388608       2097152     float     sum      -1    75.01  111.83  195.70       0    74.88  112.03  "
    "196.05       0\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 195.875\n"
    "# Collective test concluded: all_reduce_perf\n";

constexpr char kTrace[] =
    R"({"schemaVersion": 1, "traceEvents": [
{"ph": "X", "name": "a", "cat": "kernel", "pid": 0, "tid": 7, "ts": 10, "dur": 5}]})";

QString write(const QTemporaryDir& folder, const QString& name, const QByteArray& text) {
    QFile file(folder.filePath(name));
    EXPECT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(text);
    return file.fileName();
}

std::size_t errors_of(const Workbench& workbench) {
    return static_cast<std::size_t>(std::ranges::count_if(workbench.problems(), [](const Problem& problem) {
        return problem.severity == Problem::Severity::Error;
    }));
}

TEST(SessionFile, OfANewerVersionIsOneError) {
    const QTemporaryDir folder;
    const QString path = write(folder, "newer.session.json",
                               R"({"schema": "trainwright/session", "version": 2, "tabs": [], "ideas": {}})");
    Workbench workbench;
    workbench.open({path});
    ASSERT_TRUE(wait_idle(workbench));
    ASSERT_EQ(errors_of(workbench), 1U);
    const Problem& problem = workbench.problems().front();
    EXPECT_TRUE(problem.where.contains("newer.session.json")) << problem.where.toStdString();
    EXPECT_TRUE(problem.where.endsWith("version")) << problem.where.toStdString();
    EXPECT_TRUE(problem.message.contains("newer")) << problem.message.toStdString();
}

// It can be sent: what was dropped is in it, not only where it was.
TEST(SessionFile, HoldsProfilesAndImportedDocuments) {
    const QTemporaryDir folder;
    const QString session = folder.filePath("a.session.json");
    const QString profile = folder.filePath("mine.profile.json");
    ASSERT_TRUE(QFile::copy(TW_SOURCE_DIR "/models/data/profiles/v100-16.json", profile));
    QStringList names;
    {
        Workbench workbench;
        workbench.open({profile, write(folder, "all_reduce.log", kLog)});
        ASSERT_TRUE(wait_idle(workbench));
        ASSERT_EQ(workbench.imported().size(), 1U);
        ASSERT_GE(workbench.profiles().size(), 1U);
        for (const OpenedProfile& opened : workbench.profiles())
            names.append(opened.path);
        ASSERT_EQ(workbench.save_session(session, {}).toStdString(), "");
    }
    ASSERT_TRUE(QFile::remove(profile));
    ASSERT_TRUE(QFile::remove(folder.filePath("all_reduce.log")));
    Workbench workbench;
    workbench.open({session});
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_EQ(errors_of(workbench), 0U);
    QStringList again;
    for (const OpenedProfile& opened : workbench.profiles()) {
        again.append(opened.path);
        EXPECT_NE(opened.document, nullptr);
    }
    EXPECT_EQ(again, names);
    ASSERT_EQ(workbench.imported().size(), 1U);
    EXPECT_EQ(workbench.imported()[0].summary.kind, "nccl-tests log");
    const QString second = folder.filePath("b.session.json");
    ASSERT_EQ(workbench.save_session(second, {}).toStdString(), "");
    QFile a(session), b(second);
    ASSERT_TRUE(a.open(QIODevice::ReadOnly) && b.open(QIODevice::ReadOnly));
    EXPECT_EQ(a.readAll(), b.readAll());
    // Another session leaves nothing of this one behind.
    Workbench::WindowState state;
    ASSERT_EQ(Workbench().save_session(session, state).toStdString(), "");
    workbench.open({session});
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_TRUE(workbench.profiles().empty());
    EXPECT_TRUE(workbench.imported().empty());
}

TEST(LastSession, IsKeptWhereOnlyATraceIsOpen) {
    const QTemporaryDir state;
    qputenv("XDG_STATE_HOME", state.path().toUtf8());
    const QString trace = write(state, "of-a-tool.json", kTrace);
    {
        MainWindow window(true);
        window.show();
        window.open({trace});
        ASSERT_TRUE(wait_idle(window.workbench()));
        ASSERT_EQ(window.workbench().measured().size(), 1U);
        window.close();
    }
    MainWindow window(true);
    window.open_last_session();
    ASSERT_TRUE(wait_idle(window.workbench()));
    EXPECT_EQ(window.workbench().measured().size(), 1U);
}

// Closed before it was read: it is read the next time.
TEST(LastSession, KeepsFilesThatWereBeingRead) {
    const QTemporaryDir state;
    qputenv("XDG_STATE_HOME", state.path().toUtf8());
    const QString trace = write(state, "of-a-tool.json", kTrace);
    {
        MainWindow window(true);
        window.show();
        window.open({trace});
        EXPECT_TRUE(window.workbench().jobs().busy());
        window.close();
        EXPECT_FALSE(window.workbench().jobs().busy());
    }
    {
        MainWindow window(true);
        window.open_last_session();
        ASSERT_TRUE(wait_idle(window.workbench()));
        EXPECT_EQ(window.workbench().measured().size(), 1U);
        // Given up by the user: it is not asked for again.
        window.open({trace});
        window.workbench().cancel();
        ASSERT_TRUE(wait_idle(window.workbench()));
        window.close();
    }
    MainWindow window(true);
    window.open_last_session();
    ASSERT_TRUE(wait_idle(window.workbench()));
    EXPECT_LE(window.workbench().measured().size(), 2U);
    EXPECT_GE(window.workbench().measured().size(), 1U);
}

// The window's own document is no session of the user's: saving asks for a name.
TEST(LastSession, IsNotWhatIsSaved) {
    const QTemporaryDir state;
    gui::Setup asked = small_setup();
    asked.framework = "megatron";
    qputenv("XDG_STATE_HOME", state.path().toUtf8());
    {
        MainWindow window(true);
        window.show();
        window.workbench().edit_setup(asked, "test");
        ASSERT_TRUE(wait_idle(window.workbench()));
        window.close();
    }
    MainWindow window(true);
    window.open_last_session();
    ASSERT_TRUE(wait_idle(window.workbench()));
    EXPECT_EQ(window.workbench().setup(), asked);
    EXPECT_EQ(window.workbench().session_path(), "");
    EXPECT_FALSE(window.windowTitle().contains("last.session"));
}

TEST(LastSession, ThatCannotBeWrittenIsToldBeforeTheWindowCloses) {
    const QTemporaryDir state;
    qputenv("XDG_STATE_HOME", state.path().toUtf8());
    MainWindow window(true);
    window.show();
    window.workbench().edit_setup(small_setup(), "test");
    ASSERT_TRUE(wait_idle(window.workbench()));
    // A folder is where the document would be.
    ASSERT_TRUE(QDir(state.path()).mkpath("trainwright/last.session.json"));
    EXPECT_FALSE(window.close());
    EXPECT_TRUE(window.isVisible());
    EXPECT_EQ(errors_of(window.workbench()), 1U);
    EXPECT_TRUE(window.close());
}

}  // namespace
}  // namespace tw::gui

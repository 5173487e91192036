// What a session document and the window's own one between two starts keep.
#include <QComboBox>
#include <QFile>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTemporaryDir>

#include "gui/actions.hpp"
#include "gui/app/session_json.hpp"
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
                               R"({"schema": "trainwright/session", "version": 3, "tabs": [], "ideas": {}})");
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

// The same of traces of other tools: whoever it is sent to has no such files.
TEST(SessionFile, HoldsTracesOfOtherTools) {
    const QTemporaryDir folder;
    const auto rank = [&](int r) {
        return write(folder, QString("rank%1.json").arg(r),
                     QByteArray(kTrace).replace("{\"schemaVersion\": 1,",
                                                "{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": " +
                                                    QByteArray::number(r) + ", \"world_size\": 2},"));
    };
    const QStringList files = {write(folder, "of-a-tool.json", kTrace), rank(0), rank(1)};
    const QString session = folder.filePath("a.session.json"), again = folder.filePath("b.session.json");
    std::size_t tasks = 0;
    {
        Workbench workbench;
        workbench.open(files);
        ASSERT_TRUE(wait_idle(workbench));
        ASSERT_EQ(workbench.measured().size(), 2U);
        for (const Measured& measured : workbench.measured())
            tasks += measured.model->size();
        ASSERT_EQ(workbench.save_session(session, {}).toStdString(), "");
    }
    for (const QString& file : files)
        ASSERT_TRUE(QFile::remove(file));
    const auto opened = [&](Workbench& workbench, const QString& path) {
        QStringList recent;
        const auto heard = QObject::connect(&workbench, &Workbench::file_opened, &workbench,
                                            [&](const QString& file) { recent.append(file); });
        workbench.open({path});
        ASSERT_TRUE(wait_idle(workbench));
        QObject::disconnect(heard);
        EXPECT_EQ(errors_of(workbench), 0U);
        ASSERT_EQ(workbench.measured().size(), 2U);
        std::size_t sum = 0;
        QStringList names;
        for (const Measured& measured : workbench.measured()) {
            sum += measured.model->size();
            names += QStringList(measured.path) + measured.more;
        }
        EXPECT_EQ(sum, tasks);
        names.sort();
        QStringList wanted = files;
        wanted.sort();
        EXPECT_EQ(names, wanted);
        EXPECT_EQ(recent, QStringList(path));  // there are no such files to open again
    };
    Workbench workbench;
    opened(workbench, session);
    // Saved again it holds the same, in the order in which they were read; what the window keeps for itself
    // holds them as well, they are nowhere else.
    const auto traces_of = [](const QString& path) {
        QFile file(path);
        EXPECT_TRUE(file.open(QIODevice::ReadOnly));
        const QJsonArray traces = QJsonDocument::fromJson(file.readAll()).object()["measured"].toArray();
        QStringList lines;
        for (const auto& trace : traces)
            lines.append(QJsonDocument(trace.toObject()).toJson());
        lines.sort();
        return lines;
    };
    EXPECT_EQ(traces_of(session).size(), 3);
    ASSERT_EQ(workbench.save_session(again, {}).toStdString(), "");
    EXPECT_EQ(traces_of(session), traces_of(again));
    ASSERT_EQ(workbench.write_session(again, {}).toStdString(), "");
    Workbench third;
    opened(third, again);
    // A file of this name that appears later is another one: it is read where it is.
    write(folder, "of-a-tool.json", R"({"traceEvents": [
{"ph": "X", "name": "b", "cat": "kernel", "pid": 0, "tid": 7, "ts": 10, "dur": 5},
{"ph": "X", "name": "c", "cat": "kernel", "pid": 0, "tid": 7, "ts": 20, "dur": 5}]})");
    third.open({files[0]});
    ASSERT_TRUE(wait_idle(third));
    EXPECT_EQ(third.measured().back().model->size(), 2U);
}

// A session that nobody could read again would keep nothing: what makes it so large is named instead.
TEST(SessionFile, LargeTracesOfOursAreNamed) {
    Session session;
    session.setup = small_setup();
    session.measured.push_back({"/runs/a.trace.json", std::make_shared<const Trace>()});
    session.measured.push_back({"/runs/of-a-tool.json", nullptr, {"AAAA"}});
    const std::string whole = session_to_text(session);
    std::vector<std::string> named;
    EXPECT_EQ(session_to_text(session, whole.size(), named), whole);
    EXPECT_TRUE(named.empty());
    const std::string shorter = session_to_text(session, whole.size() - 1, named);
    EXPECT_EQ(named, std::vector<std::string>{"/runs/a.trace.json"});
    EXPECT_LT(shorter.size(), whole.size());
    const auto read = session_from_text(shorter, "a.json");
    ASSERT_TRUE(read) << to_string(read.errors());
    ASSERT_EQ(read->measured.size(), 2U);
    EXPECT_EQ(read->measured[0].path, "/runs/a.trace.json");
    EXPECT_EQ(read->measured[0].trace, nullptr);
    EXPECT_EQ(read->measured[1].content, std::vector<std::string>{"AAAA"});
}

TEST(SessionFile, ADamagedTraceIsNamedAndTheRestOpens) {
    const QTemporaryDir folder;
    const QString session = folder.filePath("a.session.json");
    Workbench first;
    first.edit_setup(small_setup(), "test");
    first.open({write(folder, "of-a-tool.json", kTrace)});
    ASSERT_TRUE(wait_idle(first));
    ASSERT_EQ(first.save_session(session, {}).toStdString(), "");
    QFile file(session);
    ASSERT_TRUE(file.open(QIODevice::ReadOnly));
    QByteArray text = file.readAll();
    file.close();
    ASSERT_TRUE(QFile::remove(folder.filePath("of-a-tool.json")));
    const auto at = text.indexOf("\"content\"");
    ASSERT_GT(at, 0);
    const auto piece = text.indexOf('"', text.indexOf('[', at)) + 1;
    text.replace(piece, 8, "/////w==");  // claims four gigabytes
    write(folder, "a.session.json", text);
    Workbench second;
    second.open({session});
    ASSERT_TRUE(wait_idle(second));
    EXPECT_EQ(second.setup(), small_setup());
    EXPECT_TRUE(second.measured().empty());
    EXPECT_TRUE(std::ranges::any_of(second.problems(), [](const Problem& problem) {
        return problem.where.contains("of-a-tool.json") && problem.message.contains("damaged");
    }));
}

TEST(SessionFile, IsSavedInTheBackground) {
    const QTemporaryDir folder;
    const QString session = folder.filePath("a.session.json");
    Workbench workbench;
    workbench.open({write(folder, "of-a-tool.json", kTrace)});
    ASSERT_TRUE(wait_idle(workbench));
    QStringList said;
    const auto hear = [&](const QString& wrong) { said.append(wrong); };
    workbench.save_session_later(session, {}, hear);
    EXPECT_TRUE(workbench.jobs().busy("save"));
    workbench.save_session_later(session, {}, hear);  // not while the first one writes
    workbench.cancel();                               // what is being written is written
    ASSERT_TRUE(wait_idle(workbench));
    ASSERT_EQ(said.size(), 2);
    EXPECT_FALSE(said[0].isEmpty());
    EXPECT_EQ(said[1].toStdString(), "");
    EXPECT_EQ(workbench.session_path(), session);
    workbench.save_session_later(folder.filePath("no/such/folder/a.json"), {}, hear);
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_FALSE(said[2].isEmpty());
    EXPECT_EQ(workbench.session_path(), session);
}

// The view that is kept is that of the trace that was shown.
TEST(SessionFile, ShowsTheTraceThatWasShown) {
    const QTemporaryDir folder;
    const QString session = folder.filePath("a.session.json");
    answer_file_names([&](bool saving, const QString&) { return saving ? session : QString(); });
    const auto source_of = [](MainWindow& window) {
        for (QComboBox* box : window.timeline()->findChildren<QComboBox*>())
            if (box->accessibleName() == "Trace that is shown") return box;
        return static_cast<QComboBox*>(nullptr);
    };
    SimTime begin = 0, end = 0;
    {
        MainWindow window(false);
        window.show();
        find_small_plans(window.workbench());
        window.open({write(folder, "of-a-tool.json", kTrace)});
        ASSERT_TRUE(wait_idle(window.workbench()));
        EXPECT_EQ(window.timeline()->trace()->origin(), "simulated");
        QComboBox* source = source_of(window);
        ASSERT_NE(source, nullptr);
        source->setCurrentIndex(1);
        Q_EMIT source->activated(1);
        ASSERT_EQ(window.timeline()->trace()->origin(), "PyTorch");
        window.timeline()->view()->perform("timeline.zoom_in");
        begin = window.timeline()->view()->visible_begin();
        end = window.timeline()->view()->visible_end();
        window.actions().action("file.save_session")->trigger();
        ASSERT_TRUE(wait_idle(window.workbench()));
    }
    answer_file_names({});
    MainWindow window(false);
    window.resize(900, 700);
    window.show();
    window.open({session});
    ASSERT_TRUE(wait_idle(window.workbench()));
    EXPECT_EQ(errors_of(window.workbench()), 0U);
    ASSERT_NE(window.workbench().shown().report, nullptr);
    ASSERT_NE(window.timeline()->trace(), nullptr);
    EXPECT_EQ(window.timeline()->trace()->origin(), "PyTorch");
    EXPECT_EQ(source_of(window)->currentIndex(), 1);
    EXPECT_EQ(window.timeline()->view()->visible_begin(), begin);
    EXPECT_EQ(window.timeline()->view()->visible_end(), end);
    // Another session shows its plan.
    ASSERT_EQ(Workbench().save_session(session, {}).toStdString(), "");
    window.open({session});
    ASSERT_TRUE(wait_idle(window.workbench()));
    EXPECT_EQ(source_of(window)->currentIndex(), 0);
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

// Files by drop, pictures of every view, closing while work runs.
#include <QDir>
#include <QDirIterator>
#include <QDropEvent>
#include <QImage>
#include <QMimeData>
#include <QSvgRenderer>
#include <QTemporaryDir>
#include <QUrl>

#include "gui/app/screenshots.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/widgets/panel.hpp"
#include "models/formats/document.hpp"
#include "plan/parallel_plan.hpp"
#include "tests/gui/window_fixtures.hpp"

namespace tw::gui {
namespace {

QStringList shared_inputs() {
    QStringList files;
    for (const char* folder : {"topology", "traces", "nccl-tests"}) {
        QDirIterator at(QString(TW_SOURCE_DIR "/../shared/inputs/") + folder, QDir::Files,
                        QDirIterator::Subdirectories);
        while (at.hasNext())
            files.append(at.next());
    }
    files.sort();
    return files;
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
    const QStringList files = shared_inputs();
    if (files.isEmpty()) GTEST_SKIP() << "the shared inputs are not beside the source tree";
    MainWindow window(false);
    window.show();
    for (const QString& file : files) {
        const std::size_t before = window.workbench().problems().size() +
                                   window.workbench().measured().size() +
                                   window.workbench().imported().size();
        drop(window, {file});
        ASSERT_TRUE(wait_idle(window.workbench(), 60)) << file.toStdString();
        const std::size_t after = window.workbench().problems().size() +
                                  window.workbench().measured().size() + window.workbench().imported().size();
        EXPECT_GT(after, before) << file.toStdString() << ": neither opened nor refused";
    }
    EXPECT_GT(window.workbench().measured().size(), 0U);
    EXPECT_GT(window.workbench().imported().size(), 20U);
    // The traces are shown, too.
    window.show_panel(window.panel("timeline"));
    QTest::qWait(50);
    EXPECT_TRUE(has_content(window.grab().toImage()));
}

TEST(Files, EverySharedFileAtOnce) {
    const QStringList files = shared_inputs();
    if (files.isEmpty()) GTEST_SKIP() << "the shared inputs are not beside the source tree";
    MainWindow window(false);
    window.show();
    drop(window, files);
    ASSERT_TRUE(wait_idle(window.workbench(), 120));
    EXPECT_GT(window.workbench().imported().size(), 20U);
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

TEST(Files, PicturesOfEveryViewHaveContent) {
    const QTemporaryDir folder;
    MainWindow window(false);
    window.resize(1200, 800);
    find_small_plans(window.workbench());
    ScreenshotOptions options;
    options.folder = folder.path();
    QStringList written;
    EXPECT_EQ(write_screenshots(window, options, &written).toStdString(), "");
    EXPECT_EQ(written.size(), static_cast<qsizetype>(window.panels().size()) + 1);
    for (const QString& path : written) {
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

}  // namespace
}  // namespace tw::gui

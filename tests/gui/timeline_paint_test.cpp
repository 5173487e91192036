// How the timeline gets onto the screen: straight into the window's picture or by way of one of its own, with
// the same pixels.
#include <QBackingStore>
#include <QFile>
#include <QFileInfo>
#include <QImage>
#include <QPainter>
#include <QTemporaryDir>
#include <QTest>

#include <gtest/gtest.h>

#include "gui/widgets/picture_file.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "tests/gui/view/view_fixtures.hpp"

namespace tw::gui {
namespace {

// What the window shows now.
QImage shown(const QWidget& window) {
    const auto* image = dynamic_cast<const QImage*>(window.backingStore()->paintDevice());
    return image == nullptr ? QImage() : image->convertToFormat(QImage::Format_RGB32);
}
// The same anew, into a picture that is not the window's.
QImage painted(QWidget& window) {
    return window.grab().toImage().convertToFormat(QImage::Format_RGB32);
}

TEST(TimelinePaint, TheWindowShowsWhatAPictureShows) {
    QWidget window;
    window.resize(900, 500);
    TimelineView view(&window);
    view.setGeometry(20, 30, 860, 440);
    view.set_trace(view_test::model_of(view_test::pipeline_trace()));
    window.show();
    ASSERT_TRUE(QTest::qWaitForWindowExposed(&window));
    while (!view.derived_ready())
        QTest::qWait(5);
    const SimTime begin = view.visible_begin(), end = view.visible_end();
    QTest::qWait(20);
    ASSERT_FALSE(shown(window).isNull());
    const auto look = [&](const char* what) {
        const QImage now = shown(window);
        EXPECT_EQ(now, painted(window)) << what;
        return now;
    };
    const QImage whole = look("whole");
    view.set_visible(begin, begin + (end - begin) / 3);
    view.viewport()->repaint();
    const QImage zoomed = look("zoomed");
    EXPECT_NE(zoomed, whole);
    // Something over it alone: what is below has not been drawn into the view's own picture yet.
    view.set_visible(begin + (end - begin) / 5, begin + (end - begin) / 2);
    view.viewport()->repaint();
    view.set_cursor_time(begin + (end - begin) / 4);
    view.viewport()->repaint();
    look("cursor");
    // Something that lies over the view is not drawn over.
    view.perform("timeline.find_track");
    QTest::qWait(20);
    view.set_visible(begin, begin + (end - begin) / 4);
    view.viewport()->repaint();
    look("prompt");
    view.perform("timeline.clear");
    view.set_time_shift(1000);
    QTest::qWait(20);
    view.set_visible(begin, end);
    view.viewport()->repaint();
    look("names anew");
}

TEST(TimelinePaint, ExportsPictures) {
    TimelineView view;
    view.resize(900, 500);
    view.set_trace(view_test::model_of(view_test::pipeline_trace()));
    while (!view.derived_ready())
        QTest::qWait(5);
    view.perform("timeline.bubbles");
    view.perform("timeline.critical_path");
    const QTemporaryDir folder;
    Picture picture{"Timeline", view.size_of_all_rows().toSize(), Qt::white, {}};
    picture.paint = [&](QPainter& painter) { view.paint(painter, picture.size, /*all_rows=*/true); };
    for (const char* const name : {"a.png", "a.svg", "a.pdf"}) {
        EXPECT_EQ(write_picture(picture, folder.filePath(name), 2).toStdString(), "");
        EXPECT_GT(QFileInfo(folder.filePath(name)).size(), 2000) << name;
    }
    QFile svg(folder.filePath("a.svg"));
    ASSERT_TRUE(svg.open(QIODevice::ReadOnly));
    EXPECT_TRUE(svg.readAll().contains("PP03"));
    EXPECT_EQ(QImage(folder.filePath("a.png")).size(), picture.size * 2);
    EXPECT_TRUE(write_picture(picture, folder.filePath("a.bmp"), 2).contains(".svg"));
    EXPECT_NE(write_picture(picture, "/nowhere/at/all.png", 2), "");
    picture.size.setHeight(40'000);
    EXPECT_TRUE(write_picture(picture, folder.filePath("large.png"), 2).contains("too large"));
}

}  // namespace
}  // namespace tw::gui

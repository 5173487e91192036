#include <QLineEdit>
#include <QListWidget>
#include <QTest>

#include <gtest/gtest.h>

#include "gui/widgets/prompt_bar.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "tests/gui/view/view_fixtures.hpp"

namespace tw::gui {
namespace {

// A finder that is open names tracks of the trace that is shown.
TEST(TimelinePrompt, AnOpenOneFollowsTheTrace) {
    const auto model = view_test::model_of(view_test::pipeline_trace());
    TimelineView view;
    view.resize(1200, 700);
    view.show();
    view.set_trace(model);
    auto* const prompt = view.findChild<PromptBar*>();
    view.perform("timeline.find_track");
    QTest::keyClicks(prompt->line(), "pp3");
    ASSERT_EQ(prompt->list()->item(0)->text(), "node1/PP03");
    view.set_trace(view_test::model_of(view_test::pipeline_trace(4, 7)), true);
    ASSERT_TRUE(prompt->isVisible());
    QTest::keyClick(prompt->line(), Qt::Key_Return);
    EXPECT_EQ(view.selected_rank(), 3);
    view.perform("timeline.find_track");
    ASSERT_TRUE(prompt->isVisible());
    view.set_trace(nullptr);
    EXPECT_FALSE(prompt->isVisible());
    prompt->line()->setText("pp2");  // nobody asks the trace that is gone
    view.set_trace(model);
    view.set_search("F");
    ASSERT_TRUE(QTest::qWaitFor([&] { return view.search_status().endsWith(" matches"); }));
    const QString before = view.search_status();
    view.set_trace(view_test::model_of(view_test::pipeline_trace(4, 7)), true);
    ASSERT_TRUE(QTest::qWaitFor([&] { return view.search_status().endsWith(" matches"); }));
    EXPECT_NE(view.search_status(), before);  // of another number of microbatches
}

}  // namespace
}  // namespace tw::gui

// What panels have in common: work that waits until they are seen, tables that are exported.
#include <QFile>
#include <QHeaderView>
#include <QJsonArray>
#include <QJsonDocument>
#include <QLabel>
#include <QPlainTextEdit>
#include <QTableView>
#include <QTemporaryDir>

#include "gui/actions.hpp"
#include "gui/item_models/value_table.hpp"
#include "gui/widgets/panel.hpp"
#include "gui/widgets/range_panel.hpp"
#include "gui/widgets/run_panel.hpp"
#include "gui/widgets/table_view.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "gui/widgets/trace_panels.hpp"
#include "gui/widgets/why_panel.hpp"
#include "tests/gui/window_fixtures.hpp"

namespace tw::gui {
namespace {

TEST(Panels, WhatIsBehindAnotherTabPutsItsWorkOff) {
    MainWindow window(false);
    window.show();
    Workbench& workbench = window.workbench();
    find_small_plans(workbench);
    Panel *why = window.panel("why"), *topology = window.panel("topology");
    EXPECT_TRUE(window.panel("timeline")->is_seen());
    EXPECT_FALSE(why->is_seen());
    EXPECT_EQ(workbench.shown().explanation, nullptr);  // dozens of simulations that nobody asked for
    EXPECT_EQ(topology->table()->model()->rowCount(), 0);
    window.show_panel(why);
    EXPECT_TRUE(why->is_seen());
    EXPECT_FALSE(window.panel("timeline")->is_seen());
    ASSERT_TRUE(wait_idle(workbench));
    ASSERT_NE(workbench.shown().explanation, nullptr);
    EXPECT_GT(why->table()->model()->rowCount(), 0);
    window.show_panel(topology);
    EXPECT_FALSE(why->is_seen());
    EXPECT_GT(topology->table()->model()->rowCount(), 0);
    // Another plan: shown when it is looked at again.
    workbench.select(workbench.plans()[1].id);
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_EQ(workbench.shown().explanation, nullptr);
    window.show_panel(why);
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_NE(workbench.shown().explanation, nullptr);
}

TEST(Panels, AJudgementThatIsReplacedOrCancelledIsNotWaitedFor) {
    MainWindow window(false);
    window.show();
    Workbench& workbench = window.workbench();
    find_small_plans(workbench);
    Panel* why = window.panel("why");
    const auto says = [&](const QString& text) {
        return std::ranges::any_of(why->findChildren<QLabel*>(),
                                   [&](const QLabel* label) { return label->text() == text; });
    };
    window.show_panel(why);
    ASSERT_TRUE(workbench.jobs().busy("explain"));
    EXPECT_TRUE(says("judging…"));
    workbench.select(workbench.plans()[1].id);
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_NE(workbench.shown().explanation, nullptr);
    EXPECT_FALSE(says("judging…"));
    workbench.select(workbench.plans()[0].id);
    ASSERT_TRUE(wait_until([&] { return workbench.jobs().busy("explain"); }));
    workbench.cancel();
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_FALSE(says("judging…"));
    EXPECT_TRUE(workbench.shown().explanation != nullptr || says("not judged"));
}

TEST(Panels, TheLogOfARunShowsWholeLines) {
    MainWindow window(false);
    auto* const run = dynamic_cast<RunPanel*>(window.panel("run"));
    ASSERT_NE(run, nullptr);
    auto* const log = run->findChild<QPlainTextEdit*>();
    const QByteArray text = "step 1 · 3 µs\nstep 2\n";
    for (qsizetype i = 0; i < text.size(); ++i)
        run->take_log(text.mid(i, 1));
    EXPECT_EQ(log->toPlainText(), "step 1 · 3 µs\nstep 2");
}

TEST(Panels, ComparingWithoutAMeasurementSaysSo) {
    MainWindow window(false);
    window.show();
    find_small_plans(window.workbench());
    window.actions().action("compare.measured")->trigger();
    EXPECT_TRUE(std::ranges::any_of(window.workbench().problems(), [](const Problem& problem) {
        return problem.where == "compare" && problem.message == "there is no measured trace yet";
    }));
}

TEST(Panels, EveryTableIsWrittenInEveryFormat) {
    const QTemporaryDir folder;
    MainWindow window(false);
    window.show();
    Workbench& workbench = window.workbench();
    find_small_plans(workbench);
    workbench.pin(0, workbench.plans()[0].id);
    workbench.pin(1, workbench.plans()[1].id);
    workbench.report({Problem::Severity::Note, "test", "a note", "a hint"});
    TimelineView* view = window.timeline()->view();
    view->set_range(RangeSelection{view->trace()->begin(), view->trace()->end(), {0}});
    int tables = 0;
    for (Panel* panel : window.panels()) {
        window.show_panel(panel);
        ASSERT_TRUE(wait_idle(workbench));
        if (panel->table() == nullptr) continue;
        ++tables;
        const QAbstractItemModel& model = *panel->table()->model();
        EXPECT_GT(model.rowCount(), 0) << panel->objectName().toStdString();
        for (const char* suffix : {"csv", "tsv", "json"}) {
            const QString path = folder.filePath(panel->objectName() + "." + suffix);
            EXPECT_EQ(write_table(model, path).toStdString(), "");
            QFile file(path);
            ASSERT_TRUE(file.open(QIODevice::ReadOnly));
            const QByteArray text = file.readAll();
            if (std::string_view(suffix) == "json") {
                EXPECT_EQ(QJsonDocument::fromJson(text).array().size(), model.rowCount());
            } else {
                EXPECT_EQ(text.count('\n'), model.rowCount() + 1) << path.toStdString();
            }
        }
    }
    EXPECT_GE(tables, 8);  // plans, editor, why, topology, compare, profile, range, problems
}

TEST(Panels, ColumnsAreAsWideAsTheirTexts) {
    ValueTable model;
    model.set_columns({{"a"}, {"a long heading", {}, {}, true}});
    model.set_rows({{{"some words that take room"}, {"1"}}, {{"x", {}, Tone::Strong}, {"2"}}});
    TableView table("test");
    table.show_model(&model);
    table.resize(600, 200);
    table.show();
    table.fit_columns();
    EXPECT_GE(table.columnWidth(0), table.sizeHintForIndex(model.index(0, 0)).width());
    EXPECT_GE(table.columnWidth(1), table.fontMetrics().horizontalAdvance("a long heading"));
    table.fit_columns(0);
    EXPECT_GE(table.columnWidth(0) + table.columnWidth(1), table.viewport()->width() - 1);
}

// A table that grows shows what was cut off in it, until the user sets a width.
TEST(Panels, ColumnsFollowTheSizeOfTheirTable) {
    ValueTable model;
    model.set_columns({{"plan"}, {"rule"}});
    model.set_rows(
        {{{"a name of many words that would like to be read"},
          {"a sentence that is much longer than every name of a plan could ever be, and goes on"}}});
    TableView table("test");
    table.show_model(&model);
    table.resize(300, 200);
    table.show();
    table.fit_columns(1);
    const int wanted = table.sizeHintForIndex(model.index(0, 0)).width();
    EXPECT_LT(table.columnWidth(0), wanted);
    EXPECT_LE(table.columnWidth(0) + table.columnWidth(1), table.viewport()->width() + 1);
    table.resize(1200, 200);
    EXPECT_GE(table.columnWidth(0), wanted);
    EXPECT_EQ(table.columnWidth(0) + table.columnWidth(1), table.viewport()->width());
    QHeaderView* header = table.horizontalHeader();
    const QPoint edge(header->sectionViewportPosition(1) - 1, header->height() / 2);
    QTest::mousePress(header->viewport(), Qt::LeftButton, {}, edge);
    QTest::mouseMove(header->viewport(), edge - QPoint(60, 0));
    QTest::mouseRelease(header->viewport(), Qt::LeftButton, {}, edge - QPoint(60, 0));
    const int chosen = table.columnWidth(0);
    EXPECT_LT(chosen, wanted);
    table.resize(1100, 200);
    table.fit_columns(1);
    EXPECT_EQ(table.columnWidth(0), chosen);
}

}  // namespace
}  // namespace tw::gui

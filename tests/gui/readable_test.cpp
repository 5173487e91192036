// What the window says can be read whole: in a window of 1280 x 800, and in pictures of views that scroll.
#include <QClipboard>
#include <QComboBox>
#include <QHeaderView>
#include <QImage>
#include <QLabel>
#include <QMenu>
#include <QPainter>
#include <QScrollBar>
#include <QStyledItemDelegate>
#include <QTabWidget>
#include <QTableView>
#include <QTemporaryDir>
#include <QToolButton>

#include "gui/actions.hpp"
#include "gui/item_models/plans_model.hpp"
#include "gui/item_models/value_table.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/widgets/columns_or_tabs.hpp"
#include "gui/widgets/compare_panel.hpp"
#include "gui/widgets/compare_timelines.hpp"
#include "gui/widgets/plans_panel.hpp"
#include "gui/widgets/table_view.hpp"
#include "gui/widgets/why_panel.hpp"
#include "sim/report/report.hpp"
#include "tests/gui/window_fixtures.hpp"

namespace tw::gui {
namespace {

// Cells whose text does not fit into their column and row.
QStringList cut_off(const QTableView& table) {
    QStringList cut;
    const int margin = 2 * (table.style()->pixelMetric(QStyle::PM_FocusFrameHMargin, nullptr, &table) + 1);
    for (int row = 0; row < table.model()->rowCount(); ++row)
        for (int column = 0; column < table.model()->columnCount(); ++column) {
            if (table.isColumnHidden(column)) continue;
            const QString text = table.model()->index(row, column).data().toString();
            const QRect room(0, 0, table.columnWidth(column) - margin, 1 << 16);
            const QRect needed = table.fontMetrics().boundingRect(room, Qt::TextWordWrap, text);
            if (needed.width() > room.width() || needed.height() > table.rowHeight(row)) cut.append(text);
        }
    return cut;
}

// A plan of eight stages, with everything that there is to say about it.
void find_large_plan(Workbench& workbench) {
    gui::Setup setup;
    setup.model = "llama3-70b";
    setup.cluster = "h100:64";
    setup.global_batch = 32;
    setup.fix = "tp=2,pp=8,vpp=1,cp=4,mbs=1,zero=1";
    workbench.edit_setup(setup, "test");
    workbench.start_search();
    ASSERT_TRUE(wait_idle(workbench));
    ASSERT_NE(workbench.shown().report, nullptr);
}

TEST(Readable, WhyInAWindowOf1280) {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    find_large_plan(window.workbench());
    auto* const why = dynamic_cast<WhyPanel*>(window.panel("why"));
    auto* const pages = why->findChild<ColumnsOrTabs*>();
    const auto read_all = [&](const char* where) {
        ASSERT_TRUE(wait_idle(window.workbench()));
        QTest::qWait(10);
        ASSERT_NE(window.workbench().shown().explanation, nullptr);
        int rows = 0;
        for (const TableView* table : why->findChildren<TableView*>()) {
            if (!table->isVisible()) continue;
            rows += table->model()->rowCount();
            EXPECT_EQ(cut_off(*table).join(" | ").toStdString(), "")
                << where << " " << table->accessibleName().toStdString();
            EXPECT_EQ(table->horizontalScrollBar()->maximum(), 0) << where;
        }
        EXPECT_GT(rows, 4) << where;
    };
    // Alone: side by side.
    window.show_only(why);
    why->what_if(0, 2);
    read_all("alone");
    EXPECT_FALSE(pages->tabbed());
    // Among the others there is room for one at a time.
    window.show_only(nullptr);
    window.resize(1280, 800);
    window.show_panel(why);
    QApplication::processEvents();
    ASSERT_TRUE(pages->tabbed());
    auto* const tabs = pages->findChild<QTabWidget*>();
    ASSERT_EQ(tabs->count(), 4);
    for (int tab = 0; tab < tabs->count(); ++tab) {
        tabs->setCurrentIndex(tab);
        QApplication::processEvents();
        read_all(tabs->tabText(tab).toUtf8().constData());
        // What is exported is what is in front.
        EXPECT_TRUE(why->table()->isVisible());
    }
    tabs->setCurrentIndex(0);
    why->focus_what_if();
    EXPECT_EQ(tabs->currentIndex(), 3);
    why->focus_sensitivities();
    EXPECT_EQ(tabs->currentIndex(), 1);
    EXPECT_EQ(why->table()->accessibleName(), "Sensitivities");
    window.show_only(why);
    QApplication::processEvents();
    EXPECT_FALSE(pages->tabbed());
    read_all("alone again");
}

// Among the other views, where each has two thirds of the width.
TEST(Readable, TablesInAWindowOf1280) {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    find_large_plan(window.workbench());
    window.workbench().pin(1, window.workbench().plans()[1].id);
    ASSERT_EQ(window.width(), 1280);
    for (const char* name : {"topology", "compare", "profile"}) {
        Panel* panel = window.panel(name);
        window.show_panel(panel);
        ASSERT_TRUE(wait_idle(window.workbench()));
        QTest::qWait(10);
        EXPECT_GT(panel->table()->model()->rowCount(), 3) << name;
        EXPECT_EQ(panel->table()->horizontalScrollBar()->maximum(), 0) << name;
        EXPECT_EQ(cut_off(*dynamic_cast<TableView*>(panel->table())).join(" | ").toStdString(), "") << name;
    }
    EXPECT_EQ(window.width(), 1280);
}

TEST(Readable, LongTextsGoOnInFurtherLines) {
    ValueTable model;
    model.set_columns({{"kind"}, {"what"}, {"instead"}, {"n", {}, {}, true}});
    const QString sentence = "a sentence that is much longer than its column is wide, and goes on and on";
    model.set_rows({{{"error"}, {sentence}, {sentence + " and on"}, {"1234"}}, {{"a"}, {"b"}, {"c"}, {"1"}}});
    TableView table("test");
    table.show_model(&model, true);
    table.wrap_texts();
    table.resize(360, 300);
    table.show();
    table.fit_columns(1);
    EXPECT_EQ(cut_off(table).join(" | ").toStdString(), "");
    EXPECT_GT(table.rowHeight(0), 3 * table.fontMetrics().height());
    EXPECT_LE(table.rowHeight(1), table.fontMetrics().height() + 6);
    EXPECT_LE(table.horizontalHeader()->length(), table.viewport()->width());
    // Where there is room it is used, and rows are low again; they follow their order.
    table.resize(1400, 300);
    EXPECT_LE(table.rowHeight(0), table.fontMetrics().height() + 6);
    table.resize(360, 300);
    table.sortByColumn(0, Qt::AscendingOrder);
    QTest::qWait(10);
    EXPECT_EQ(table.model()->index(0, 0).data().toString(), "a");
    EXPECT_LE(table.rowHeight(0), table.fontMetrics().height() + 6);
    EXPECT_EQ(cut_off(table).join(" | ").toStdString(), "");
}

// Names of files are words that no column has room for: they are broken where a reader would break them, and
// copied as they are.
TEST(Readable, NamesOfFilesAreBroken) {
    ValueTable model;
    model.set_columns({{"where"}, {"what"}, {"n", {}, {}, true}});
    const QString path = "/home/somebody/runs/tests__data__critical_path__alexnet__result_2869224.json.gz";
    model.set_rows({{{path}, {"has no step in it, " + path}, {"1"}}});
    TableView table("test");
    table.show_model(&model);
    table.wrap_texts();
    table.resize(420, 300);
    table.show();
    table.fit_columns(1);
    EXPECT_GT(table.rowHeight(0), 2 * table.fontMetrics().height());
    EXPECT_LE(table.horizontalHeader()->length(), table.viewport()->width());
    const QString shown =
        qobject_cast<QStyledItemDelegate*>(table.itemDelegate())->displayText(path, QLocale::c());
    const QRect room(0, 0, table.columnWidth(0) - 6, 1 << 16);
    const QRect needed = table.fontMetrics().boundingRect(room, Qt::TextWordWrap, shown);
    EXPECT_LE(needed.width(), room.width());
    EXPECT_LE(needed.height(), table.rowHeight(0));
    EXPECT_EQ(QString(shown).remove(QChar(0x200b)), path);
    table.copy_selection();
    EXPECT_TRUE(QApplication::clipboard()->text().contains(path));
    // However narrow, a column of texts keeps room for some words.
    table.resize(120, 300);
    EXPECT_GE(table.columnWidth(1), 11 * table.fontMetrics().averageCharWidth());
}

QString heading_of(const TimelineView* half) {
    for (const QLabel* label :
         reinterpret_cast<const QWidget*>(half)->parentWidget()->findChildren<QLabel*>())
        if (label->text().contains("step")) return label->text();
    return {};
}

// One name means one figure: the steady step in the headline and the table, the drawn one in the headings.
TEST(Readable, CompareNamesWhichStepItMeans) {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    Workbench& workbench = window.workbench();
    find_small_plans(workbench);
    ComparePanel* compare = window.compare();
    const auto* headline = compare->findChild<QLabel*>("headline");
    workbench.pin(0, workbench.plans()[0].id);
    workbench.pin(1, workbench.plans()[1].id);
    window.show_only(compare);
    ASSERT_TRUE(wait_idle(workbench));
    const auto figure = [&](const QString& name, int side) {
        const QAbstractItemModel& model = *compare->table()->model();
        for (int row = 0; row < model.rowCount(); ++row)
            if (model.index(row, 0).data().toString() == name)
                return model.index(row, side).data().toString();
        return QString();
    };
    const QString steps =
        QString("steady step: A %1, B %2").arg(figure("step time", 1), figure("step time", 2));
    EXPECT_TRUE(headline->text().startsWith(steps))
        << headline->text().toStdString() << " not " << steps.toStdString();
    const QString bubbles = QString("bubble A %1, B %2").arg(figure("bubble", 1), figure("bubble", 2));
    EXPECT_TRUE(headline->text().contains(bubbles))
        << headline->text().toStdString() << " not " << bubbles.toStdString();
    EXPECT_GE(headline->height(), headline->heightForWidth(headline->width()));
    EXPECT_TRUE(heading_of(compare->timelines()->first()).contains("step 1 alone: "));
}

// Of a table and of nodes that scroll, all are in a picture of the view.
TEST(Readable, PicturesHoldWhatIsScrolledAway) {
    const QTemporaryDir folder;
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    find_large_plan(window.workbench());
    PlansPanel* plans = window.plans();
    plans->set_show_infeasible(true);
    window.show_only(plans);
    plans->resize(900, 90);  // as in a low dock
    QTableView* table = plans->table();
    const int rows = table->model()->rowCount();
    ASSERT_GT(table->verticalHeader()->length(), table->viewport()->height());
    const QSize whole = plans->picture_size();
    EXPECT_GE(whole.height(), rows * table->rowHeight(0));
    const QSize before = plans->size();
    QImage image(whole, QImage::Format_RGB32);
    image.fill(Qt::magenta);
    {
        QPainter painter(&image);
        plans->paint_view(painter, whole);
    }
    EXPECT_EQ(plans->size(), before);
    // The last rows have ink; below them is at most the room of a scroll bar.
    int inks = 0;
    for (int y = whole.height() - 2 * table->rowHeight(0) - 16; y < whole.height(); ++y)
        for (int x = 0; x < whole.width(); ++x)
            inks += image.pixelColor(x, y).lightness() < 160 ? 1 : 0;
    EXPECT_GT(inks, 100);
    EXPECT_EQ(export_picture(*plans, folder.filePath("plans.png"), 1).toStdString(), "");
    EXPECT_GE(QImage(folder.filePath("plans.png")).height(), rows * table->rowHeight(0));
}

// Several values of a constraint are ticked at one opening of its menu, by mouse and by key.
TEST(Readable, AMenuOfValuesStaysOpen) {
    MainWindow window(false);
    window.show();
    Workbench& workbench = window.workbench();
    workbench.edit_setup(small_setup(), "test");
    ASSERT_TRUE(wait_idle(workbench));
    QMenu* menu = nullptr;
    for (const QToolButton* button : window.panel("setup")->findChildren<QToolButton*>())
        if (button->text() == "pp") menu = button->menu();
    ASSERT_NE(menu, nullptr);
    menu->popup({0, 0});
    QAction *any = nullptr, *one = nullptr, *two = nullptr;
    for (QAction* action : menu->actions()) {
        if (action->text() == "any") any = action;
        if (action->text() == "1") one = action;
        if (action->text() == "2") two = action;
    }
    ASSERT_TRUE(any != nullptr && one != nullptr && two != nullptr);
    EXPECT_TRUE(any->isChecked());
    QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(one).center());
    EXPECT_TRUE(menu->isVisible());
    EXPECT_EQ(workbench.setup().fix, "pp=1");
    EXPECT_FALSE(any->isChecked());
    menu->setActiveAction(two);
    QTest::keyClick(menu, Qt::Key_Space);
    EXPECT_TRUE(menu->isVisible());
    EXPECT_EQ(workbench.setup().fix, "pp=1|2");
    EXPECT_TRUE(one->isChecked() && two->isChecked());
    QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(any).center());
    EXPECT_EQ(workbench.setup().fix, "");
    EXPECT_TRUE(any->isChecked() && !one->isChecked());
    QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(any).center());
    EXPECT_TRUE(any->isChecked());  // a tick that changes nothing is still there
    QTest::keyClick(menu, Qt::Key_Escape);
    EXPECT_FALSE(menu->isVisible());
}

// The names of plans are whole where the table is narrow: those that differ in their last word look alike
// else.
TEST(Readable, NamesOfPlansAreWhole) {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    find_large_plan(window.workbench());
    const QTableView* table = window.plans()->table();
    for (int row = 0; row < table->model()->rowCount(); ++row) {
        const QString name = table->model()->index(row, PlansModel::kPlan).data().toString();
        EXPECT_GE(table->columnWidth(PlansModel::kPlan), table->fontMetrics().horizontalAdvance(name));
    }
}

// The timeline exports the trace that it shows, also where no plan was simulated.
TEST(Readable, AMeasuredTimelineIsExported) {
    const QTemporaryDir folder;
    QFile file(folder.filePath("t.json"));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(R"({"schemaVersion": 1, "traceEvents": [
{"ph": "X", "name": "gemm", "cat": "kernel", "pid": 0, "tid": 7, "ts": 10, "dur": 5}]})");
    file.close();
    const QString exported = folder.filePath("out.json");
    answer_file_names([&](bool saving, const QString&) { return saving ? exported : QString(); });
    MainWindow window(false);
    window.show();
    window.open({file.fileName()});
    ASSERT_TRUE(wait_idle(window.workbench()));
    window.actions().action("file.export_trace")->trigger();
    window.workbench().cancel();  // what is being written is written
    ASSERT_TRUE(wait_idle(window.workbench()));
    answer_file_names({});
    Workbench other;
    other.open({exported});
    ASSERT_TRUE(wait_idle(other));
    ASSERT_EQ(other.measured().size(), 1U);
    EXPECT_EQ(other.measured()[0].model->name(0), "gemm");
    EXPECT_EQ(other.measured()[0].model->origin(), "PyTorch");
}

}  // namespace
}  // namespace tw::gui

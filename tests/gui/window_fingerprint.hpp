// What a user could notice of a window, as lines of text: two of them differ where an action has done
// something.
#pragma once

#include <QAction>
#include <QClipboard>
#include <QDir>
#include <QFileInfo>
#include <QMessageBox>
#include <QStatusBar>
#include <QTableView>

#include "gui/item_models/plans_model.hpp"
#include "gui/view/view_state_json.hpp"
#include "gui/widgets/command_palette.hpp"
#include "gui/widgets/pareto_panel.hpp"
#include "gui/widgets/plans_panel.hpp"
#include "gui/widgets/plot.hpp"
#include "gui/widgets/prompt_bar.hpp"
#include "gui/widgets/run_panel.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "gui/widgets/trace_panels.hpp"
#include "tests/gui/window_fixtures.hpp"

namespace tw::gui {

inline QString fingerprint(MainWindow& window, const QDir& folder, int asked) {
    QStringList lines;
    const auto say = [&](const char* name, const QString& value) {
        lines.append(QString("%1: %2").arg(QLatin1String(name), value));
    };
    const auto number = [&](const char* name, qint64 value) { say(name, QString::number(value)); };
    Workbench& workbench = window.workbench();
    // The timeline.
    const TimelineView* view = window.timeline()->view();
    if (view->trace()) say("view", QString::fromStdString(to_json(view->state(), *view->trace()).dump()));
    number("task", view->selected_task());
    say("search", view->search_status());
    const auto* prompt = view->findChild<PromptBar*>();
    number("prompt", prompt->isVisible() ? 1 : 0);
    // Where one is.
    const QWidget* focus = QApplication::focusWidget();
    say("focus", focus == nullptr ? "none" : QString::number(reinterpret_cast<quintptr>(focus), 16));
    for (const Panel* panel : window.panels())
        number("panel", panel->isVisible() && !panel->visibleRegion().isEmpty() ? 1 : 0);
    number("window", window.isVisible() ? 1 : 0);
    number("palette", window.palette_box()->isVisible() ? 1 : 0);
    number("sheet", window.key_sheet_box()->isVisible() ? 1 : 0);
    number("boxes", window.findChildren<QMessageBox*>().size());
    // Plans.
    number("plans", static_cast<qint64>(workbench.plans().size()));
    number("rows", window.plans()->table()->model()->rowCount());
    number("rules", window.plans()->table()->isColumnHidden(PlansModel::rule_column()) ? 0 : 1);
    number("shown", workbench.shown().id);
    if (workbench.shown().plan) say("plan", QString::fromStdString(summary(*workbench.shown().plan)));
    for (const int side : {0, 1})
        number("pinned", workbench.pinned(side) == nullptr ? 0 : workbench.pinned(side)->id);
    // Work, edits, words.
    for (const Jobs::Row& row : workbench.jobs().rows())
        say("job", row.title + " " + row.text);
    number("running", window.run()->running() ? 1 : 0);
    number("undo", workbench.undo().index());
    number("edits", workbench.undo().count());
    number("problems", static_cast<qint64>(workbench.problems().size()));
    say("status", window.statusBar()->currentMessage());
    say("clipboard", QApplication::clipboard()->text());
    number("dark", current_theme() == Theme::Dark ? 1 : 0);
    say("text", QString::number(QApplication::font().pointSizeF()));
    number("asked", asked);
    for (const QFileInfo& file : folder.entryInfoList(QDir::Files))
        say("file", QString("%1 %2").arg(file.fileName()).arg(file.lastModified().toMSecsSinceEpoch()));
    // The scatter, as it looks.
    const QImage scatter = qobject_cast<ParetoPanel*>(window.panel("pareto"))
                               ->plot()
                               ->grab()
                               .toImage()
                               .convertToFormat(QImage::Format_RGB32);
    number("scatter", static_cast<qint64>(
                          qHashBits(scatter.constBits(), static_cast<std::size_t>(scatter.sizeInBytes()))));
    return lines.join('\n');
}

}  // namespace tw::gui

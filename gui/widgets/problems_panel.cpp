#include "gui/widgets/problems_panel.hpp"

#include <QLabel>
#include <QTimer>
#include <QVBoxLayout>
#include <utility>

#include "gui/app/workbench.hpp"
#include "gui/item_models/value_table.hpp"
#include "gui/widgets/table_view.hpp"

namespace tw::gui {

ProblemsPanel::ProblemsPanel(Workbench& workbench, QWidget* parent)
    : Panel("problems", tr("Problems"), parent), workbench_(workbench) {
    model_ = new ValueTable(this);
    model_->set_columns({{tr("Kind")}, {tr("Where")}, {tr("What")}, {tr("Instead")}});
    table_ = new TableView(tr("Problems"));
    table_->show_model(model_);
    table_->wrap_texts();
    table_->setToolTip(tr("Return: go to the field."));
    empty_ = new QLabel(tr("No problems."));
    empty_->setAlignment(Qt::AlignCenter);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(table_);
    layout->addWidget(empty_);
    connect(table_, &QTableView::activated, this,
            [this](const QModelIndex& at) { Q_EMIT place_chosen(at.siblingAtColumn(1).data().toString()); });
    connect(&workbench, &Workbench::problems_changed, this, &ProblemsPanel::follow);
    follow();
}

QTableView* ProblemsPanel::table() const {
    return table_;
}

void ProblemsPanel::follow() {
    std::vector<std::vector<Cell>> rows;
    int errors = 0;
    for (const Problem& problem : workbench_.problems()) {
        const bool error = problem.severity == Problem::Severity::Error;
        const bool warning = problem.severity == Problem::Severity::Warning;
        errors += error ? 1 : 0;
        const Tone tone = error ? Tone::Bad : warning ? Tone::Warning : Tone::Faint;
        rows.push_back({{error     ? tr("error")
                         : warning ? tr("warning")
                                   : tr("note"),
                         {},
                         tone},
                        {problem.where},
                        {problem.message, {}, Tone::Plain, problem.message},
                        {problem.hint, {}, Tone::Faint, problem.hint}});
    }
    const bool more = errors > errors_;
    errors_ = errors;
    empty_->setVisible(rows.empty());
    table_->setVisible(!rows.empty());
    model_->set_rows(std::move(rows));
    // Once for all that is told together: an import may find hundreds.
    if (!std::exchange(fit_due_, true))
        QTimer::singleShot(0, this, [this] {
            fit_due_ = false;
            table_->fit_columns(2);
        });
    if (more) Q_EMIT error_appeared();
}

}  // namespace tw::gui

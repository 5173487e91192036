#include "gui/widgets/compare_panel.hpp"

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QSplitter>
#include <QTabWidget>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "gui/actions.hpp"
#include "gui/app/workbench.hpp"
#include "gui/item_models/report_rows.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/widgets/compare_timelines.hpp"
#include "gui/widgets/table_view.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "gui/worker/plan_fields.hpp"
#include "gui/worker/tasks.hpp"
#include "plan/trace/compare.hpp"

namespace tw::gui {
namespace {

constexpr int kShown = 0;

}  // namespace

// One side made ready in the background.
struct ComparedSide {
    QString name;
    bool measured = false;
    std::shared_ptr<const SimulationReport> report;  // plans
    std::shared_ptr<const ParallelPlan> plan;        // plans
    std::shared_ptr<const Trace> trace;              // null: a foreign trace
    std::shared_ptr<const TraceModel> model;
    StudyPtr study;  // plans that are still to be simulated
};

struct Compared {
    std::array<ComparedSide, 2> sides;
    std::optional<TraceComparison> traces;  // where both name instructions
    Errors errors;
};

namespace {

// The steady steps of both: of a prediction the last, of a run all but the first, which warms up. Where A
// alone was measured it is A that is judged by, and the answer is turned so that A is still the first.
TraceComparison compare_steady(const ComparedSide& a, const ComparedSide& b) {
    const bool turned = a.measured && !b.measured;
    const ComparedSide &first = turned ? b : a, &second = turned ? a : b;
    CompareOptions options;
    options.steady = true;
    const int steps = second.trace->steps;
    options.first_measured_step = !second.measured ? std::max(0, steps - 1) : steps > 2 ? 1 : 0;
    TraceComparison compared = compare_traces(*first.trace, *second.trace, options);
    if (!turned) return compared;
    std::swap(compared.predicted_step_s, compared.measured_step_s);
    std::swap(compared.predicted_bubble, compared.measured_bubble);
    for (ErrorRow& row : compared.rows) {
        std::swap(row.predicted_s, row.measured_s);
        row.measured_sigma_s = 0;  // it is of A, and the cell of B's
    }
    return compared;
}

// "75.1 ms (mean of 19 steps, ± 3.1 ms)"; of a plan the time alone.
QString steady_text(const ComparedSide& side, double seconds, const TraceComparison& compared, bool judge) {
    QString text = QString::fromStdString(format_duration(seconds));
    if (!side.measured) return text;
    if (!judge) return text + QObject::tr(" (its last step)");
    return text + QObject::tr(" (mean of %1 steps, ± %2)")
                      .arg(compared.measured_steps)
                      .arg(QString::fromStdString(format_duration(compared.measured_step_sigma_s)));
}

}  // namespace

ComparePanel::ComparePanel(Workbench& workbench, const ActionSet& actions, QWidget* parent)
    : Panel("compare", tr("Compare"), parent), workbench_(workbench) {
    auto* bar = new QHBoxLayout;
    bar->setContentsMargins(6, 3, 6, 3);
    bar->setSpacing(6);
    for (std::size_t side = 0; side < 2; ++side) {
        sides_[side] = new QComboBox;
        sides_[side]->setAccessibleName(side == 0 ? tr("Side A") : tr("Side B"));
        sides_[side]->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
        sides_[side]->setMinimumContentsLength(18);
        bar->addWidget(new QLabel(side == 0 ? tr("A") : tr("B")));
        bar->addWidget(sides_[side], 2);
        connect(sides_[side], &QComboBox::activated, this, [this] {
            stale_ = true;
            compare();
        });
    }
    headline_ = new QLabel;
    headline_->setObjectName("headline");
    headline_->setWordWrap(true);
    headline_->setContentsMargins(8, 0, 8, 3);
    headline_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    timelines_ = new CompareTimelines;
    actions.attach(timelines_, ActionContext::Timeline);
    const auto table = [this](const QString& name, ValueTable*& model, std::vector<TableColumn> columns) {
        model = new ValueTable(this);
        model->set_columns(std::move(columns));
        auto* view = new TableView(name);
        view->show_model(model, true);
        view->wrap_texts();
        return view;
    };
    figure_table_ = table(tr("Figures of A and B"), figures_, figure_columns("A", "B"));
    field_table_ = table(tr("Fields in which the plans differ"), fields_, {{tr("Field")}, {"A"}, {"B"}});
    instruction_table_ =
        table(tr("Instructions of A and B"), instructions_, comparison_columns("A", "B", false));
    tabs_ = new QTabWidget;
    tabs_->setDocumentMode(true);
    tabs_->setMinimumWidth(fontMetrics().averageCharWidth() * 48);  // figures of both and their difference
    tabs_->addTab(figure_table_, tr("Figures"));
    tabs_->addTab(instruction_table_, tr("By opcode and stage"));
    tabs_->addTab(field_table_, tr("Fields"));
    auto* split = new QSplitter(Qt::Horizontal);
    split->addWidget(timelines_);
    split->addWidget(tabs_);
    split->setSizes({1080, 480});
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addLayout(bar);
    layout->addWidget(headline_);
    layout->addWidget(split, 1);
    const auto changed = [this] {
        fill_sides();
        stale_ = true;
        if (is_seen()) compare();
    };
    connect(&workbench, &Workbench::plans_changed, this, [this] {
        if (is_seen()) fill_sides();
    });
    connect(&workbench, &Workbench::measured_changed, this, [this, changed] {
        if (!workbench_.measured().empty()) last_[1] = -static_cast<int>(workbench_.measured().size());
        changed();
    });
    connect(&workbench, &Workbench::pins_changed, this, [this, changed] {
        for (int side = 0; side < 2; ++side)
            if (const PlanEntry* entry = workbench_.pinned(side))
                last_[static_cast<std::size_t>(side)] = entry->id;
        changed();
    });
    connect(&workbench, &Workbench::shown_changed, this, [this] {
        if (workbench_.shown().running) return;
        stale_ = true;
        if (is_seen()) compare();
    });
    fill_sides();
}

ComparePanel::~ComparePanel() = default;

QTableView* ComparePanel::table() const {
    return qobject_cast<QTableView*>(tabs_->currentWidget());
}

void ComparePanel::come_into_view() {
    fill_sides();
    if (stale_) compare();
}

void ComparePanel::fill_sides() {
    for (std::size_t side = 0; side < 2; ++side) {
        QComboBox* box = sides_[side];
        box->clear();
        box->addItem(tr("the selected plan"), kShown);
        for (std::size_t m = 0; m < workbench_.measured().size(); ++m)
            box->addItem(tr("measured: %1").arg(workbench_.measured()[m].name()), -1 - static_cast<int>(m));
        for (const PlanEntry& entry : workbench_.plans())
            if (entry.feasible()) box->addItem(QString::fromStdString(plan_name(entry)), entry.id);
        const int at = box->findData(last_[side]);
        box->setCurrentIndex(std::max(0, at));
    }
}

void ComparePanel::choose(int side, int source) {
    QComboBox* box = sides_[static_cast<std::size_t>(side)];
    const int at = box->findData(source);
    if (at >= 0) box->setCurrentIndex(at);
}

void ComparePanel::compare_with_measured() {
    if (workbench_.measured().empty())
        return workbench_.report({Problem::Severity::Note, "compare", tr("there is no measured trace yet"),
                                  tr("Run the plan, or open a trace.")});
    choose(0, kShown);
    choose(1, -static_cast<int>(workbench_.measured().size()));
    stale_ = true;
    compare();
}

void ComparePanel::compare() {
    stale_ = false;
    Compared compared;
    for (std::size_t i = 0; i < 2; ++i) {
        const int source = sides_[i]->currentData().toInt();
        last_[i] = source;
        ComparedSide& side = compared.sides[i];
        side.name = (i == 0 ? "A: " : "B: ") + sides_[i]->currentText();
        if (source < 0) {
            const Measured& measured = workbench_.measured()[static_cast<std::size_t>(-1 - source)];
            side.measured = true;
            side.trace = measured.trace;
            side.model = measured.model;
        } else if (source == kShown) {
            const Shown& shown = workbench_.shown();
            if (!shown.report) continue;
            side.report = shown.report;
            side.plan = shown.plan;
            side.model = shown.trace;
            side.trace = std::shared_ptr<const Trace>(shown.report, &shown.report->trace);
            side.name = (i == 0 ? "A: " : "B: ") + QString::fromStdString(summary(*shown.plan));
        } else if (const PlanEntry* entry = workbench_.plan(source)) {
            side.study = entry->study;
            side.plan = std::make_shared<const ParallelPlan>(entry->plan);
        }
    }
    workbench_.jobs().start(
        "compare", tr("Comparing"), [this, compared](JobContext& context) mutable -> std::function<void()> {
            for (ComparedSide& side : compared.sides) {
                if (context.cancelled()) return {};
                if (!side.study) continue;
                auto simulated = simulate_plan(*side.study, *side.plan);
                if (!simulated) {
                    compared.errors = simulated.errors();
                    continue;
                }
                side.report = simulated->report;
                side.model = simulated->trace;
                side.trace = std::shared_ptr<const Trace>(side.report, &side.report->trace);
            }
            const auto& [a, b] = compared.sides;
            if (a.trace && b.trace && !context.cancelled()) compared.traces = compare_steady(a, b);
            return [this, compared] { take(compared); };
        });
}

void ComparePanel::take(const Compared& compared) {
    const auto& [a, b] = compared.sides;
    // A prediction is judged by what was measured; of two of a kind B is by A, as in the figures.
    const bool judged_by_a = a.measured || !b.measured;
    const auto step_of = [](const ComparedSide& side) {
        return side.model && side.model->step_ends().size() > 1 ? 1 : 0;
    };
    timelines_->set_traces(a.model, b.model, a.name, b.name, step_of(a), step_of(b));
    timelines_->show_step();
    if (!compared.errors.empty()) workbench_.report(compared.errors, "compare");
    figures_->set_rows(figure_rows(a.report.get(), b.report.get()));
    std::vector<std::vector<Cell>> fields;
    if (a.plan && b.plan)
        for (const FieldDifference& f : field_differences(*a.plan, *b.plan))
            fields.push_back({{QString::fromStdString(f.title)},
                              {QString::fromStdString(f.first)},
                              {QString::fromStdString(f.second)}});
    fields_->set_rows(std::move(fields));
    instructions_->set_columns(comparison_columns("A", "B", judged_by_a));
    instructions_->set_rows(compared.traces ? comparison_rows(*compared.traces, judged_by_a) : TableRows{});
    QString text;
    if (compared.traces) {
        // Both steady; the headings below name the step that is drawn.
        const TraceComparison& t = *compared.traces;
        const double change = judged_by_a ? t.measured_step_s / t.predicted_step_s - 1 : t.step_error();
        text = tr("steady step: A %1, B %2, %3 %4 · bubble A %5, B %6")
                   .arg(steady_text(a, t.predicted_step_s, t, !b.measured),
                        steady_text(b, t.measured_step_s, t, true),
                        judged_by_a ? tr("B against A") : tr("A against B"),
                        QString::fromStdString(fmt::format("{:+.1f} %", 100 * change)),
                        QString::fromStdString(format_percent(t.predicted_bubble)),
                        QString::fromStdString(format_percent(t.measured_bubble)));
        // As the timelines below join and count them.
        const std::int64_t only_a = timelines_->only_in(0), only_b = timelines_->only_in(1);
        if (only_a + only_b > 0) text += tr(" · %1 tasks only in A, %2 only in B").arg(only_a).arg(only_b);
    } else if (!a.model || !b.model) {
        text = tr("Pin plans (P, Shift+P in the table) or open a measured trace.");
    }
    headline_->setText(text);
    headline_->setVisible(!text.isEmpty());
    figure_table_->fit_columns(0);
    field_table_->fit_columns(0);
    instruction_table_->fit_columns(0);
    const bool measurement = a.measured || b.measured;
    if (measurement && compared.traces) tabs_->setCurrentWidget(instruction_table_);
}

QSize ComparePanel::picture_size() const {
    return timelines_->size_of_all_rows().toSize();
}

void ComparePanel::paint_view(QPainter& painter, const QSize& size) {
    timelines_->paint(painter, size);
}

}  // namespace tw::gui

#include "gui/widgets/compare_timelines.hpp"

#include <QEvent>
#include <QLabel>
#include <QPainter>
#include <QSplitter>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "base/si_format.hpp"
#include "gui/view/trace_difference.hpp"
#include "gui/widgets/timeline_style.hpp"
#include "gui/widgets/timeline_view.hpp"

namespace tw::gui {
namespace {

QString text_of(std::string_view text) {
    return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

// When a step begins: the end of the one before it.
SimTime begin_of_step(const TraceModel& model, int step) {
    if (step <= 0 || model.step_ends().empty()) return model.begin();
    const auto at = std::min<std::size_t>(static_cast<std::size_t>(step) - 1, model.step_ends().size() - 1);
    return model.step_ends()[at];
}

}  // namespace

namespace {

struct StepCount {
    std::int64_t tasks = 0, apart = 0, alone = 0;
};

}  // namespace

struct CompareTimelines::State {
    TimelineView* views[2] = {nullptr, nullptr};
    QLabel* headings[2] = {nullptr, nullptr};
    QString names[2];
    int steps[2] = {-1, -1};
    SimTime shifts[2] = {0, 0};
    TraceDifference difference;
    double tolerance = 0.10;
    bool locked = true;
    bool syncing = false;

    [[nodiscard]] const TraceModel* model(int half) const { return views[half]->trace().get(); }

    void align() {
        for (int h = 0; h < 2; ++h) {
            shifts[h] = model(h) == nullptr ? 0 : begin_of_step(*model(h), steps[h]);
            views[h]->set_time_shift(shifts[h]);
        }
        if (model(0) == nullptr || model(1) == nullptr) return;
        // One axis: the shorter trace can be left as far as the longer one reaches.
        for (int h = 0; h < 2; ++h) {
            const SimTime by = shifts[h] - shifts[1 - h];
            views[h]->set_least_extent(model(1 - h)->begin() + by, model(1 - h)->end() + by);
        }
        const int between = std::max(0, steps[1]) - std::max(0, steps[0]);
        difference = tw::difference(*model(0), *model(1), between);
        views[0]->set_differences(difference.first);
        views[1]->set_differences(difference.second);
        follow(0);
    }

    // Of the step that is shown.
    [[nodiscard]] int shown_step(int half) const {
        const int steps_of = std::max<int>(1, static_cast<int>(model(half)->step_ends().size()));
        return std::clamp(steps[half], 0, steps_of - 1);
    }
    [[nodiscard]] StepCount count(int half) const {
        StepCount counted;
        const std::vector<float>& d = half == 0 ? difference.first : difference.second;
        const int step = shown_step(half);
        for (TaskId task = 0; task < d.size(); ++task) {
            const TraceEvent* event = model(half)->event(task);
            if (event == nullptr || event->step != step) continue;
            ++counted.tasks;
            counted.alone += std::isnan(d[task]) ? 1 : 0;
            counted.apart += std::abs(d[task]) > static_cast<float>(tolerance) ? 1 : 0;
        }
        return counted;
    }

    // A time lies in the same column of pixels in both.
    void share_names_width() {
        const int widest = std::max(views[0]->needed_names_width(), views[1]->needed_names_width());
        for (TimelineView* const view : views)
            view->set_least_names_width(widest);
    }

    // The other half shows the same span of its own time.
    void follow(int leader) {
        if (!locked || syncing) return;
        const int other = 1 - leader;
        if (model(0) == nullptr || model(1) == nullptr) return;
        syncing = true;
        const SimTime by = shifts[other] - shifts[leader];
        views[other]->set_visible(views[leader]->visible_begin() + by, views[leader]->visible_end() + by);
        syncing = false;
    }

    // Folding and filtering go together as long as the tracks are alike.
    void share_tracks(int leader, const ViewState& before, const ViewState& after) {
        if (!locked || model(0) == nullptr || model(1) == nullptr) return;
        if (model(0)->lanes().size() != model(1)->lanes().size()) return;
        if (before.tracks == after.tracks && before.scroll == after.scroll && before.options == after.options)
            return;
        ViewState state = views[1 - leader]->state();
        state.tracks = after.tracks;
        state.options = after.options;
        state.scroll = after.scroll;
        syncing = true;
        views[1 - leader]->set_state(state);
        syncing = false;
    }

    void select_partner(int leader, TaskId task) {
        if (syncing) return;
        const auto& partners = leader == 0 ? difference.partner_of_first : difference.partner_of_second;
        syncing = true;
        const TaskId partner = task < partners.size() ? partners[task] : kNoTask;
        views[1 - leader]->select_task(partner, partner != kNoTask);
        syncing = false;
    }

    void head() {
        for (int h = 0; h < 2; ++h) {
            QString text = names[h].toHtmlEscaped();
            if (const TraceModel* const m = model(h)) {
                const int step = shown_step(h);
                const SimTime end =
                    m->step_ends().empty() ? m->end() : m->step_ends()[static_cast<std::size_t>(step)];
                text = QStringLiteral("<b>%1</b> · %2 · step %3 alone: %4")
                           .arg(text, text_of(m->origin()).toHtmlEscaped())
                           .arg(step)
                           .arg(text_of(format_sim_time(end - begin_of_step(*m, step), 4)));
                if (!difference.first.empty()) {
                    const auto [tasks, apart, alone] = count(h);
                    text += QStringLiteral(" · %1 of its %2 tasks differ by more than %3 %")
                                .arg(text_of(format_count(apart)), text_of(format_count(tasks)))
                                .arg(tolerance * 100, 0, 'f', 0);
                    if (alone > 0)
                        text +=
                            QStringLiteral(", %1 are only here (dashed)").arg(text_of(format_count(alone)));
                    const TimelineStyle style = make_timeline_style(views[h]->palette(), views[h]->font());
                    if (apart > 0)
                        text += QStringLiteral(
                                    "; <span style='color:%1'>▀</span>&nbsp;longer&nbsp;than&nbsp;%3, "
                                    "<span style='color:%2'>▄</span>&nbsp;shorter")
                                    .arg(style.alarm.name(), style.accent.name(), h == 0 ? "B" : "A");
                }
            }
            headings[h]->setText(text);
        }
    }
};

CompareTimelines::CompareTimelines(QWidget* parent) : QWidget(parent), s_(std::make_unique<State>()) {
    setAccessibleName(tr("Two timelines on one axis"));
    auto* const splitter = new QSplitter(Qt::Vertical, this);
    for (int h = 0; h < 2; ++h) {
        auto* const half = new QWidget(splitter);
        auto* const column = new QVBoxLayout(half);
        column->setContentsMargins(0, 0, 0, 0);
        column->setSpacing(0);
        s_->headings[h] = new QLabel(half);
        s_->headings[h]->setContentsMargins(8, 3, 8, 3);
        s_->headings[h]->setTextFormat(Qt::RichText);
        s_->headings[h]->setWordWrap(true);
        s_->views[h] = new TimelineView(half);
        s_->views[h]->setAccessibleName(h == 0 ? tr("First timeline") : tr("Second timeline"));
        s_->views[h]->set_empty_text(h == 0 ? tr("Choose what to compare")
                                            : tr("Choose what to compare it with"));
        column->addWidget(s_->headings[h]);
        column->addWidget(s_->views[h], 1);
        splitter->addWidget(half);
        TimelineView* const view = s_->views[h];
        connect(view, &TimelineView::visible_changed, this, [this, h] { s_->follow(h); });
        connect(view, &TimelineView::needed_names_width_changed, this, [this] { s_->share_names_width(); });
        connect(view, &TimelineView::task_selected, this,
                [this, h](TaskId task) { s_->select_partner(h, task); });
        connect(view, &TimelineView::status_text, this, &CompareTimelines::status_text);
        connect(view, &TimelineView::cursor_moved, this, [this, h](std::optional<SimTime> time) {
            TimelineView* const other = s_->views[1 - h];
            other->set_cursor_time(time ? std::optional(*time + s_->shifts[1 - h] - s_->shifts[h])
                                        : std::nullopt);
            Q_EMIT cursor_moved(time ? std::optional(*time - s_->shifts[h]) : std::nullopt);
        });
        connect(view, &TimelineView::view_changed, this,
                [this, h](const ViewState& before, const ViewState& after, ViewChange) {
                    s_->share_tracks(h, before, after);
                });
    }
    auto* const layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(splitter);
    setFocusProxy(s_->views[0]);
}

CompareTimelines::~CompareTimelines() = default;

void CompareTimelines::set_traces(std::shared_ptr<const TraceModel> first,
                                  std::shared_ptr<const TraceModel> second, const QString& first_name,
                                  const QString& second_name, int first_step, int second_step) {
    s_->steps[0] = first_step;
    s_->steps[1] = second_step;
    s_->names[0] = first_name;
    s_->names[1] = second_name;
    s_->difference = {};
    s_->syncing = true;
    s_->views[0]->set_trace(std::move(first));
    s_->views[1]->set_trace(std::move(second));
    s_->syncing = false;
    s_->align();
    // As much as the longer one needs.
    if (s_->model(0) != nullptr && s_->model(1) != nullptr) {
        const int longer = s_->model(1)->end() - s_->shifts[1] > s_->model(0)->end() - s_->shifts[0] ? 1 : 0;
        s_->follow(longer);
    }
    s_->head();
}

void CompareTimelines::align_steps(int first_step, int second_step) {
    s_->steps[0] = first_step;
    s_->steps[1] = second_step;
    s_->align();
    s_->head();
}

void CompareTimelines::show_step() {
    // The longer of both steps fits.
    int leader = -1;
    SimTime longest = 0;
    for (int h = 0; h < 2; ++h) {
        const TraceModel* const model = s_->model(h);
        if (model == nullptr || model->step_ends().empty()) continue;
        const SimTime length =
            model->step_ends()[static_cast<std::size_t>(s_->shown_step(h))] - s_->shifts[h];
        if (length > longest) leader = h, longest = length;
    }
    if (leader < 0) return;
    const SimTime begin = s_->shifts[leader];
    s_->views[leader]->set_visible(begin - longest / 20, begin + longest + longest / 8);
    s_->follow(leader);
}

std::int64_t CompareTimelines::only_in(int half) const {
    return s_->difference.first.empty() ? 0 : s_->count(half).alone;
}

void CompareTimelines::set_tolerance(double relative) {
    s_->tolerance = relative;
    for (TimelineView* const view : s_->views)
        view->set_tolerance(relative);
    s_->head();
}

void CompareTimelines::set_locked(bool locked) {
    s_->locked = locked;
    s_->follow(0);
}

bool CompareTimelines::locked() const {
    return s_->locked;
}

TimelineView* CompareTimelines::first() const {
    return s_->views[0];
}

TimelineView* CompareTimelines::second() const {
    return s_->views[1];
}

void CompareTimelines::set_state(TimelineView* view, const ViewState& state) {
    const ViewState before = view->state();
    view->set_state(state);
    s_->share_tracks(view == s_->views[0] ? 0 : 1, before, state);
}

bool CompareTimelines::perform(std::string_view id) {
    TimelineView* const view = s_->views[1]->hasFocus() ? s_->views[1] : s_->views[0];
    return view->perform(id);
}

QSizeF CompareTimelines::size_of_all_rows() const {
    const double head = QFontMetricsF(font()).height() + 8;
    const QSizeF a = s_->views[0]->size_of_all_rows(), b = s_->views[1]->size_of_all_rows();
    return {std::max(a.width(), b.width()), a.height() + b.height() + 2 * head};
}

void CompareTimelines::paint(QPainter& painter, const QSizeF& size) const {
    const double head = QFontMetricsF(font()).height() + 8;
    for (int h = 0; h < 2; ++h) {
        const double height = s_->views[h]->size_of_all_rows().height();
        painter.save();
        painter.fillRect(QRectF(0, 0, size.width(), head), palette().color(QPalette::Window));
        painter.setPen(palette().color(QPalette::WindowText));
        painter.setFont(font());
        painter.drawText(QRectF(8, 0, size.width() - 16, head), Qt::AlignVCenter | Qt::AlignLeft,
                         s_->names[h]);
        painter.translate(0, head);
        s_->views[h]->paint(painter, QSizeF(size.width(), height), /*all_rows=*/true);
        painter.restore();
        painter.translate(0, head + height);
    }
}

}  // namespace tw::gui

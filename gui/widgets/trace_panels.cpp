#include "gui/widgets/trace_panels.hpp"

#include <QComboBox>
#include <QLabel>
#include <QPainter>
#include <algorithm>

#include "gui/actions.hpp"
#include "gui/app/workbench.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/widgets/memory_view.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "gui/worker/study.hpp"

namespace tw::gui {
namespace {

// Text that gives way: a status line never decides how wide a panel is.
QLabel* elastic() {
    auto* label = new QLabel;
    label->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    label->setTextFormat(Qt::PlainText);
    return label;
}

}  // namespace

TimelinePanel::TimelinePanel(Workbench& workbench, const ActionSet& actions, QWidget* parent)
    : Panel("timeline", tr("Timeline"), parent), workbench_(workbench) {
    view_ = new TimelineView;
    view_->set_empty_text(tr("Select a plan, or drop a trace."));
    actions.attach(view_, ActionContext::Timeline);
    source_ = new QComboBox;
    source_->setAccessibleName(tr("Trace that is shown"));
    source_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    source_->setMinimumContentsLength(26);
    status_ = elastic();
    fill_below_bar(source_, status_, view_);
    connect(view_, &TimelineView::status_text, status_, &QLabel::setText);
    connect(source_, &QComboBox::activated, this, [this] {
        wanted_.clear();
        follow();
    });
    connect(&workbench, &Workbench::shown_changed, this, [this] {
        if (workbench_.shown().running) return;  // what is there stays until the simulation ends
        follow();
    });
    connect(&workbench, &Workbench::measured_changed, this, [this] {
        fill();
        // What was just opened is what one wants to see, unless a plan is being looked at.
        if (!find_wanted() && !workbench_.measured().empty() && !workbench_.shown().plan)
            source_->setCurrentIndex(source_->count() - 1);
        follow();
    });
    fill();
}

QString TimelinePanel::source() const {
    const auto index = static_cast<std::size_t>(std::max(0, source_->currentIndex()));
    return index > 0 && index <= workbench_.measured().size() ? workbench_.measured()[index - 1].path
                                                              : QString();
}

void TimelinePanel::show_source(const QString& path) {
    wanted_ = path;
    if (path.isEmpty()) source_->setCurrentIndex(0);
    find_wanted();
    follow();
}

bool TimelinePanel::find_wanted() {
    if (wanted_.isEmpty()) return false;
    for (std::size_t m = 0; m < workbench_.measured().size(); ++m)
        if (workbench_.measured()[m].path == wanted_) {
            source_->setCurrentIndex(static_cast<int>(m) + 1);
            wanted_.clear();
            return true;
        }
    return false;
}

void TimelinePanel::fill() {
    const int before = source_->currentIndex();
    source_->clear();
    source_->addItem(tr("predicted: the selected plan"));
    for (const Measured& measured : workbench_.measured())
        source_->addItem(tr("measured: %1").arg(measured.name()));
    source_->setCurrentIndex(std::clamp(before, 0, source_->count() - 1));
}

void TimelinePanel::follow() {
    const int source = source_->currentIndex();
    std::shared_ptr<const TraceModel> trace;
    if (source > 0 && static_cast<std::size_t>(source) <= workbench_.measured().size()) {
        trace = workbench_.measured()[static_cast<std::size_t>(source) - 1].model;
    } else {
        trace = workbench_.shown().trace;
    }
    if (trace == trace_) return;
    // An edit of the same shape keeps the zoom, so that one sees what moves.
    const bool same_shape = trace_ && trace && trace->ranks().size() == trace_->ranks().size() &&
                            trace->origin() == trace_->origin();
    trace_ = std::move(trace);
    view_->set_trace(trace_, same_shape);
    Q_EMIT trace_changed();
}

double TimelinePanel::headroom() const {
    const Shown& shown = workbench_.shown();
    return trace_ && trace_ == shown.trace && shown.study ? shown.study->environment->memory_headroom : 0;
}

QSize TimelinePanel::picture_size() const {
    return view_->size_of_all_rows().toSize();
}

void TimelinePanel::paint_view(QPainter& painter, const QSize& size) {
    view_->paint(painter, size, /*all_rows=*/true);
}

void TimelinePanel::focus_view() {
    view_->setFocus(Qt::ShortcutFocusReason);
}

MemoryPanel::MemoryPanel(TimelinePanel& timeline, const ActionSet& actions, QWidget* parent)
    : Panel("memory", tr("Memory"), parent) {
    view_ = new MemoryView;
    view_->set_empty_text(tr("Memory over time appears with a plan or a trace that recorded it."));
    actions.attach(view_, ActionContext::Timeline);
    mode_ = new QComboBox;
    mode_->setAccessibleName(tr("Curves over time, or bars of the peaks"));
    mode_->addItems({tr("over time"), tr("peaks of ranks")});
    status_ = elastic();
    fill_below_bar(mode_, status_, view_);
    TimelineView* other = timeline.view();
    connect(mode_, &QComboBox::currentIndexChanged, this, [this](int index) {
        view_->set_mode(index == 1 ? MemoryView::Mode::Bars : MemoryView::Mode::Curves);
    });
    connect(view_, &MemoryView::status_text, status_, &QLabel::setText);
    connect(&timeline, &TimelinePanel::trace_changed, this, [this, &timeline, other] {
        view_->set_trace(timeline.trace(), true);
        view_->set_headroom(timeline.headroom());
        view_->set_visible(other->visible_begin(), other->visible_end());
    });
    // One time axis and one cursor, at the same place of the window where one is above the other.
    view_->set_left_margin(other->names_width());
    connect(other, &TimelineView::names_width_changed, view_, &MemoryView::set_left_margin);
    connect(other, &TimelineView::visible_changed, view_, &MemoryView::set_visible);
    connect(view_, &MemoryView::visible_changed, other, &TimelineView::show_span);
    connect(other, &TimelineView::cursor_moved, view_, &MemoryView::set_cursor_time);
    connect(view_, &MemoryView::cursor_moved, other, &TimelineView::set_cursor_time);
    connect(view_, &MemoryView::rank_selected, other, [other](int rank) { other->highlight_ranks({rank}); });
}

void MemoryPanel::set_bars(bool bars) {
    mode_->setCurrentIndex(bars ? 1 : 0);
}

QSize MemoryPanel::picture_size() const {
    return view_->size_of_all_rows().toSize();
}

void MemoryPanel::paint_view(QPainter& painter, const QSize& size) {
    view_->paint(painter, size, /*all_rows=*/true);
}

void MemoryPanel::focus_view() {
    view_->setFocus(Qt::ShortcutFocusReason);
}

}  // namespace tw::gui

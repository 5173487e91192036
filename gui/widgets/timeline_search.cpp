// Searching tasks in the timeline: a few at a time, so that the window stays alive.
#include <algorithm>

#include "base/si_format.hpp"
#include "gui/widgets/timeline_state.hpp"

namespace tw::gui {
namespace {

constexpr std::size_t kTasksAtATime = 200'000;

}  // namespace

void TimelineView::State::open_search() {
    PromptBar::Handlers handlers;
    handlers.stays = true;
    handlers.changed = [this](const QString& text) { start_search(text); };
    handlers.accepted = [this](const QString&, bool backwards) { go_to_match(backwards); };
    handlers.closed = [this] { start_search({}); };
    prompt->open(TimelineView::tr("Search"), search_text,
                 TimelineView::tr("F mb3   mb:2-5   kind:dp   >5ms   rank:3"), std::move(handlers));
}

void TimelineView::State::start_search(const QString& text) {
    search_text = text;
    search = {};
    search_error.clear();
    search_jump = true;
    scene.found.clear();
    search_timer.stop();
    const Result<TaskQuery> query = parse_query(text.toStdString());
    if (!query) {
        search_error = QString::fromStdString(query.error().message);
    } else if (!query->empty() && scene.model != nullptr) {
        search = TaskSearch(scene.model, *query);
        search_timer.start(0);
    }
    prompt->set_status(view.search_status(), !search_error.isEmpty());
    dirty();
}

void TimelineView::State::search_step() {
    if (!search.step(kTasksAtATime)) return;
    search_timer.stop();
    scene.found = search.matches();
    std::sort(scene.found.begin(), scene.found.end());
    search_at = search.matches().size();
    // From what is visible on: the match that Enter goes to.
    prompt->set_status(view.search_status(), search.matches().empty());
    dirty();
}

void TimelineView::State::go_to_match(bool back) {
    if (search_timer.isActive()) {
        while (!search.done())
            search.step(kTasksAtATime);
        search_step();
    }
    if (!search.done() || search.matches().empty()) {
        if (search_text.isEmpty()) open_search();
        return;
    }
    const bool first_time = search_at >= search.matches().size();
    const TaskId from = first_time ? kNoTask : search.matches()[search_at];
    search_at = back ? search.before(from, scene.window.begin) : search.after(from, scene.window.begin);
    select(search.matches()[search_at], true);
    prompt->set_status(view.search_status());
    Q_EMIT view.status_text(view.search_status());
}

QString TimelineView::search_status() const {
    const State& s = *s_;
    if (!s.search_error.isEmpty()) return s.search_error;
    if (s.search_text.trimmed().isEmpty()) return {};
    if (s.search_timer.isActive()) return tr("searching …");
    const std::size_t count = s.search.matches().size();
    if (count == 0) return tr("no match");
    const QString total = QString::fromStdString(format_count(static_cast<std::int64_t>(count)));
    if (s.search_at >= count) return count == 1 ? tr("1 match") : tr("%1 matches").arg(total);
    return tr("%1 of %2")
        .arg(QString::fromStdString(format_count(static_cast<std::int64_t>(s.search_at) + 1)), total);
}

}  // namespace tw::gui

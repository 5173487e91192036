// What the timeline's actions do; the table of them is in gui/action_table.cpp.
#include <QListWidget>
#include <algorithm>
#include <array>
#include <cmath>

#include "base/si_format.hpp"
#include "gui/view/fuzzy.hpp"
#include "gui/view/time_text.hpp"
#include "gui/widgets/timeline_state.hpp"

namespace tw::gui {
namespace {

QString text_of(std::string_view text) {
    return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

}  // namespace

bool TimelineView::perform(std::string_view id) {
    State& s = *s_;
    if (!id.starts_with("timeline.")) return false;
    const std::string_view name = id.substr(9);
    using Do = void (*)(State&);
    static constexpr std::pair<std::string_view, Do> kActions[] = {
        {"zoom_in", [](State& v) { v.zoom(0.75); }},
        {"zoom_out", [](State& v) { v.zoom(1 / 0.75); }},
        {"pan_left",
         [](State& v) {
             v.change(ViewChange::Time,
                      [&] { v.set_window(v.limits().pan(v.scene.window, -v.scene.window.width * 0.12)); });
         }},
        {"pan_right",
         [](State& v) {
             v.change(ViewChange::Time,
                      [&] { v.set_window(v.limits().pan(v.scene.window, v.scene.window.width * 0.12)); });
         }},
        {"whole",
         [](State& v) {
             v.change(ViewChange::Time, [&] { v.set_window(v.limits().fit(v.scene.window.width)); });
         }},
        {"focus", [](State& v) { v.focus_selection(); }},
        {"next", [](State& v) { v.step_task(false); }},
        {"previous", [](State& v) { v.step_task(true); }},
        {"flow_next", [](State& v) { v.follow(false); }},
        {"flow_previous", [](State& v) { v.follow(true); }},
        {"track_up", [](State& v) { v.step_track(true); }},
        {"track_down", [](State& v) { v.step_track(false); }},
        {"scroll_up",
         [](State& v) {
             v.change(ViewChange::Scroll,
                      [&] { v.set_scroll(v.scene.scroll - v.scene.plot().height() * 0.8); });
         }},
        {"scroll_down",
         [](State& v) {
             v.change(ViewChange::Scroll,
                      [&] { v.set_scroll(v.scene.scroll + v.scene.plot().height() * 0.8); });
         }},
        {"search", [](State& v) { v.open_search(); }},
        {"search_next", [](State& v) { v.go_to_match(false); }},
        {"search_previous", [](State& v) { v.go_to_match(true); }},
        {"find_track", [](State& v) { v.open_finder(); }},
        {"pin", [](State& v) { v.toggle_pin(); }},
        {"hide", [](State& v) { v.hide_track(); }},
        {"show_hidden",
         [](State& v) {
             v.change(ViewChange::Tracks, [&] {
                 v.tracks.hidden.clear();
                 v.tracks.ranks.clear();
                 v.tracks.filter.clear();
                 v.relayout();
             });
         }},
        {"collapse",
         [](State& v) {
             if (const auto track = v.track_in_hand()) v.fold(*track);
         }},
        {"collapse_all", [](State& v) { v.fold_all(true); }},
        {"expand_all", [](State& v) { v.fold_all(false); }},
        {"filter", [](State& v) { v.open_filter(); }},
        {"mark", [](State& v) { v.add_mark(); }},
        {"note", [](State& v) { v.add_note(); }},
        {"delete_mark", [](State& v) { v.delete_note(); }},
        {"range_left", [](State& v) { v.move_range_end(true); }},
        {"range_right", [](State& v) { v.move_range_end(false); }},
        {"zoom_range",
         [](State& v) {
             if (!v.scene.range) return;
             v.change(ViewChange::Time, [&] {
                 v.set_window(
                     v.limits().show(v.scene.range->begin, v.scene.range->end, v.scene.window.width));
             });
         }},
        {"clear", [](State& v) { v.clear(); }},
        {"bubbles",
         [](State& v) {
             v.change(ViewChange::Options, [&] { v.scene.options.bubbles = !v.scene.options.bubbles; });
             v.dirty();
         }},
        {"critical_path",
         [](State& v) {
             v.change(ViewChange::Options,
                      [&] { v.scene.options.critical_path = !v.scene.options.critical_path; });
             v.dirty();
         }},
        {"flows",
         [](State& v) {
             v.change(ViewChange::Options, [&] { v.scene.options.flows = !v.scene.options.flows; });
             v.dirty();
         }},
        {"legend",
         [](State& v) {
             v.change(ViewChange::Options, [&] { v.scene.options.legend = !v.scene.options.legend; });
             v.relayout();
         }},
        {"time_format",
         [](State& v) {
             v.change(ViewChange::Options,
                      [&] { v.scene.options.time_format = next_format(v.scene.options.time_format); });
             v.dirty();
             Q_EMIT v.view.status_text(tr("Time: %1").arg(text_of(title(v.scene.options.time_format))));
         }},
    };
    const auto* const at = std::find_if(std::begin(kActions), std::end(kActions),
                                        [&](const auto& a) { return a.first == name; });
    if (at == std::end(kActions)) return false;
    if (s.model() != nullptr) at->second(s);
    return true;
}

bool TimelineView::is_checked(std::string_view id) const {
    if (id == "timeline.bubbles") return s_->scene.options.bubbles;
    if (id == "timeline.critical_path") return s_->scene.options.critical_path;
    if (id == "timeline.flows") return s_->scene.options.flows;
    if (id == "timeline.legend") return s_->scene.options.legend;
    return false;
}

QString TimelineView::text_to_copy() const {
    if (s_->model() == nullptr) return {};
    if (s_->scene.range) return text_of(range_tsv(sum_range(*s_->model(), *s_->scene.range)));
    QString text;
    if (s_->scene.selected != kNoTask) {
        for (const auto& [name, value] : s_->model()->details(s_->scene.selected))
            text += text_of(name) + "\t" + text_of(value) + "\n";
    }
    return text;
}

void TimelineView::State::zoom(double factor) {
    // At the mouse, else at what is selected, else in the middle.
    const double x = scene.window.x(time_in_hand());
    change(ViewChange::Time, [&] { set_window(limits().zoom_at(scene.window, x, factor)); });
}

void TimelineView::State::focus_selection() {
    if (scene.selected == kNoTask) {
        if (scene.range) {
            view.perform("timeline.zoom_range");
        } else {
            view.perform("timeline.whole");
        }
        return;
    }
    const SimTime first = model()->start(scene.selected);
    const SimTime finish_time = model()->finish(scene.selected);
    const bool again = focused_once && focused_task == scene.selected;
    change(ViewChange::Time, [&] {
        reveal(scene.selected);
        set_window(again ? limits().show(first, finish_time, scene.window.width)
                         : limits().centre(scene.window, first + (finish_time - first) / 2));
    });
    focused_once = !again;
    focused_task = scene.selected;
}

void TimelineView::State::step_task(bool back) {
    if (scene.selected == kNoTask) {
        // The first task that is visible on the track in hand.
        const auto track = track_in_hand();
        if (!track) return;
        const std::size_t at = scene.layout.row_of(*track);
        std::size_t row = at;
        while (row < scene.layout.rows.size() && !scene.layout.rows[row].has_lane())
            ++row;
        if (row >= scene.layout.rows.size()) return;
        const Lane& lane = model()->lanes()[scene.layout.rows[row].lane];
        if (lane.begin == lane.end) return;
        const SimTime from = scene.cursor.value_or(scene.window.begin);
        TaskId task = std::min(model()->first_ending_after(lane, from), lane.end - 1);
        if (back && task > lane.begin) --task;
        select(task, true);
        return;
    }
    const Lane& lane = model()->lanes()[model()->lane_of(scene.selected)];
    if (back ? scene.selected == lane.begin : scene.selected + 1 == lane.end) {
        Q_EMIT view.status_text(back ? TimelineView::tr("This is the first task of its track")
                                     : TimelineView::tr("This is the last task of its track"));
        return;
    }
    select(back ? scene.selected - 1 : scene.selected + 1, true);
}

void TimelineView::State::follow(bool back) {
    if (scene.selected == kNoTask) {
        step_task(false);
        return;
    }
    if (scene.derived == nullptr) {
        Q_EMIT view.status_text(TimelineView::tr("Flows are still being worked out"));
        return;
    }
    const TaskId next = along_flow(*model(), scene.derived->flows, scene.selected, back);
    if (next == kNoTask) {
        Q_EMIT view.status_text(back ? TimelineView::tr("Nothing comes before this task in its flow")
                                     : TimelineView::tr("The flow ends here"));
        return;
    }
    select(next, true);
}

void TimelineView::State::step_track(bool up) {
    const auto& rows = scene.layout.rows;
    const auto track = track_in_hand();
    if (!track || rows.empty()) return;
    std::size_t at = scene.layout.row_of(*track);
    if (at >= rows.size()) at = 0;
    if (up ? at == 0 : at + 1 >= rows.size()) return;
    at = up ? at - 1 : at + 1;
    const TrackRow row = rows[at];
    const bool had_task = scene.selected != kNoTask;
    SimTime time = time_in_hand();
    if (had_task) time = model()->start(scene.selected) + model()->duration(scene.selected) / 2;
    scene.track = row.track;
    reveal_track(row.track);
    dirty();
    accessible_changed();
    if (!had_task) {
        if (row.track.kind == TrackKind::Rank) Q_EMIT view.rank_selected(view.selected_rank());
        return;
    }
    if (!row.has_lane()) return;
    const Lane& lane = model()->lanes()[row.lane];
    if (lane.begin == lane.end) return;
    select(std::min(model()->first_ending_after(lane, time), lane.end - 1), false);
    scene.track = row.track;
    dirty();
}

void TimelineView::State::fold(TrackRef track) {
    if (track.kind == TrackKind::Lane) track = {TrackKind::Rank, model()->lanes()[track.index].rank};
    change(ViewChange::Tracks, [&] {
        if (tracks.collapsed.erase(track) == 0) tracks.collapsed.insert(track);
        scene.track = track;
        relayout();
    });
}

void TimelineView::State::fold_all(bool fold) {
    change(ViewChange::Tracks, [&] {
        // First the ranks, then the nodes; opening goes the other way.
        std::set<TrackRef> ranks;
        for (std::uint32_t r = 0; r < model()->ranks().size(); ++r)
            if (model()->ranks()[r].lane_end - model()->ranks()[r].lane_begin > 1)
                ranks.insert({TrackKind::Rank, r});
        const bool ranks_folded =
            std::includes(tracks.collapsed.begin(), tracks.collapsed.end(), ranks.begin(), ranks.end());
        const bool has_nodes = model()->nodes().size() > 1;
        if (!fold) {
            tracks.collapsed.clear();
        } else if (!ranks_folded || !has_nodes) {
            tracks.collapsed.insert(ranks.begin(), ranks.end());
        } else {
            for (std::uint32_t n = 0; n < model()->nodes().size(); ++n)
                tracks.collapsed.insert({TrackKind::Node, n});
        }
        relayout();
    });
}

void TimelineView::State::toggle_pin() {
    auto track = track_in_hand();
    if (!track || track->kind == TrackKind::Node) return;
    change(ViewChange::Tracks, [&] {
        const auto at = std::find(tracks.pinned.begin(), tracks.pinned.end(), *track);
        if (at == tracks.pinned.end()) {
            tracks.pinned.push_back(*track);
        } else {
            tracks.pinned.erase(at);
        }
        relayout();
    });
}

void TimelineView::State::hide_track() {
    const auto track = track_in_hand();
    if (!track) return;
    const std::size_t at = scene.layout.row_of(*track);
    change(ViewChange::Tracks, [&] {
        tracks.hidden.insert(*track);
        relayout();
        if (!scene.layout.rows.empty())
            scene.track = scene.layout.rows[std::min(at, scene.layout.rows.size() - 1)].track;
    });
}

void TimelineView::State::add_mark() {
    const SimTime time = time_in_hand();
    change(ViewChange::Notes, [&] {
        const auto at = std::partition_point(scene.notes.begin(), scene.notes.end(),
                                             [&](const TimeNote& n) { return n.begin <= time; });
        scene.notes.insert(at, {time, time, {}});
    });
    dirty();
}

void TimelineView::State::add_note() {
    TimeNote note;
    if (scene.range) {
        note.begin = scene.range->begin;
        note.end = scene.range->end;
    } else if (scene.selected != kNoTask) {
        note.begin = model()->start(scene.selected);
        note.end = model()->finish(scene.selected);
    } else {
        note.begin = note.end = time_in_hand();
    }
    PromptBar::Handlers handlers;
    handlers.accepted = [this, note](const QString& text, bool) {
        if (text.isEmpty()) return;
        TimeNote written = note;
        written.text = text.toStdString();
        change(ViewChange::Notes, [&] {
            const auto at = std::partition_point(scene.notes.begin(), scene.notes.end(),
                                                 [&](const TimeNote& n) { return n.begin <= written.begin; });
            scene.notes.insert(at, written);
        });
        dirty();
    };
    prompt->open(TimelineView::tr("Note"), {}, TimelineView::tr("what there is to say about this span"),
                 std::move(handlers));
}

void TimelineView::State::delete_note() {
    if (scene.notes.empty()) return;
    const SimTime time = time_in_hand();
    const auto distance = [&](const TimeNote& n) {
        return time < n.begin ? n.begin - time : time > n.end ? time - n.end : SimTime{0};
    };
    const auto nearest =
        std::min_element(scene.notes.begin(), scene.notes.end(),
                         [&](const TimeNote& a, const TimeNote& b) { return distance(a) < distance(b); });
    change(ViewChange::Notes, [&] { scene.notes.erase(nearest); });
    dirty();
}

void TimelineView::State::move_range_end(bool left) {
    const SimTime step = std::max<SimTime>(1, scene.window.span() / 40);
    change(ViewChange::Range, [&] {
        RangeSelection range;
        if (scene.range) {
            range = *scene.range;
        } else {
            range.begin = range.end = time_in_hand();
            const auto track = track_in_hand();
            const std::size_t at = track ? scene.layout.row_of(*track) : scene.layout.rows.size();
            if (at < scene.layout.rows.size()) range.lanes = lanes_of_row(scene.layout.rows[at]);
            if (range.lanes.empty()) range.lanes = lanes_between(0, 1e9);
        }
        range.end += left ? -step : step;
        if (range.end < range.begin) std::swap(range.begin, range.end);
        view.set_range(range);
    });
}

void TimelineView::State::clear() {
    prompt->close_prompt(false);
    start_search({});
    scene.highlighted.clear();
    if (scene.range) change(ViewChange::Range, [&] { view.set_range(std::nullopt); });
    select(kNoTask, false);
    dirty();
}

void TimelineView::State::open_filter() {
    PromptBar::Handlers handlers;
    const ViewState before = state();
    handlers.changed = [this](const QString& text) {
        TrackState wanted = tracks;
        const bool regex = text.size() > 2 && text.startsWith('/') && text.endsWith('/');
        wanted.regex = regex;
        wanted.filter = (regex ? text.mid(1, text.size() - 2) : text).toStdString();
        if (const Status status = check_filter(wanted); !status) {
            prompt->set_status(text_of(status.error().message), true);
            return;
        }
        tracks = std::move(wanted);
        relayout();
        const bool none = scene.layout.rows.empty();
        prompt->set_status(none ? TimelineView::tr("no track matches")
                                : TimelineView::tr("%1 tracks").arg(scene.layout.rows.size()),
                           none);
    };
    handlers.accepted = [this, before](const QString&, bool) {
        if (!(before == state())) Q_EMIT view.view_changed(before, state(), ViewChange::Tracks);
    };
    handlers.closed = [this, before] {
        tracks = before.tracks;
        relayout();
    };
    const QString text = text_of(tracks.filter);
    prompt->open(TimelineView::tr("Filter tracks"), tracks.regex ? "/" + text + "/" : text,
                 TimelineView::tr("part of a name, or /a regular expression/"), std::move(handlers));
}

void TimelineView::State::open_finder() {
    PromptBar::Handlers handlers;
    handlers.list = true;
    auto found = std::make_shared<std::vector<FoundTrack>>();
    handlers.changed = [this, found](const QString& text) {
        *found = find_tracks(*model(), text.toStdString());
        QStringList choices;
        for (const FoundTrack& track : *found)
            choices.append(text_of(track.path));
        prompt->set_choices(choices);
        prompt->set_status(found->empty() ? TimelineView::tr("no such track") : QString(), found->empty());
    };
    handlers.chosen = [this, found](int row) {
        const TrackRef track = (*found)[static_cast<std::size_t>(row)].track;
        change(ViewChange::Tracks, [&] {
            tracks.hidden.erase(track);
            if (scene.layout.row_of(track) == scene.layout.rows.size()) tracks.filter.clear();
            relayout();
            reveal_track(track);
        });
        scene.track = track;
        dirty();
        accessible_changed();
        if (track.kind == TrackKind::Rank) Q_EMIT view.rank_selected(model()->ranks()[track.index].rank);
    };
    prompt->open(TimelineView::tr("Find track"), {}, TimelineView::tr("a few letters of its name"),
                 std::move(handlers));
}

}  // namespace tw::gui

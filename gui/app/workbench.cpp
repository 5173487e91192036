#include "gui/app/workbench.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/worker/open_file.hpp"
#include "gui/worker/plan_fields.hpp"
#include "gui/worker/tasks.hpp"
#include "models/hardware/cluster_json.hpp"
#include "models/hardware/profile_document.hpp"
#include "planner/search_sentence.hpp"

namespace tw::gui {
namespace {

class Change : public QUndoCommand {
  public:
    Change(const QString& text, std::function<void()> redo, std::function<void()> undo)
        : QUndoCommand(text), redo_(std::move(redo)), undo_(std::move(undo)) {}
    void redo() override { redo_(); }
    void undo() override { undo_(); }

  private:
    std::function<void()> redo_, undo_;
};

}  // namespace

Workbench::Workbench(QObject* parent) : QObject(parent) {
    undo_.setUndoLimit(500);
    connect(&jobs_, &Jobs::changed, this, &Workbench::follow_simulation);
}

Workbench::~Workbench() {
    jobs_.disconnect(this);  // they end after what they would tell
}

void Workbench::push(const QString& text, std::function<void()> redo, std::function<void()> undo) {
    undo_.push(new Change(text, std::move(redo), std::move(undo)));
}

// --- what is asked for

void Workbench::edit_setup(const Setup& setup, const QString& what) {
    if (setup == setup_) return;
    const auto set = [this](const Setup& value) {
        setup_ = value;
        Q_EMIT setup_changed();
        make_study_of_setup();
    };
    push(
        what, [set, setup] { set(setup); }, [set, before = setup_] { set(before); });
}

void Workbench::make_study_of_setup() {
    if (setup_.model.empty() || setup_.cluster.empty()) return;
    jobs_.start("study", tr("Reading model and cluster"), [this, setup = setup_](JobContext&) {
        auto made = make_study(setup);
        Errors errors;
        StudyPtr study;
        if (made) {
            study = *made;
            if (const auto request = make_request(*study, setup); !request) errors = request.errors();
        } else {
            errors = made.errors();
        }
        return [this, study, errors] {
            study_ = study;
            setup_errors_ = errors;
            clear_problems("setup");
            report(errors, "setup");
            if (study_)
                for (const std::string& warning : study_->warnings)
                    report({Problem::Severity::Warning, "setup: model", QString::fromStdString(warning), {}});
            Q_EMIT study_changed();
            if (search_when_ready_ && study_ && errors.empty()) {
                search_when_ready_ = false;
                start_search();
            }
        };
    });
}

// --- searching

void Workbench::start_search() {
    if (jobs_.busy("study")) {
        search_when_ready_ = true;
        return;
    }
    if (!study_ || !setup_errors_.empty()) {
        if (setup_.model.empty() || setup_.cluster.empty())
            report({Problem::Severity::Error, "setup", tr("There is no model or no cluster to search for."),
                    tr("Choose both in Model and cluster.")});
        return;
    }
    clear_problems("search");
    previous_ = plans_;
    search_text_ = tr("searching");
    jobs_.start(
        "search", tr("Finding plans"),
        [this, study = study_, setup = setup_](JobContext& context) -> std::function<void()> {
            if (context.cancelled())  // before it began
                return [this] {
                    search_text_.clear();
                    Q_EMIT search_changed();
                };
            SearchHooks hooks;
            hooks.progress = [this, &context](const SearchProgress& progress, double elapsed_s) {
                std::string text =
                    fmt::format("{} · {} plans, {} simulated", format_duration(elapsed_s, 2),
                                format_count(progress.configurations), format_count(progress.simulated));
                const bool bounded = progress.best_s > 0 && progress.bound_s > 0;
                if (progress.best_s > 0) text += " · best " + format_duration(progress.best_s);
                if (bounded) text += ", none below " + format_duration(progress.bound_s);
                const double share = bounded ? progress.bound_s / progress.best_s : -1;
                context.progress(std::min(share, 1.0), text);
                context.post([this, text = QString::fromStdString(text)] {
                    search_text_ = text;
                    Q_EMIT search_changed();
                });
            };
            hooks.best = [this, &context](std::vector<PlanEntry> best, bool done) {
                auto shared = std::make_shared<std::vector<PlanEntry>>(std::move(best));
                context.post([this, shared, done] { set_found(std::move(*shared), {}, done); });
            };
            auto found = search_plans(study, setup, context.stop_flag(), hooks);
            if (!found)
                return [this, errors = found.errors()] {
                    search_text_.clear();
                    report(errors, "search");
                    Q_EMIT search_changed();
                };
            auto shared = std::make_shared<FoundPlans>(std::move(*found));
            return [this, shared] {
                search_text_ =
                    QString::fromStdString(search_sentence(shared->statistics, !shared->plans.empty()));
                for (const std::string& reason : shared->missing)
                    report({Problem::Severity::Error,
                            "search",
                            QString::fromStdString(reason),
                            {},
                            ErrorCode::Infeasible});
                // Cut short before it found any: what was there stays.
                if (!shared->plans.empty() || !shared->statistics.interrupted)
                    set_found(std::move(shared->plans), std::move(shared->infeasible), true);
                Q_EMIT search_changed();
            };
        },
        /*keeps=*/true);
    Q_EMIT search_changed();
}

void Workbench::cancel() {
    opening_.clear();
    search_when_ready_ = false;
    jobs_.cancel_all();
}

// Plans that were found before and stay keep their ids, so that a selection holds.
void Workbench::set_found(std::vector<PlanEntry> found, std::vector<PlanEntry> infeasible, bool last) {
    std::vector<PlanEntry> kept;
    std::vector<PlanEntry> old;
    for (PlanEntry& entry : plans_) {
        const bool mine = entry.origin == PlanOrigin::Found || entry.origin == PlanOrigin::Infeasible;
        const bool pinned = entry.id == pins_[0] || entry.id == pins_[1] || entry.id == shown_.id;
        (mine ? old : kept).push_back(entry);
        if (mine && pinned && entry.study != study_) {
            kept.push_back(entry);
            kept.back().origin = PlanOrigin::Kept;
            old.pop_back();
        }
    }
    std::vector<PlanEntry> all;
    const auto take = [&](PlanEntry&& entry) {
        const auto same = std::ranges::find_if(old, [&](const PlanEntry& other) {
            return other.study == entry.study && other.plan == entry.plan;
        });
        const PlanEntry* known = same == old.end() ? nullptr : &*same;
        for (const PlanEntry& other : previous_)
            if (known == nullptr && other.study == entry.study && other.plan == entry.plan &&
                other.origin == entry.origin)
                known = &other;
        entry.id = known == nullptr ? next_id_++ : known->id;
        if (known != nullptr && !entry.report) entry.report = known->report;
        all.push_back(std::move(entry));
    };
    for (PlanEntry& entry : found)
        take(std::move(entry));
    // A plan that is shown or pinned does not vanish because better ones were found.
    for (const PlanEntry& entry : old) {
        const bool used = entry.id == pins_[0] || entry.id == pins_[1] || entry.id == shown_.id;
        const bool there =
            std::ranges::any_of(all, [&](const PlanEntry& other) { return other.id == entry.id; });
        if (used && !there) all.push_back(entry);
    }
    for (PlanEntry& entry : infeasible)
        take(std::move(entry));
    for (PlanEntry& entry : kept)
        all.push_back(std::move(entry));
    plans_ = std::move(all);
    tell_plans();
    if (last && shown_.id == 0 && !plans_.empty() && plans_.front().feasible()) {
        const auto plan = std::make_shared<const ParallelPlan>(plans_.front().plan);
        show_plan(plans_.front().id, plan, plan);
    }
}

// --- plans

void Workbench::tell_plans() {
    tell_apart(plans_);
    Q_EMIT plans_changed();
}

const PlanEntry* Workbench::plan(int id) const {
    const auto found = std::ranges::find_if(plans_, [&](const PlanEntry& entry) { return entry.id == id; });
    return found == plans_.end() ? nullptr : &*found;
}

int Workbench::add_plan(PlanEntry entry) {
    entry.id = next_id_++;
    plans_.push_back(std::move(entry));
    tell_plans();
    return plans_.back().id;
}

void Workbench::remove_plan(int id) {
    const PlanEntry* entry = plan(id);
    if (entry == nullptr || entry->origin == PlanOrigin::Found || entry->origin == PlanOrigin::Infeasible)
        return;
    const auto copy = std::make_shared<const PlanEntry>(*entry);
    push(
        tr("Remove plan"),
        [this, id] {
            std::erase_if(plans_, [&](const PlanEntry& e) { return e.id == id; });
            tell_plans();
        },
        [this, copy] {
            plans_.push_back(*copy);
            tell_plans();
        });
}

// --- the shown plan

void Workbench::select(int id) {
    const PlanEntry* entry = plan(id);
    if (entry == nullptr) return;
    if (id == shown_.id && !shown_.edited) {
        if (!shown_.report && !shown_.running) resimulate();  // it was cancelled
        return;
    }
    const auto plan = std::make_shared<const ParallelPlan>(entry->plan);
    if (shown_.id == 0) return show_plan(id, plan, plan);
    push(
        tr("Select plan"), [this, id, plan] { show_plan(id, plan, plan); },
        [this, before = shown_.id, was = shown_.plan, base = shown_.base] { show_plan(before, was, base); });
}

void Workbench::edit_plan(const ParallelPlan& plan, const QString& what) {
    if (!shown_.plan || plan == *shown_.plan) return;
    const auto after = std::make_shared<const ParallelPlan>(plan);
    push(
        what, [this, id = shown_.id, after, base = shown_.base] { show_plan(id, after, base); },
        [this, id = shown_.id, was = shown_.plan, base = shown_.base] { show_plan(id, was, base); });
}

void Workbench::set_field(const std::string& key, const std::string& text) {
    if (!shown_.plan) return;
    auto changed = with_field(*shown_.study, *shown_.plan, key, text);
    clear_problems("plan");
    if (!changed) return report(changed.errors(), "plan");
    const PlanField* field = find_field(key);
    edit_plan(*changed, tr("%1 = %2").arg(field != nullptr ? field->title : key.c_str(), text.c_str()));
}

void Workbench::revert_plan() {
    if (shown_.base) edit_plan(*shown_.base, tr("Revert plan"));
}

void Workbench::keep_plan() {
    if (!shown_.plan) return;
    PlanEntry entry;
    entry.origin = PlanOrigin::Kept;
    entry.study = shown_.study;
    entry.plan = *shown_.plan;
    entry.errors = shown_.errors;
    if (shown_.report && !shown_.running) {
        entry.report = shown_.report;
        entry.evaluation.step_time = to_sim_time(Seconds(shown_.report->step_time_s));
        entry.evaluation.sigma_s = shown_.report->step_time_sigma_s;
        entry.evaluation.peak_device_bytes = shown_.report->peak_device_bytes;
        entry.evaluation.fits = shown_.report->fits;
    }
    const auto kept = std::make_shared<PlanEntry>(std::move(entry));
    kept->id = next_id_++;
    push(
        tr("Keep plan"),
        [this, kept] {
            plans_.push_back(*kept);
            tell_plans();
            const auto plan = std::make_shared<const ParallelPlan>(kept->plan);
            show_plan(kept->id, plan, plan);
        },
        [this, kept, id = shown_.id, was = shown_.plan, base = shown_.base] {
            std::erase_if(plans_, [&](const PlanEntry& e) { return e.id == kept->id; });
            tell_plans();
            show_plan(id, was, base);
        });
}

void Workbench::show_plan(int id, std::shared_ptr<const ParallelPlan> plan,
                          std::shared_ptr<const ParallelPlan> base) {
    const PlanEntry* entry = this->plan(id);
    if (entry == nullptr || !plan) return;
    const bool other = id != shown_.id || shown_.base != base;
    shown_.id = id;
    shown_.study = entry->study;
    shown_.plan = std::move(plan);
    if (other) {
        shown_.base = std::move(base);
        shown_.base_report = entry->report;
    }
    shown_.edited = !(*shown_.plan == *shown_.base);
    shown_.explanation = nullptr;
    jobs_.drop("explain");
    simulate_shown();
}

void Workbench::resimulate() {
    if (shown_.plan) simulate_shown();
}

void Workbench::simulate_shown() {
    clear_problems("plan");
    shown_.errors = check_entry(*shown_.study, *shown_.plan);
    shown_.running = shown_.errors.empty();
    if (!shown_.running) {
        jobs_.cancel("simulate");
        shown_.report = nullptr;
        shown_.trace = nullptr;
        report(shown_.errors, "plan");
        Q_EMIT shown_changed();
        return;
    }
    jobs_.start(
        "simulate", tr("Simulating"),
        [this, study = shown_.study, plan = shown_.plan](JobContext&) -> std::function<void()> {
            auto simulated = simulate_plan(*study, *plan);
            Errors errors;
            Simulated value;
            if (simulated) {
                value = *simulated;
            } else {
                errors = simulated.errors();
            }
            return [this, plan, value, errors] {
                if (shown_.plan != plan) return;
                shown_.running = false;
                shown_.report = value.report;
                shown_.trace = value.trace;
                if (!errors.empty()) {
                    shown_.errors = errors;
                    report(errors, "plan");
                } else if (!shown_.edited) {
                    shown_.base_report = value.report;
                    for (PlanEntry& e : plans_)
                        if (e.id == shown_.id && !e.report) {
                            e.report = value.report;
                            Q_EMIT plan_updated(e.id);
                        }
                }
                if (value.report)
                    for (const std::string& warning : value.report->warnings)
                        report({Problem::Severity::Warning, "plan", QString::fromStdString(warning), {}});
                Q_EMIT shown_changed();
                go_to_place();
            };
        });
    Q_EMIT shown_changed();
}

// A simulation that was cancelled delivers nothing. The timeline keeps the trace that it shows.
void Workbench::follow_simulation() {
    if (!shown_.running || jobs_.busy("simulate")) return;
    shown_.running = false;
    if (shown_.report && !(shown_.report->plan == *shown_.plan)) shown_.report = nullptr;
    Q_EMIT shown_changed();
}

void Workbench::explain() {
    if (!shown_.report || shown_.running) return;
    jobs_.start("explain", tr("Explaining"),
                [this, study = shown_.study, report = shown_.report,
                 plan = shown_.plan](JobContext& context) -> std::function<void()> {
                    auto made = explain_plan(*study, *report, context.stop_flag(), [&context](double share) {
                        context.progress(share, "sensitivities and neighbours");
                    });
                    if (!made) return [this, errors = made.errors()] { this->report(errors, "why"); };
                    const auto shared = std::make_shared<const Explanation>(std::move(*made));
                    return [this, shared, plan] {
                        if (shown_.plan != plan) return;
                        shown_.explanation = shared;
                        Q_EMIT explained();
                    };
                });
}

void Workbench::try_what_if(const WhatIf& change) {
    if (!shown_.plan) return;
    clear_problems("what if");
    what_if_text_ = QString::fromStdString(to_string(change));
    jobs_.start(
        "what if", tr("What if: %1").arg(what_if_text_),
        [this, study = shown_.study, plan = shown_.plan, change](JobContext&) -> std::function<void()> {
            auto answer = what_if(*study, *plan, change);
            if (!answer)
                return [this, errors = answer.errors()] {
                    what_if_ = nullptr;
                    report(errors, "what if");
                    Q_EMIT what_if_changed();
                };
            const auto shared = std::make_shared<const WhatIfAnswer>(std::move(*answer));
            return [this, shared] {
                what_if_ = shared;
                Q_EMIT what_if_changed();
            };
        });
}

void Workbench::adopt_what_if() {
    if (!what_if_) return;
    Setup setup = setup_;
    const auto cluster = self_contained_cluster(*what_if_->study);
    if (!cluster) return report(cluster.errors(), "what if");
    setup.cluster_text = cluster_to_json(*cluster).dump();
    setup.cluster = what_if_->study->document.cluster.name + ", " + what_if_text_.toStdString();
    edit_setup(setup, tr("What if: %1").arg(what_if_text_));
    start_search();
}

// --- pins

void Workbench::set_pin(int side, int id) {
    pins_[static_cast<std::size_t>(side)] = id;
    Q_EMIT pins_changed();
}

void Workbench::pin(int side, int id) {
    const int before = pins_[static_cast<std::size_t>(side)];
    if (before == id || plan(id) == nullptr) return;
    push(
        side == 0 ? tr("Pin as A") : tr("Pin as B"), [this, side, id] { set_pin(side, id); },
        [this, side, before] { set_pin(side, before); });
}

const PlanEntry* Workbench::pinned(int side) const {
    return plan(pins_[static_cast<std::size_t>(side)]);
}

// --- problems

void Workbench::report(Problem problem) {
    const bool known = std::ranges::any_of(problems_, [&](const Problem& other) {
        return other.where == problem.where && other.message == problem.message;
    });
    if (known) return;
    problems_.push_back(std::move(problem));
    Q_EMIT problems_changed();
}

void Workbench::report(const Errors& errors, const QString& where) {
    for (const Error& error : errors) {
        const QString context = QString::fromStdString(error.context);
        report({Problem::Severity::Error, context.isEmpty() ? where : where + ": " + context,
                QString::fromStdString(error.message), QString::fromStdString(error.hint), error.code});
    }
}

void Workbench::clear_problems(const QString& where) {
    const auto removed = std::erase_if(problems_, [&](const Problem& problem) {
        return problem.where == where || problem.where.startsWith(where + ":");
    });
    if (removed > 0) Q_EMIT problems_changed();
}

}  // namespace tw::gui

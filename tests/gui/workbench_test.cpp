// The window's state without its widgets: searching, selecting, editing, undoing, cancelling, sessions.
#include "gui/app/workbench.hpp"

#include <QSignalSpy>
#include <QTemporaryDir>
#include <atomic>

#include <sys/resource.h>

#include "gui/worker/plan_fields.hpp"
#include "gui/worker/tasks.hpp"
#include "plan/parallel_plan.hpp"
#include "sim/report/report.hpp"
#include "tests/gui/window_fixtures.hpp"

namespace tw::gui {
namespace {

TEST(Workbench, FindsPlansAndShowsTheBest) {
    Workbench workbench;
    QSignalSpy plans(&workbench, &Workbench::plans_changed);
    find_small_plans(workbench);
    EXPECT_GE(plans.count(), 1);
    const PlanEntry& best = workbench.plans().front();
    EXPECT_EQ(workbench.shown().id, best.id);
    EXPECT_EQ(workbench.shown().plan->mesh.devices(), 2);
    EXPECT_NE(workbench.shown().trace, nullptr);
    EXPECT_NEAR(workbench.shown().report->step_time_s, best.step_s(), 1e-9);
    for (const PlanEntry& entry : workbench.plans())
        EXPECT_TRUE(entry.origin != PlanOrigin::Found || entry.report != nullptr) << plan_name(entry);
}

TEST(Workbench, PlansOfTheSearchAreThoseOfThePlanner) {
    Workbench workbench;
    find_small_plans(workbench);
    const auto study = make_study(small_setup());
    ASSERT_TRUE(study);
    const auto request = make_request(**study, small_setup());
    ASSERT_TRUE(request);
    const auto answer = find_plans((*study)->environment, *request);
    ASSERT_TRUE(answer);
    ASSERT_LE(answer->plans.size(), workbench.plans().size());
    for (std::size_t i = 0; i < answer->plans.size(); ++i) {
        EXPECT_EQ(summary(answer->plans[i].plan), summary(workbench.plans()[i].plan));
        EXPECT_EQ(answer->plans[i].evaluation.step_time, workbench.plans()[i].evaluation.step_time);
        EXPECT_EQ(answer->plans[i].alike.size(),
                  static_cast<std::size_t>(workbench.plans()[i].near_identical));
    }
}

TEST(Workbench, InfeasiblePlansNameARule) {
    Workbench workbench;
    gui::Setup setup = small_setup();
    setup.model = "gpt3-175b";
    setup.cluster = "a100:16";
    setup.global_batch = 16;
    setup.seq_len = 2048;
    workbench.edit_setup(setup, "test");
    workbench.start_search();
    ASSERT_TRUE(wait_idle(workbench));
    ASSERT_FALSE(workbench.plans().empty());
    bool memory = false;
    for (const PlanEntry& entry : workbench.plans()) {
        ASSERT_EQ(entry.origin, PlanOrigin::Infeasible);
        ASSERT_FALSE(entry.errors.empty());
        memory |= entry.errors.front().context == "memory" && entry.evaluation.peak_device_bytes > 0;
    }
    EXPECT_TRUE(memory);
    EXPECT_FALSE(workbench.problems().empty());  // what is missing
}

TEST(Workbench, AnEditedFieldIsSimulatedAndUndone) {
    Workbench workbench;
    find_small_plans(workbench);
    const ParallelPlan before = *workbench.shown().plan;
    const double step = workbench.shown().report->step_time_s;
    std::string other;
    for (const FieldValue& value : field_values(*workbench.shown().study, before, "recompute"))
        if (value.refusal.empty() && value.text != field_text(before, "recompute")) other = value.text;
    ASSERT_FALSE(other.empty());
    workbench.set_field("recompute", other);
    EXPECT_TRUE(workbench.shown().edited);
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_EQ(field_text(workbench.shown().report->plan, "recompute"), other);
    EXPECT_NE(workbench.shown().report->step_time_s, step);
    workbench.undo().undo();
    EXPECT_FALSE(workbench.shown().edited);
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_DOUBLE_EQ(workbench.shown().report->step_time_s, step);
    workbench.undo().redo();
    EXPECT_EQ(field_text(*workbench.shown().plan, "recompute"), other);
    const std::size_t count = workbench.plans().size();
    ASSERT_TRUE(wait_idle(workbench));
    workbench.keep_plan();
    EXPECT_EQ(workbench.plans().size(), count + 1);
    EXPECT_FALSE(workbench.shown().edited);
    workbench.undo().undo();
    EXPECT_EQ(workbench.plans().size(), count);
    EXPECT_TRUE(workbench.shown().edited);
}

TEST(Workbench, AnIllegalFieldNamesTheFieldAndChangesNothing) {
    Workbench workbench;
    find_small_plans(workbench);
    const ParallelPlan before = *workbench.shown().plan;
    workbench.set_field("tp", "3");
    EXPECT_EQ(*workbench.shown().plan, before);
    ASSERT_FALSE(workbench.problems().empty());
    EXPECT_TRUE(workbench.problems().back().where.startsWith("plan: "));
}

TEST(Workbench, ACancelledSearchKeepsWhatItFound) {
    Workbench workbench;
    gui::Setup setup;
    setup.model = "llama3-70b";
    setup.cluster = "h100:512";
    setup.global_batch = 1024;
    setup.seq_len = 8192;
    setup.objective = "pareto";
    workbench.edit_setup(setup, "test");
    workbench.start_search();
    ASSERT_TRUE(wait_until([&] { return !workbench.plans().empty() || !workbench.jobs().busy(); }));
    workbench.cancel();
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_FALSE(workbench.searching());
    EXPECT_FALSE(workbench.plans().empty());
}

TEST(Workbench, ACancelledSimulationIsNoLongerRunning) {
    Workbench workbench;
    find_small_plans(workbench);
    workbench.set_field("recompute", "full");
    EXPECT_TRUE(workbench.shown().running);
    workbench.cancel();
    ASSERT_TRUE(wait_idle(workbench));
    const Shown& shown = workbench.shown();
    EXPECT_FALSE(shown.running);
    EXPECT_TRUE(shown.report == nullptr || shown.report->plan == *shown.plan);
    workbench.resimulate();
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_NE(workbench.shown().report, nullptr);
}

TEST(Workbench, ASearchThatWaitsForTheModelIsCancelledToo) {
    Workbench workbench;
    workbench.edit_setup(small_setup(), "test");
    workbench.start_search();
    EXPECT_FALSE(workbench.searching());  // the model is being read
    workbench.cancel();
    ASSERT_TRUE(wait_idle(workbench));
    workbench.edit_setup(
        [] {
            gui::Setup other = small_setup();
            other.global_batch = 16;
            return other;
        }(),
        "test");
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_TRUE(workbench.plans().empty());
}

TEST(Workbench, ASessionEndsWhatWasUnderWay) {
    const QTemporaryDir folder;
    const QString path = folder.filePath("a.session.json");
    Workbench first;
    find_small_plans(first);
    ASSERT_EQ(first.save_session(path, {}).toStdString(), "");
    Workbench second;
    gui::Setup setup = small_setup();
    setup.global_batch = 4;
    second.edit_setup(setup, "test");
    second.start_search();
    ASSERT_TRUE(wait_idle(second));
    WhatIf change;
    change.compute = 2;
    second.try_what_if(change);
    ASSERT_TRUE(wait_idle(second));
    ASSERT_NE(second.what_if_answer(), nullptr);
    second.open_session(path);
    second.start_search();
    second.explain();
    second.try_what_if(change);
    ASSERT_TRUE(wait_idle(second));
    EXPECT_EQ(second.setup(), first.setup());
    EXPECT_EQ(second.what_if_answer(), nullptr);
    EXPECT_EQ(second.what_if_text(), "");
    EXPECT_EQ(second.search_text(), "");
    EXPECT_EQ(second.shown().explanation, nullptr);
    ASSERT_EQ(second.plans().size(), first.plans().size());
    for (std::size_t i = 0; i < first.plans().size(); ++i)
        EXPECT_EQ(second.plans()[i].plan, first.plans()[i].plan);
    EXPECT_EQ(*second.shown().plan, *first.shown().plan);
}

// Curves that a what-if scaled go with the cluster that it leaves.
TEST(Workbench, AnAdoptedWhatIfKeepsItsCurves) {
    Workbench workbench;
    find_small_plans(workbench);
    WhatIf change;
    change.compute = 3;
    workbench.try_what_if(change);
    ASSERT_TRUE(wait_idle(workbench));
    const auto answer = workbench.what_if_answer();
    ASSERT_NE(answer, nullptr);
    workbench.adopt_what_if();
    ASSERT_TRUE(wait_idle(workbench));
    ASSERT_NE(workbench.study(), nullptr);
    for (const Problem& problem : workbench.problems())
        EXPECT_NE(problem.severity, Problem::Severity::Error) << problem.message.toStdString();
    const auto again = report_plan(*workbench.study(), answer->plan);
    ASSERT_TRUE(again) << to_string(again.errors());
    EXPECT_DOUBLE_EQ((*again)->step_time_s, answer->report->step_time_s);
    // What nothing scaled is still the shipped profile's name.
    const auto study = make_study(small_setup());
    ASSERT_TRUE(study);
    const auto same = self_contained_cluster(**study);
    ASSERT_TRUE(same);
    EXPECT_EQ(same->profile, (*study)->document.cluster.profile);
}

// A search takes every core; what the user does goes first.
TEST(Workbench, WorkInTheBackgroundIsNicerThanTheWindow) {
    Workbench workbench;
    std::atomic<int> nice{-100};
    workbench.jobs().start("test", "test", [&](JobContext&) -> std::function<void()> {
        nice = ::getpriority(PRIO_PROCESS, 0);
        return {};
    });
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_GT(nice, ::getpriority(PRIO_PROCESS, 0));
}

TEST(Workbench, ExplainsAndTriesWhatIfs) {
    Workbench workbench;
    find_small_plans(workbench);
    workbench.explain();
    ASSERT_TRUE(wait_idle(workbench));
    const auto& explanation = workbench.shown().explanation;
    ASSERT_NE(explanation, nullptr);
    EXPECT_FALSE(explanation->sensitivities.empty());
    EXPECT_FALSE(explanation->neighbours.empty());
    for (const Alternative& a : explanation->sensitivities)
        EXPECT_LE(a.change, 1e-9) << a.what;  // faster hardware is never slower
    WhatIf change;
    change.compute = 2;
    workbench.try_what_if(change);
    ASSERT_TRUE(wait_idle(workbench));
    ASSERT_NE(workbench.what_if_answer(), nullptr);
    EXPECT_LT(workbench.what_if_answer()->report->step_time_s, workbench.shown().report->step_time_s);
    change.lost_nodes = 99;
    workbench.try_what_if(change);
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_EQ(workbench.what_if_answer(), nullptr);
    EXPECT_FALSE(workbench.problems().empty());
}

TEST(Workbench, LosingNodesShrinksDataParallelism) {
    gui::Setup setup = small_setup();
    setup.model = "gpt2-xl";
    setup.cluster = "a100:32";
    setup.global_batch = 96;
    setup.seq_len = 1024;
    setup.fix = "tp=1,pp=1,mbs=1";
    const auto study = make_study(setup);
    ASSERT_TRUE(study);
    const auto found = search_plans(*study, setup, nullptr, {});
    ASSERT_TRUE(found);
    ASSERT_FALSE(found->plans.empty());
    WhatIf change;
    change.lost_nodes = 1;
    const auto answer = what_if(**study, found->plans.front().plan, change);
    ASSERT_TRUE(answer) << to_string(answer.errors());
    EXPECT_EQ(answer->plan.mesh.dp, 24);
    EXPECT_EQ(answer->plan.microbatches, 4);
    EXPECT_GT(answer->report->step_time_s, found->plans.front().step_s());
}

TEST(Workbench, ASessionReadsBack) {
    const QTemporaryDir folder;
    const QString path = folder.filePath("a.session.json");
    Workbench first;
    find_small_plans(first);
    first.pin(0, first.plans()[0].id);
    first.pin(1, first.plans()[1].id);
    first.set_field("recompute", "full");
    ASSERT_TRUE(wait_idle(first));
    Workbench::WindowState state;
    state.theme = "dark";
    ASSERT_EQ(first.save_session(path, state).toStdString(), "");
    Workbench second;
    QString theme;
    QObject::connect(&second, &Workbench::window_state_opened, &second,
                     [&](const Workbench::WindowState& opened) { theme = opened.theme; });
    second.open({path});
    ASSERT_TRUE(wait_idle(second));
    EXPECT_EQ(theme, "dark");
    EXPECT_EQ(second.setup(), first.setup());
    ASSERT_EQ(second.plans().size(), first.plans().size());
    for (std::size_t i = 0; i < first.plans().size(); ++i) {
        EXPECT_EQ(second.plans()[i].plan, first.plans()[i].plan);
        EXPECT_EQ(second.plans()[i].errors.size(), first.plans()[i].errors.size());
        EXPECT_EQ(second.plans()[i].near_identical, first.plans()[i].near_identical);
        EXPECT_EQ(second.plans()[i].front, first.plans()[i].front);
        EXPECT_EQ(second.plans()[i].tied, first.plans()[i].tied);
    }
    EXPECT_TRUE(std::ranges::any_of(first.plans(), [](const PlanEntry& e) { return e.near_identical > 0; }));
    EXPECT_EQ(*second.shown().plan, *first.shown().plan);
    EXPECT_TRUE(second.shown().edited);
    ASSERT_NE(second.pinned(1), nullptr);
    EXPECT_EQ(second.pinned(1)->plan, first.pinned(1)->plan);
    EXPECT_DOUBLE_EQ(second.shown().report->step_time_s, first.shown().report->step_time_s);
}

TEST(Workbench, APlanOpensAtALink) {
    const QTemporaryDir folder;
    const QString path = folder.filePath("p.json");
    Workbench first;
    find_small_plans(first);
    ASSERT_EQ(first.write_plan(path).toStdString(), "");
    Workbench second;
    double seconds = -1;
    int rank = -1;
    QObject::connect(&second, &Workbench::place_requested, &second, [&](double s, int r) {
        seconds = s;
        rank = r;
    });
    second.open({path + "#t=1.5ms&rank=1"});
    ASSERT_TRUE(wait_idle(second));
    EXPECT_DOUBLE_EQ(seconds, 1.5e-3);
    EXPECT_EQ(rank, 1);
    ASSERT_NE(second.shown().report, nullptr);
    EXPECT_EQ(*second.shown().plan, *first.shown().plan);
}

TEST(Workbench, WhatCannotBeReadIsNamedInTheProblems) {
    const QTemporaryDir folder;
    QFile file(folder.filePath("bad.json"));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(R"({"schema": "trainwright/plan", "version": 1, "plan": {"mash": {}}})");
    file.close();
    Workbench workbench;
    workbench.open({file.fileName(), folder.filePath("absent.json")});
    ASSERT_TRUE(wait_idle(workbench));
    bool named = false, absent = false;
    for (const Problem& problem : workbench.problems()) {
        named |= problem.where.startsWith("bad.json") && problem.severity == Problem::Severity::Error;
        absent |= problem.where == "absent.json";
    }
    EXPECT_TRUE(named);
    EXPECT_TRUE(absent);
}

}  // namespace
}  // namespace tw::gui

// How long the window blocks while a search runs, how soon a cancelled search ends, how soon an edited plan
// is on the screen. Offscreen platform.
#include <QApplication>
#include <QElapsedTimer>
#include <QEventLoop>
#include <QThread>
#include <algorithm>

#include <benchmark/benchmark.h>

#include "gui/app/main_window.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/worker/plan_entry.hpp"
#include "plan/parallel_plan.hpp"

namespace tw::gui {
namespace {

void wait_idle(Workbench& workbench) {
    int quiet = 0;
    while (quiet < 3) {
        QApplication::processEvents(QEventLoop::AllEvents, 5);
        quiet = workbench.jobs().busy() ? 0 : quiet + 1;
        QThread::msleep(1);
    }
}

Setup gpt3() {
    Setup setup;
    setup.model = "gpt3-175b";
    setup.cluster = "a100:1024";
    setup.global_batch = 1536;
    setup.fix = "tp=8,pp=8..16,mbs=1";
    return setup;
}

// Longest time between two turns of the event loop while the search runs: what a user feels as blocking.
void BM_LongestBlockWhileSearching(benchmark::State& state) {
    double longest = 0;
    for (auto _ : state) {
        MainWindow window(false);
        window.show();
        Setup setup = gpt3();
        setup.fix.clear();
        window.workbench().edit_setup(setup, "bench");
        wait_idle(window.workbench());
        window.workbench().start_search();
        QElapsedTimer turn;
        turn.start();
        while (window.workbench().jobs().busy()) {
            QApplication::processEvents(QEventLoop::WaitForMoreEvents, 1);
            longest = std::max(longest, static_cast<double>(turn.nsecsElapsed()) / 1e6);
            turn.restart();
        }
    }
    state.counters["longest_block_ms"] = longest;
}
BENCHMARK(BM_LongestBlockWhileSearching)->Unit(benchmark::kMillisecond)->Iterations(1);

void BM_CancelSearch(benchmark::State& state) {
    MainWindow window(false);
    window.show();
    Setup setup = gpt3();
    setup.fix.clear();
    setup.objective = "pareto";
    window.workbench().edit_setup(setup, "bench");
    wait_idle(window.workbench());
    for (auto _ : state) {
        window.workbench().start_search();
        QElapsedTimer running;
        running.start();
        while (running.elapsed() < 300)
            QApplication::processEvents(QEventLoop::AllEvents, 5);
        QElapsedTimer clock;
        clock.start();
        window.workbench().cancel();
        while (window.workbench().searching())
            QApplication::processEvents(QEventLoop::AllEvents, 1);
        state.SetIterationTime(static_cast<double>(clock.nsecsElapsed()) / 1e9);
        wait_idle(window.workbench());
    }
}
BENCHMARK(BM_CancelSearch)->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(5);

// From the change of one field of a GPT-3 175B plan to the repainted window.
void BM_EditOneField(benchmark::State& state) {
    MainWindow window(false);
    window.show();
    window.workbench().edit_setup(gpt3(), "bench");
    window.workbench().start_search();
    wait_idle(window.workbench());
    bool selective = false;
    for (auto _ : state) {
        QElapsedTimer clock;
        clock.start();
        selective = !selective;
        window.workbench().set_field("recompute", selective ? "selective" : "full");
        while (window.workbench().shown().running)
            QApplication::processEvents(QEventLoop::AllEvents, 1);
        QApplication::processEvents();  // paints what was asked for
        state.SetIterationTime(static_cast<double>(clock.nsecsElapsed()) / 1e9);
        wait_idle(window.workbench());
    }
}
BENCHMARK(BM_EditOneField)->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(10);

}  // namespace
}  // namespace tw::gui

int main(int argc, char** argv) {
    if (qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
    const QApplication application(argc, argv);
    tw::gui::apply_theme(tw::gui::Theme::Light);
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}

// How long the window blocks while a search runs, how soon a cancelled search ends, how soon an edited plan
// is on the screen. Offscreen platform.
#include <QApplication>
#include <QElapsedTimer>
#include <QEventLoop>
#include <QThread>
#include <QTimer>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

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

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Knocks at the window's thread every 2 ms, as a user's key would, and notes how long each knock waits.
class Knocker {
  public:
    Knocker() : thread_([this] { knock(); }) {}
    ~Knocker() { stop(); }
    // The waits, ascending, ms.
    const std::vector<double>& stop() {
        stop_ = true;
        if (thread_.joinable()) thread_.join();
        std::ranges::sort(waits_);
        return waits_;
    }

  private:
    void knock() {
        while (!stop_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            if (waiting_.exchange(true)) continue;
            QMetaObject::invokeMethod(
                &door_,
                [this, begin = Clock::now()] {
                    waits_.push_back(ms_since(begin));
                    waiting_ = false;
                },
                Qt::QueuedConnection);
        }
    }

    QObject door_;
    std::vector<double> waits_;
    std::atomic<bool> stop_{false}, waiting_{false};
    std::thread thread_;
};

// An application that notes the event that took longest.
class NotingApplication : public QApplication {
  public:
    using QApplication::QApplication;
    bool notify(QObject* receiver, QEvent* event) override {
        const auto begin = Clock::now();
        const QByteArray name = QByteArray(receiver->metaObject()->className()) + " event " +
                                QByteArray::number(static_cast<int>(event->type()));
        ++depth_;
        const bool taken = QApplication::notify(receiver, event);
        // Events sent within another one are part of it.
        if (--depth_ == 0 && ms_since(begin) > longest) {
            longest = ms_since(begin);
            longest_name = name;
        }
        return taken;
    }
    double longest = 0;
    QByteArray longest_name;

  private:
    int depth_ = 0;
};

// How long a key may wait while the search runs: what a user feels as blocking.
void BM_LongestBlockWhileSearching(benchmark::State& state) {
    auto& application = static_cast<NotingApplication&>(*QApplication::instance());
    double longest = 0, usual = 0;
    application.longest = 0;
    for (auto _ : state) {
        MainWindow window(false);
        window.show();
        Setup setup = gpt3();
        setup.fix.clear();
        window.workbench().edit_setup(setup, "bench");
        wait_idle(window.workbench());
        application.longest = 0;
        Knocker knocker;
        QEventLoop loop;
        QObject::connect(&window.workbench().jobs(), &Jobs::finished, &loop,
                         [&loop] { QTimer::singleShot(300, &loop, &QEventLoop::quit); });
        window.workbench().start_search();
        loop.exec();
        const std::vector<double>& waits = knocker.stop();
        longest = std::max(longest, waits.back());
        usual = waits[waits.size() * 99 / 100];
        QApplication::processEvents();  // a knock that is still on its way
    }
    state.counters["longest_block_ms"] = longest;
    state.counters["of_99_in_100_ms"] = usual;
    state.counters["longest_event_ms"] = application.longest;
    state.SetLabel(application.longest_name.toStdString());
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
    tw::gui::NotingApplication application(argc, argv);
    tw::gui::apply_theme(tw::gui::Theme::Light);
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}

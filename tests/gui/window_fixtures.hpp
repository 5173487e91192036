// A window with a small study, and waiting for what works in the background.
#pragma once

#include <QApplication>
#include <QElapsedTimer>
#include <QTest>
#include <functional>

#include <gtest/gtest.h>

#include "gui/app/main_window.hpp"
#include "gui/widgets/file_names.hpp"
#include "gui/worker/plan_entry.hpp"

namespace tw::gui {

// Runs the event loop until `done`; false after the (generous) time.
inline bool wait_until(const std::function<bool()>& done, int seconds = 120) {
    QElapsedTimer clock;
    clock.start();
    while (!done()) {
        if (clock.elapsed() > seconds * 1000LL) return false;
        QTest::qWait(5);
    }
    return true;
}

inline bool wait_idle(Workbench& workbench, int seconds = 120) {
    int quiet = 0;
    return wait_until([&] { return (quiet = workbench.jobs().busy() ? 0 : quiet + 1) > 3; }, seconds);
}

inline Setup small_setup() {
    Setup setup;
    setup.model = "gpt2-tiny";
    setup.cluster = "cpu:2";
    setup.global_batch = 8;
    setup.seq_len = 128;
    setup.top = 5;
    return setup;
}

// With the plans of the small study, the best of them selected and simulated.
inline void find_small_plans(Workbench& workbench) {
    workbench.edit_setup(small_setup(), "test");
    workbench.start_search();
    ASSERT_TRUE(wait_idle(workbench));
    ASSERT_FALSE(workbench.plans().empty());
    ASSERT_NE(workbench.shown().report, nullptr);
}

}  // namespace tw::gui

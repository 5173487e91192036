#include "gui/view/time_window.hpp"

#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace tw {
namespace {

TimeWindow random_window(Prng& prng) {
    const SimTime begin = prng.integer(-1'000'000'000'000, 1'000'000'000'000);
    return {begin, begin + prng.integer(1000, 2'000'000'000'000), static_cast<double>(prng.integer(1, 4000))};
}

TEST(TimeWindow, PixelsAndTimesAreInverse) {
    Prng prng(1);
    for (int n = 0; n < 2000; ++n) {
        const TimeWindow window = random_window(prng);
        const SimTime time = window.begin + prng.integer(0, window.span());
        // A double holds 53 bits: within two picoseconds at these times.
        EXPECT_NEAR(static_cast<double>(window.time(window.x(time)) - time), 0, 2);
        const double x = prng.uniform() * window.width;
        EXPECT_NEAR(window.x(window.time(x)), x, window.pixels_per_ps());
    }
}

TEST(TimeLimits, ZoomKeepsTheInstantUnderTheCursor) {
    Prng prng(2);
    for (int n = 0; n < 2000; ++n) {
        const TimeLimits limits{0, 1'000'000'000'000};
        TimeWindow window = limits.fit(1600);
        window = limits.zoom_at(window, 800, 0.25);
        const double x = 200 + prng.uniform() * 1200;
        const SimTime under = window.time(x);
        const TimeWindow zoomed = limits.zoom_at(window, x, 0.5 + prng.uniform() * 0.7);
        EXPECT_NEAR(static_cast<double>(zoomed.time(x) - under), 0, 2.0 / zoomed.pixels_per_ps());
    }
}

TEST(TimeLimits, WhateverIsDoneTheWindowStaysLegal) {
    Prng prng(3);
    const TimeLimits limits{0, 50'000'000'000};
    TimeWindow window = limits.fit(1000);
    for (int n = 0; n < 5000; ++n) {
        switch (prng.integer(0, 3)) {
            case 0:
                window = limits.zoom_at(window, prng.uniform() * 1000, 0.1 + 3 * prng.uniform());
                break;
            case 1:
                window = limits.pan(window, static_cast<double>(prng.integer(-3000, 3000)));
                break;
            case 2:
                window = limits.centre(window, prng.integer(-limits.end, 2 * limits.end));
                break;
            default: {
                const SimTime first = prng.integer(0, limits.end - 1);
                window = limits.show(first, first + prng.integer(0, limits.end), 1000);
            }
        }
        ASSERT_GE(window.span(), TimeLimits::kLeastSpan);
        ASSERT_LE(window.span(), limits.end + 2 * limits.margin());
        // Some of the trace is always visible.
        ASSERT_LT(window.begin, limits.end);
        ASSERT_GT(window.end, limits.begin);
        ASSERT_EQ(limits.clamp(window), window);
    }
}

TEST(TimeLimits, FitShowsTheWholeTrace) {
    const TimeLimits limits{0, 123'456'789};
    const TimeWindow window = limits.fit(777);
    EXPECT_LE(window.begin, limits.begin);
    EXPECT_GE(window.end, limits.end);
    // Zooming out from there changes nothing.
    EXPECT_EQ(limits.zoom_at(window, 100, 4), window);
}

TEST(TimeLimits, PanMovesByPixels) {
    const TimeLimits limits{0, 1'000'000'000};
    const TimeWindow window = limits.show(400'000'000, 500'000'000, 1000);
    const TimeWindow panned = limits.pan(window, 50);
    EXPECT_NEAR(panned.x(window.time(500)), 450, 0.01);
}

}  // namespace
}  // namespace tw

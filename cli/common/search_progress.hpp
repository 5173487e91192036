// The one line that a running search shows on a terminal.
#pragma once

#include <chrono>
#include <string>

#include "cli/common/console.hpp"
#include "planner/request.hpp"

namespace tw::cli {

// "2.1 s · 1,203,400 plans, 87 simulated · best 12.3 s, none below 11.8 s · about 3 s left". The remaining
// time follows from how fast the bound has risen towards the best, or from the time limit where that ends
// first.
class SearchProgressLine {
  public:
    // Silent where stderr is no terminal.
    SearchProgressLine(const Console& console, double time_limit_s);
    ~SearchProgressLine();
    SearchProgressLine(const SearchProgressLine&) = delete;
    SearchProgressLine& operator=(const SearchProgressLine&) = delete;

    void show(const SearchProgress& progress);

  private:
    [[nodiscard]] std::string remaining(const SearchProgress& progress, double elapsed_s) const;

    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    bool shown_;
    double time_limit_s_;
    double last_shown_s_ = 0;
    double first_bound_s_ = 0, first_bound_at_s_ = 0;
};

}  // namespace tw::cli

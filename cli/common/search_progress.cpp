#include "cli/common/search_progress.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "base/si_format.hpp"

namespace tw::cli {
namespace {

constexpr double kRefresh_s = 0.1;
constexpr const char* kClearLine = "\r\x1b[K";  // ECMA-48 EL

}  // namespace

SearchProgressLine::SearchProgressLine(const Console& console, double time_limit_s)
    : shown_(console.err_is_terminal()), time_limit_s_(time_limit_s) {}

SearchProgressLine::~SearchProgressLine() {
    if (shown_ && last_shown_s_ > 0) std::fputs(kClearLine, stderr);
}

std::string SearchProgressLine::remaining(const SearchProgress& progress, double elapsed_s) const {
    double left = 0;
    const double risen = progress.bound_s - first_bound_s_;
    if (progress.best_s > 0 && risen > 0)
        left = std::max(0.0, progress.best_s - progress.bound_s) * (elapsed_s - first_bound_at_s_) / risen;
    if (time_limit_s_ > 0) {
        const double limit = std::max(0.0, time_limit_s_ - elapsed_s);
        left = left > 0 ? std::min(left, limit) : limit;
    }
    return left > 0 ? fmt::format(" · about {} left", format_duration(left, 2)) : std::string();
}

void SearchProgressLine::show(const SearchProgress& progress) {
    if (!shown_) return;
    const double elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    if (first_bound_s_ == 0 && progress.bound_s > 0) {
        first_bound_s_ = progress.bound_s;
        first_bound_at_s_ = elapsed_s;
    }
    if (elapsed_s - last_shown_s_ < kRefresh_s) return;
    last_shown_s_ = elapsed_s;
    std::string line = fmt::format("{}{} · {} plans, {} simulated", kClearLine, format_duration(elapsed_s, 2),
                                   format_count(progress.configurations), format_count(progress.simulated));
    if (progress.best_s > 0) {
        line += " · best " + format_duration(progress.best_s);
        if (progress.bound_s > 0) line += ", none below " + format_duration(progress.bound_s);
    }
    line += remaining(progress, elapsed_s);
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
}

}  // namespace tw::cli

#include "real_exec/comm/call_guard.hpp"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace tw {

CallGuard::CallGuard(double limit_s, int rank, std::string doing, int exit_code) {
    if (limit_s <= 0) return;
    const auto watch = [this, limit_s, rank, exit_code, doing = std::move(doing)] {
        std::unique_lock lock(mutex_);
        const std::chrono::duration<double> limit(limit_s);
        if (returned_.wait_for(lock, limit, [this] { return has_returned_; })) return;
        std::cerr << fmt::format(
                         "rank {} has not met the others for {:.0f} s: still {} (is every rank of the run "
                         "running?)\n",
                         rank, limit_s, doing)
                  << std::flush;
        std::_Exit(exit_code);
    };
    try {
        watcher_ = std::thread(watch);
    } catch (const std::system_error&) {
        // No thread to be had: the call is made without a deadline.
    }
}

CallGuard::~CallGuard() {
    if (!watcher_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        has_returned_ = true;
    }
    returned_.notify_one();
    watcher_.join();
}

int rank_of_launcher(const std::function<const char*(const char*)>& environment) {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
        const char* text = environment(name);
        if (text == nullptr) continue;
        int rank = 0;
        const auto [end, bad] = std::from_chars(text, text + std::strlen(text), rank);
        if (bad == std::errc{} && *end == '\0' && rank >= 0) return rank;
    }
    return 0;
}

}  // namespace tw

#include "real_exec/comm/start_guard.hpp"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <utility>

#include <fmt/format.h>

namespace tw {

StartGuard::StartGuard(double limit_s, int rank, std::string doing)
    : watcher_([this, limit_s, rank, doing = std::move(doing)] {
          std::unique_lock lock(mutex_);
          if (met_.wait_for(lock, std::chrono::duration<double>(limit_s), [this] { return has_met_; }))
              return;
          std::cerr << fmt::format(
                           "rank {} has not met the others for {:.0f} s: still {} (is every rank of the run "
                           "running?)\n",
                           rank, limit_s, doing)
                    << std::flush;
          std::_Exit(1);
      }) {}

StartGuard::~StartGuard() {
    {
        const std::lock_guard lock(mutex_);
        has_met_ = true;
    }
    met_.notify_one();
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

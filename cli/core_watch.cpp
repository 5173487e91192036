#include "cli/core_watch.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <mutex>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "profiler/bench/pace.hpp"
#include "profiler/bench/sampler.hpp"
#include "real_exec/backend/backend.hpp"

namespace tw::cli {

using namespace std::chrono_literals;

class CoreWatch::Core {
  public:
    explicit Core(int core)
        : core_(core),
          backend_(make_cpu_backend()),
          clock_(wall_clock()),
          pace_(reference_product(*backend_, clock_)),
          thread_([this] { watch(); }) {}
    ~Core() {
        ends_ = true;
        thread_.join();
    }
    Core(const Core&) = delete;
    Core& operator=(const Core&) = delete;

    [[nodiscard]] int core() const { return core_; }
    void begin() {
        const std::lock_guard lock(mutex_);
        sum_s_ = 0;
        probes_ = 0;
    }
    // Mean since then.
    [[nodiscard]] double reference_s() const {
        const std::lock_guard lock(mutex_);
        return probes_ > 0 ? sum_s_ / probes_ : pace_.best_s();
    }
    [[nodiscard]] double best_s() const {
        const std::lock_guard lock(mutex_);
        return pace_.best_s();
    }

  private:
    void watch() {
        // Its products keep their stack in the heap (cli/common/signal_stack.hpp), where the handlers that
        // the command has installed for its ranks would write: other threads take the signals.
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr);
        cpu_set_t only;
        CPU_ZERO(&only);
        CPU_SET(static_cast<std::size_t>(core_), &only);
        sched_setaffinity(0, sizeof only, &only);
        while (!ends_) {
            std::this_thread::sleep_for(25ms);
            const std::lock_guard lock(mutex_);
            pace_.undisturbed();
            sum_s_ += pace_.latest_s();
            ++probes_;
        }
    }

    int core_;
    std::unique_ptr<Backend> backend_;
    Clock clock_;
    Pace pace_;
    std::atomic<bool> ends_{false};
    mutable std::mutex mutex_;
    double sum_s_ = 0;
    int probes_ = 0;
    std::thread thread_;  // last: it uses the others
};

CoreWatch::CoreWatch() {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    sched_getaffinity(0, sizeof usable, &usable);
    for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (CPU_ISSET(static_cast<std::size_t>(core), &usable))
            cores_.push_back(std::make_unique<Core>(core));
    }
    begin();
}

CoreWatch::~CoreWatch() = default;

void CoreWatch::begin() {
    begun_ = counters();
    begun_busy_ = busy_seconds();
    for (const auto& core : cores_)
        core->begin();
}

CoreWatch::Seen CoreWatch::seen() const {
    Seen seen;
    const std::vector<double> busy = busy_seconds();
    for (const auto& watched : cores_) {
        seen.reference_s.push_back(watched->reference_s());
        const auto core = static_cast<std::size_t>(watched->core());
        const bool known = core < busy.size() && core < begun_busy_.size();
        seen.worked_s.push_back(known ? busy[core] - begun_busy_[core] : 0);
    }
    const Counters now = counters();
    const double wall = now.wall_s - begun_.wall_s;
    const double others = now.busy_s - begun_.busy_s - (now.own_s - begun_.own_s);
    if (wall > 0) seen.others = std::max(0.0, others / wall);
    return seen;
}

double CoreWatch::slower(const Seen& seen, bool one_rank) const {
    double slowest = 1, sum = 0, worked = 0;
    for (std::size_t i = 0; i < seen.reference_s.size() && i < cores_.size(); ++i) {
        const double best = cores_[i]->best_s();
        if (best <= 0) continue;
        slowest = std::max(slowest, seen.reference_s[i] / best);
        sum += seen.worked_s[i] * seen.reference_s[i] / best;
        worked += seen.worked_s[i];
    }
    return one_rank && worked > 0 ? std::max(1.0, sum / worked) : slowest;
}

CoreWatch::Counters CoreWatch::counters() {
    Counters c;
    c.wall_s = wall_clock()();
    const std::vector<double> busy = busy_seconds();
    c.busy_s = std::accumulate(busy.begin(), busy.end(), 0.0);
    for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
        rusage used{};
        getrusage(who, &used);
        for (const timeval& t : {used.ru_utime, used.ru_stime})
            c.own_s += static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    }
    return c;
}

std::vector<double> CoreWatch::busy_seconds() {
    std::vector<double> busy;
    std::ifstream file("/proc/stat");
    const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
    for (std::string line; std::getline(file, line);) {
        // proc(5): "cpu1" and user, nice, system, idle, iowait, irq, softirq in ticks.
        if (line.rfind("cpu", 0) != 0 || line[3] == ' ') continue;
        std::istringstream words(line);
        std::string name;
        std::array<double, 7> ticks{};
        words >> name;
        for (double& t : ticks)
            words >> t;
        busy.push_back((ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / per_second);
    }
    return busy;
}

}  // namespace tw::cli

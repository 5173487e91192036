// Whether anybody else slows this machine's cores while ranks run: a thread pinned to each core times the
// reference of profiler/bench/pace.hpp for some tens of microseconds every so often, some thousandths of the
// core's time; the system's counters tell what other programs computed.
#pragma once

#include <memory>
#include <vector>

namespace tw::cli {

class CoreWatch {
  public:
    CoreWatch();
    ~CoreWatch();
    CoreWatch(const CoreWatch&) = delete;
    CoreWatch& operator=(const CoreWatch&) = delete;

    struct Seen {
        std::vector<double> reference_s;  // of each core, the mean over time
        std::vector<double> worked_s;     // of each core
        double others = 0;                // cores' worth of time that other programs took
    };
    // How much longer the reference took than it does undisturbed: on the cores as much as they worked (one
    // rank, which moves between them), or on the core that was slowest on the whole (ranks that wait for each
    // other). What it takes undisturbed is known from everything that was seen until now.
    [[nodiscard]] double slower(const Seen& seen, bool one_rank) const;
    // Starts anew; what was seen since. Programs that this process started and waited for are no others.
    void begin();
    [[nodiscard]] Seen seen() const;

  private:
    class Core;
    struct Counters {
        double busy_s = 0, own_s = 0, wall_s = 0;
    };
    static Counters counters();
    static std::vector<double> busy_seconds();  // of each core
    std::vector<std::unique_ptr<Core>> cores_;
    Counters begun_;
    std::vector<double> begun_busy_;
};

}  // namespace tw::cli

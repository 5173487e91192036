// Whether the machine runs at its own pace. Others may slow a core without any counter in here telling:
// programs that take its caches, another virtual machine on the sibling thread of the same core. A small
// product whose operands lie in the caches nearest to the core then takes a quarter longer, or twice as long,
// for as long as the neighbour works. It is timed between samples, so that those in between can be told from
// samples of the machine alone.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "profiler/bench/kernel_log.hpp"

namespace tw {

class Pace {
  public:
    // Seconds of the reference, some tens of microseconds.
    using Probe = std::function<double()>;

    // An empty probe: always undisturbed, at no cost.
    explicit Pace(Probe probe = {}) : probe_(std::move(probe)) {}

    [[nodiscard]] bool watches() const { return probe_ != nullptr; }
    // Probes now: whether the reference takes what it takes when nobody disturbs it.
    bool undisturbed();
    // The latest probe over the best: 1.3: the machine is a quarter slower than it can be.
    [[nodiscard]] double latest() const;
    [[nodiscard]] double latest_s() const { return latest_s_; }
    // What the reference takes undisturbed: the twentieth part of all probes took less, so that a clock that
    // is raised for an instant counts for nothing. 0: never probed.
    [[nodiscard]] double best_s() const;
    // Of all probes.
    [[nodiscard]] double share_disturbed() const;

    // Probes until `seconds` are over on `clock`: a first idea of the best.
    void settle(const Clock& clock, double seconds);

    // Equal probes of a core alone differ by 1 to 2 %.
    static constexpr double kTolerance = 1.06;

  private:
    Probe probe_;
    std::vector<double> sorted_;  // probes, ascending
    double latest_s_ = 0;
};

// The backend's product of 64 x 64 x 64 in fp32 on the calling thread; empty where the backend is no
// processor's. The backend and the clock outlive it.
Pace::Probe reference_product(Backend& backend, const Clock& clock);

}  // namespace tw

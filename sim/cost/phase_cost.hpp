// PhaseCost: what one compute instruction (or a part of one) costs a rank.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "sim/cost/max_plus.hpp"

namespace tw {

// Independent sources of prediction error. Errors of one kind are taken as fully correlated (the same curve
// is wrong the same way everywhere), different kinds as independent. Memory-bound kernels: the classes that
// were fitted apart (softmax and dropout; losses and optimizers; all others) are wrong apart.
enum class ErrorSource : std::size_t {
    Gemm,
    Attention,
    Memory,
    Softmax,
    Update,
    IntraNode,
    InterNode,
    Host,
    Framework
};
inline constexpr std::size_t kErrorSources = 9;

// Seconds that an error source could be off by, one standard deviation: what is wrong the same way for all of
// its kernels, and the squares of what is another for each kernel and shape (repeated kernels repeat it).
struct Uncertainty {
    std::array<double, kErrorSources> seconds{};
    std::array<double, kErrorSources> scatter_squared{};
    void add(ErrorSource source, double s, double scatter = 0) {
        seconds[static_cast<std::size_t>(source)] += s;
        scatter_squared[static_cast<std::size_t>(source)] += scatter * scatter;
    }
    void add(const Uncertainty& other, double times = 1) {
        for (std::size_t i = 0; i < kErrorSources; ++i) {
            seconds[i] += other.seconds[i] * times;
            scatter_squared[i] += other.scatter_squared[i] * times * times;
        }
    }
    void scale(double factor) {
        for (std::size_t i = 0; i < kErrorSources; ++i) {
            seconds[i] *= factor;
            scatter_squared[i] *= factor * factor;
        }
    }
    [[nodiscard]] double sigma() const;  // root of the sum of squares
};

// One standard deviation of the difference of two predictions for one model on one cluster, whose errors are
// alike: what is wrong the same way for all kernels cancels but for the seconds in which the two differ, and
// so does the scatter where both run the same kernels. What the framework does to one plan alone does not.
double sigma_of_difference(const Uncertainty& a, const Uncertainty& b, bool same_kernels);

struct PhaseCost {
    MaxPlus matrix = MaxPlus::identity();
    double kernel_s = 0;         // compute kernels, recompute included
    double recompute_s = 0;      // of these, run again
    double recompute_flops = 0;  // of their matrix products, attention counted causally where the kernel is
    double dispatch_s = 0;       // of the host's path, its own work: without what it waits for the device
    double offload_wait_s = 0;   // compute waits for activations on their way to the host or back
    // Collectives inside the stage, by axis: all of it, and what compute waits for.
    struct Communication {
        double total_s = 0;
        double blocking_s = 0;  // compute waits for all of it
        double bytes = 0;       // of the messages, as CollectiveOp counts them
        double longest_s = 0;   // of one of them, whose algorithm (CollectiveCost) is:
        std::string_view algorithm;
        void add(const Communication& other, double times) {
            total_s += other.total_s * times;
            blocking_s += other.blocking_s * times;
            bytes += other.bytes * times;
            if (times > 0 && other.longest_s > longest_s)
                longest_s = other.longest_s, algorithm = other.algorithm;
        }
    };
    Communication tp, cp, ep, dp;  // dp: ZeRO-3's gathers and reductions inside the stage
    Uncertainty uncertainty;
    bool out_of_range = false;

    // Seconds of collectives that compute waits for although they overlap: device time less kernels, blocking
    // ones and waits for activations.
    [[nodiscard]] double exposed_overlap_s() const;

    // This n times in a row; `then` after this.
    [[nodiscard]] PhaseCost repeated(int n) const;
    void append(const PhaseCost& then);

    // Reduced to what the engine's instructions need: the device path, the host's share, and the path host to
    // device.
    [[nodiscard]] SimTime device_time() const;
    [[nodiscard]] SimTime host_time() const;
    [[nodiscard]] SimTime host_to_device_time() const;
};

}  // namespace tw

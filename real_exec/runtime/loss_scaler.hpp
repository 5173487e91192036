// Dynamic loss scaling for fp16 (Micikevicius et al. 2018, arXiv 1710.03740, section 3.2): the gradient
// starts multiplied by a scale, so that small ones do not vanish; a step whose gradient overflows is left out
// and halves the scale, a run of good steps doubles it. Initial value and interval are PyTorch's
// (GradScaler).
#pragma once

#include <cstdint>

namespace tw {

struct LossScaleOptions {
    double initial = 65536;
    std::int64_t growth_interval = 2000;  // good steps
};

class LossScaler {
  public:
    LossScaler() = default;  // off: the scale is 1
    explicit LossScaler(const LossScaleOptions& options)
        : on_(true), scale_(options.initial), interval_(options.growth_interval) {}

    [[nodiscard]] bool on() const { return on_; }
    [[nodiscard]] double scale() const { return scale_; }
    [[nodiscard]] std::int64_t good_steps() const { return good_; }
    // Below it a gradient that overflows is no matter of scale.
    [[nodiscard]] bool exhausted() const { return scale_ < kLeast; }

    void overflowed() {
        scale_ /= 2;
        good_ = 0;
    }
    void good_step() {
        if (!on_ || ++good_ < interval_) return;
        scale_ *= 2;
        good_ = 0;
    }
    // From a checkpoint.
    void restore(double scale, std::int64_t good_steps) {
        scale_ = scale;
        good_ = good_steps;
    }

  private:
    static constexpr double kLeast = 0x1.0p-14;  // the smallest normal number of fp16
    bool on_ = false;
    double scale_ = 1;
    std::int64_t interval_ = 1, good_ = 0;
};

}  // namespace tw

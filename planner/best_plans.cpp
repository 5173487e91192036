#include "planner/best_plans.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace tw {
namespace {

double seconds(const RankedPlan& plan) {
    return to_seconds(plan.evaluation.step_time).value;
}

bool dominates(const Evaluation& a, const Evaluation& b) {
    return a.step_time <= b.step_time && a.peak_device_bytes <= b.peak_device_bytes;
}

}  // namespace

double memory_step(double bytes) {
    return std::floor(std::log(std::max(1.0, bytes)) / std::log(1.01));
}

BestPlans::BestPlans(Objective objective, int top)
    : objective_(objective),
      top_(static_cast<std::size_t>(std::max(1, top))),
      expected_(std::numeric_limits<double>::infinity()) {}

bool BestPlans::wants(double time_s, double memory) const {
    if (objective_ == Objective::Pareto) {
        return std::none_of(plans_.begin(), plans_.end(), [&](const RankedPlan& p) {
            return seconds(p) <= time_s && p.evaluation.peak_device_bytes <= memory;
        });
    }
    if (key(time_s, memory) > expected_) return false;
    if (plans_.size() < top_) return true;
    const RankedPlan& last = plans_[top_ - 1];
    return key(time_s, memory) <= key(seconds(last), last.evaluation.peak_device_bytes);
}

void BestPlans::expect(const std::vector<RankedPlan>& reached) {
    if (objective_ == Objective::Pareto || reached.size() < top_) return;
    std::vector<double> keys;
    for (const RankedPlan& p : reached)
        keys.push_back(key(seconds(p), p.evaluation.peak_device_bytes));
    std::nth_element(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(top_ - 1), keys.end());
    expected_ = keys[top_ - 1];
}

void BestPlans::insert(RankedPlan plan) {
    if (objective_ == Objective::Pareto) {
        for (const RankedPlan& p : plans_) {
            if (dominates(p.evaluation, plan.evaluation)) return;
        }
        std::erase_if(plans_, [&](const RankedPlan& p) { return dominates(plan.evaluation, p.evaluation); });
    }
    const auto rank = [&](const RankedPlan& p) {
        const double time_s = seconds(p), memory = p.evaluation.peak_device_bytes;
        return std::tuple(key(time_s, memory), time_s, memory);
    };
    const auto at =
        std::upper_bound(plans_.begin(), plans_.end(), plan,
                         [&](const RankedPlan& a, const RankedPlan& b) { return rank(a) < rank(b); });
    plans_.insert(at, std::move(plan));
    if (objective_ != Objective::Pareto && plans_.size() > top_) plans_.resize(top_);
}

double BestPlans::first_s() const {
    return plans_.empty() ? 0 : seconds(plans_.front());
}

std::vector<RankedPlan> BestPlans::take() {
    for (RankedPlan& p : plans_) {
        const RankedPlan& first = plans_.front();
        if (objective_ == Objective::Memory) {
            p.tied = memory_step(p.evaluation.peak_device_bytes) ==
                     memory_step(first.evaluation.peak_device_bytes);
            continue;
        }
        const double gap = std::abs(to_seconds(p.evaluation.step_time - first.evaluation.step_time).value);
        p.tied = gap <= sigma_of_difference(first.evaluation.uncertainty, p.evaluation.uncertainty,
                                            same_kernels(first.plan, p.plan));
    }
    return std::exchange(plans_, {});
}

}  // namespace tw

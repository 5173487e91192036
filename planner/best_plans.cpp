#include "planner/best_plans.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
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

BestPlans::BestPlans(Objective objective, int top, bool every)
    : objective_(objective),
      top_(static_cast<std::size_t>(std::max(1, top))),
      every_(every),
      expected_(std::numeric_limits<double>::infinity(), 0) {}

bool BestPlans::wants(double time_s, double memory) const {
    if (objective_ == Objective::Pareto) {
        return std::none_of(plans_.begin(), plans_.end(), [&](const RankedPlan& p) {
            return seconds(p) <= time_s && p.evaluation.peak_device_bytes <= memory;
        });
    }
    const Key least = bound(time_s, memory);
    if (least > expected_) return false;
    if (plans_.empty() || least <= bound(plans_.front())) return true;
    if (plans_.size() < top_) return true;
    return with_slack(least) <= bound(plans_[top_ - 1]);
}

bool BestPlans::wants(double time_s, double memory, const PlanKind& kind) const {
    if (!wants(time_s, memory)) return false;
    const Key least = bound(time_s, memory);
    if (!by_kind() || plans_.empty() || least <= bound(plans_.front())) return true;
    const Key slack = with_slack(least);
    return std::none_of(plans_.begin(), plans_.end(),
                        [&](const RankedPlan& p) { return bound(p) < slack && kind_of(p.plan) == kind; });
}

BestPlans::Key BestPlans::bound(double time_s, double memory) const {
    return {key(time_s, memory), objective_ == Objective::Memory ? time_s : 0};
}

BestPlans::Key BestPlans::bound(const RankedPlan& plan) const {
    return bound(seconds(plan), plan.evaluation.peak_device_bytes);
}

BestPlans::Key BestPlans::with_slack(Key least) const {
    if (by_kind() && objective_ != Objective::Memory) least.first *= 1 + kSlackOfOtherKinds;
    return least;
}

void BestPlans::expect(const std::vector<RankedPlan>& reached) {
    if (objective_ == Objective::Pareto) return;
    BestPlans best(objective_, static_cast<int>(top_), every_);
    for (const RankedPlan& p : reached)
        best.insert(p);
    if (best.plans_.size() < top_) return;
    expected_ = bound(best.plans_.back());
}

bool BestPlans::ties(const RankedPlan& a, const RankedPlan& b) const {
    if (objective_ == Objective::Memory) {
        return memory_step(a.evaluation.peak_device_bytes) == memory_step(b.evaluation.peak_device_bytes);
    }
    const double gap = std::abs(to_seconds(a.evaluation.step_time - b.evaluation.step_time).value);
    return gap <= sigma_of_difference(a.evaluation.uncertainty, b.evaluation.uncertainty,
                                      same_kernels(a.plan, b.plan));
}

bool BestPlans::join_its_kind(RankedPlan& plan) {
    const auto same = std::find_if(plans_.begin(), plans_.end(), [kind = kind_of(plan.plan)](const auto& p) {
        return kind_of(p.plan) == kind;
    });
    if (same == plans_.end()) return false;
    if (rank(*same) <= rank(plan)) {
        if (ties(*same, plan)) same->alike.push_back(std::move(plan));
        return true;
    }
    plan.alike = std::exchange(same->alike, {});
    plan.alike.push_back(std::move(*same));
    std::erase_if(plan.alike, [&](const RankedPlan& other) { return !ties(plan, other); });
    plans_.erase(same);
    return false;
}

void BestPlans::insert(RankedPlan plan) {
    if (objective_ == Objective::Pareto) {
        for (const RankedPlan& p : plans_) {
            if (dominates(p.evaluation, plan.evaluation)) return;
        }
        std::erase_if(plans_, [&](const RankedPlan& p) { return dominates(plan.evaluation, p.evaluation); });
    }
    if (by_kind() && join_its_kind(plan)) return;
    const auto at = std::upper_bound(plans_.begin(), plans_.end(), plan,
                                     [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    plans_.insert(at, std::move(plan));
    if (objective_ != Objective::Pareto && plans_.size() > top_) plans_.resize(top_);
}

std::tuple<double, double, double> BestPlans::rank(const RankedPlan& plan) const {
    const double time_s = seconds(plan), memory = plan.evaluation.peak_device_bytes;
    return {key(time_s, memory), time_s, memory};
}

double BestPlans::first_s() const {
    return plans_.empty() ? 0 : seconds(plans_.front());
}

std::vector<RankedPlan> BestPlans::take() {
    // Every plan of a search is costed with the same list.
    const auto forget_modules = [](ParallelPlan& plan) {
        if (!recomputes_by(plan, RecomputeMode::Modules)) plan.recompute_modules = {};
    };
    for (RankedPlan& p : plans_) {
        forget_modules(p.plan);
        for (RankedPlan& other : p.alike)
            forget_modules(other.plan);
        p.tied = ties(plans_.front(), p);
        std::stable_sort(p.alike.begin(), p.alike.end(),
                         [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    }
    return std::exchange(plans_, {});
}

}  // namespace tw

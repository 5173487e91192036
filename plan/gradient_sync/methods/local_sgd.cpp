// Local SGD: H optimizer steps on each replica, then an average of the parameters (Stich 2019; Lin et al.
// 2020), which amortises one all-reduce over H steps. With an outer optimizer (DiLoCo, Douillard et al. 2023)
// each replica also keeps the last common parameters and an outer momentum, both fp32.
#include <array>

#include "plan/gradient_sync/method_helpers.hpp"

namespace tw {

namespace {

class LocalSgd final : public GradientSync {
  public:
    [[nodiscard]] SyncInfo info() const override {
        return {"local-sgd", "Local SGD", "Stich 2019; Lin et al. 2020; Douillard et al. 2023 (DiLoCo)",
                Semantics::LocalSteps, false};
    }
    [[nodiscard]] std::span<const std::string_view> options() const override {
        static constexpr std::array<std::string_view, 2> kOptions = {"local_steps", "outer_momentum"};
        return kOptions;
    }
    [[nodiscard]] Errors check(const SyncRequest& request, const SyncOptions& options) const override {
        Errors errors;
        if (options.local_steps < 1)
            errors.push_back(
                sync_detail::rule("local_steps", std::to_string(options.local_steps) + " local steps", "1"));
        if (request.zero_stage > 0)
            errors.push_back(
                sync_detail::rule("zero_stage", "replicas of local SGD differ, ZeRO's shards must not", "0"));
        return errors;
    }
    [[nodiscard]] SyncCost cost(const SyncRequest& request, const SyncOptions& options) const override {
        SyncCost cost;
        sync_detail::add(cost, request,
                         {CollectiveKind::AllReduce, sync_detail::gradient_bytes(request),
                          1.0 / options.local_steps, SyncMoment::AfterOptimizer});
        if (options.outer_momentum) {
            cost.memory_bytes = 8 * request.parameters;
            // Outer step: reads parameters, common parameters and momentum, writes all three.
            cost.kernel_bytes = 24 * request.parameters / options.local_steps;
        }
        return cost;
    }
};

}  // namespace

const GradientSync& local_sgd_sync();
const GradientSync& local_sgd_sync() {
    static const LocalSgd method;
    return method;
}

}  // namespace tw

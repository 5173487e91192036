// Top-k sparsification with error feedback (Stich et al. 2018; Lin et al. 2018, Deep Gradient Compression):
// the k largest entries of gradient plus residual are all-gathered as (int32 index, value), the rest stays in
// an fp32 residual.
#include <array>

#include "plan/gradient_sync/method_helpers.hpp"

namespace tw {

namespace {

class TopKSync final : public GradientSync {
  public:
    [[nodiscard]] SyncInfo info() const override {
        return {"top-k", "Top-k with error feedback", "Stich et al. 2018; Lin et al. 2018 (DGC)",
                Semantics::Synchronous, false};
    }
    [[nodiscard]] std::span<const std::string_view> options() const override {
        static constexpr std::array<std::string_view, 1> kOptions = {"density"};
        return kOptions;
    }
    [[nodiscard]] Errors check(const SyncRequest& request, const SyncOptions& options) const override {
        Errors errors;
        if (!(options.density > 0 && options.density <= 1))
            errors.push_back(sync_detail::rule("density", "a density of " + std::to_string(options.density),
                                               "0.01, in (0, 1]"));
        if (request.zero_stage > 0)
            errors.push_back(
                sync_detail::rule("zero_stage", "top-k needs whole gradients on every replica", "0"));
        return errors;
    }
    [[nodiscard]] SyncCost cost(const SyncRequest& request, const SyncOptions& options) const override {
        const double element = bytes_per_element(request.gradient);
        const double chosen = options.density * request.parameters;
        const double gathered = request.replicas * chosen * (4 + element);
        SyncCost cost;
        if (request.replicas < 2) return cost;
        sync_detail::add(cost, request, {CollectiveKind::AllGather, gathered, 1, SyncMoment::AfterBackward});
        cost.memory_bytes = 4 * request.parameters + gathered;
        // Add gradient to residual (read both, write one), find the threshold and select (two reads), then
        // scatter-add every replica's entries (index, value, read and write of the target).
        cost.kernel_bytes = request.parameters * (element + 4 + 4 + 4 + 4) + gathered +
                            2 * element * gathered / (4 + element);
        return cost;
    }
};

}  // namespace

const GradientSync& top_k_sync();
const GradientSync& top_k_sync() {
    static const TopKSync method;
    return method;
}

}  // namespace tw

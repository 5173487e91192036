// PowerSGD (Vogels et al. 2019): each d x d gradient M is approximated by P Q^T of rank r, one power
// iteration a step. Two fp32 all-reduces of d r numbers a matrix; M Q, M^T P and P Q^T cost 2 d^2 r FLOPs
// each and orthogonalising P 2 d r^2. Error feedback keeps M - P Q^T in fp32, Q is kept for the next step.
#include <array>

#include "plan/gradient_sync/method_helpers.hpp"

namespace tw {

namespace {

class PowerSgd final : public GradientSync {
  public:
    [[nodiscard]] SyncInfo info() const override {
        return {"powersgd", "PowerSGD low rank", "Vogels et al. 2019", Semantics::Synchronous, false};
    }
    [[nodiscard]] std::span<const std::string_view> options() const override {
        static constexpr std::array<std::string_view, 1> kOptions = {"rank"};
        return kOptions;
    }
    [[nodiscard]] Errors check(const SyncRequest& request, const SyncOptions& options) const override {
        Errors errors;
        if (options.rank < 1 || options.rank * 2 > request.matrix_dim)
            errors.push_back(sync_detail::rule("rank",
                                               "rank " + std::to_string(options.rank) + " for matrices of " +
                                                   std::to_string(request.matrix_dim) + " saves nothing",
                                               "4"));
        if (request.zero_stage > 0)
            errors.push_back(
                sync_detail::rule("zero_stage", "PowerSGD needs whole gradients on every replica", "0"));
        return errors;
    }
    [[nodiscard]] SyncCost cost(const SyncRequest& request, const SyncOptions& options) const override {
        const double d = static_cast<double>(request.matrix_dim);
        const double r = options.rank;
        const double matrices = request.parameters / (d * d);
        const double factor = 4 * matrices * d * r;
        SyncCost cost;
        if (request.replicas < 2) return cost;
        sync_detail::add(cost, request, {CollectiveKind::AllReduce, factor, 1, SyncMoment::AfterBackward});
        sync_detail::add(cost, request, {CollectiveKind::AllReduce, factor, 1, SyncMoment::AfterBackward});
        cost.memory_bytes = 4 * request.parameters + 2 * factor;
        // Gradient and residual in, twice the sum in for the products, residual and gradient out, factors
        // four times.
        const double element = bytes_per_element(request.gradient);
        cost.kernel_bytes = request.parameters * (2 * element + 4 + 8 + 4) + 4 * factor;
        return cost;
    }
};

}  // namespace

const GradientSync& power_sgd_sync();
const GradientSync& power_sgd_sync() {
    static const PowerSgd method;
    return method;
}

}  // namespace tw

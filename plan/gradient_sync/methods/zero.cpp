// ZeRO (Rajbhandari et al. 2020, section 7; FSDP: Zhao et al. 2023): stages 1 and 2 reduce-scatter the
// gradients and all-gather the updated parameters, the volume of an all-reduce. Stage 3 gathers the
// parameters before every forward and again before every backward, and reduce-scatters after every
// backward: 1.5 times the volume with one microbatch.
#include "plan/gradient_sync/method_helpers.hpp"

namespace tw {

namespace {

class ZeroSync final : public GradientSync {
  public:
    [[nodiscard]] SyncInfo info() const override {
        return {"zero", "ZeRO: reduce-scatter and all-gather",
                "Rajbhandari et al. 2020; Zhao et al. 2023 (FSDP)"};
    }
    [[nodiscard]] Errors check(const SyncRequest& request, const SyncOptions&) const override {
        Errors errors;
        if (request.zero_stage < 1 || request.zero_stage > 3)
            errors.push_back(sync_detail::rule(
                "zero_stage", "zero_stage " + std::to_string(request.zero_stage) + " is not 1, 2 or 3", "1"));
        return errors;
    }
    [[nodiscard]] SyncCost cost(const SyncRequest& request, const SyncOptions&) const override {
        const double gradients = sync_detail::gradient_bytes(request);
        const double parameters = sync_detail::parameter_bytes(request);
        SyncCost cost;
        if (request.zero_stage < 3) {
            sync_detail::add(cost, request,
                             {CollectiveKind::ReduceScatter, gradients, 1, SyncMoment::AfterBackward});
            sync_detail::add(cost, request,
                             {CollectiveKind::AllGather, parameters, 1, SyncMoment::AfterOptimizer});
            return cost;
        }
        const double m = request.microbatches;
        sync_detail::add(cost, request, {CollectiveKind::AllGather, parameters, m, SyncMoment::EachForward});
        sync_detail::add(cost, request, {CollectiveKind::AllGather, parameters, m, SyncMoment::EachBackward});
        sync_detail::add(cost, request,
                         {CollectiveKind::ReduceScatter, gradients, m, SyncMoment::EachBackward});
        return cost;
    }
};

}  // namespace

const GradientSync& zero_sync();
const GradientSync& zero_sync() {
    static const ZeroSync method;
    return method;
}

}  // namespace tw

// Synchronous all-reduce of the gradients: 2(n-1)/n of their bytes (Patarasuk and Yuan 2009; Li et al. 2020,
// PyTorch DDP).
#include "plan/gradient_sync/method_helpers.hpp"

namespace tw {

namespace {

class AllReduceSync final : public GradientSync {
  public:
    [[nodiscard]] SyncInfo info() const override {
        return {"all-reduce", "All-reduce of gradients",
                "Patarasuk and Yuan 2009; Li et al. 2020 (PyTorch DDP)"};
    }
    [[nodiscard]] Errors check(const SyncRequest& request, const SyncOptions&) const override {
        Errors errors;
        if (request.zero_stage > 0)
            errors.push_back(sync_detail::rule(
                "gradient_sync", "all-reduce keeps whole gradients, zero_stage shards them", "zero"));
        return errors;
    }
    [[nodiscard]] SyncCost cost(const SyncRequest& request, const SyncOptions&) const override {
        SyncCost cost;
        sync_detail::add(
            cost, request,
            {CollectiveKind::AllReduce, sync_detail::gradient_bytes(request), 1, SyncMoment::AfterBackward});
        return cost;
    }
};

}  // namespace

const GradientSync& all_reduce_sync();
const GradientSync& all_reduce_sync() {
    static const AllReduceSync method;
    return method;
}

}  // namespace tw

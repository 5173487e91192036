// 8-bit gradients with a scale for each block (Dettmers 2016; Wang et al. 2023, ZeRO++ qgZ): sums of 8-bit
// numbers overflow, so each rank quantises, exchanges chunks by all-to-all, adds in fp32, quantises again and
// all-gathers. S = P (1 + 4/block) bytes. Error feedback (Seide et al. 2014) keeps the rounding error in
// fp32.
#include <array>

#include "plan/gradient_sync/method_helpers.hpp"

namespace tw {

namespace {

class EightBitSync final : public GradientSync {
  public:
    [[nodiscard]] SyncInfo info() const override {
        return {"8-bit", "8-bit blocks with scales",
                "Dettmers 2016; Wang et al. 2023 (ZeRO++); Seide et al. 2014", Semantics::Synchronous, false};
    }
    [[nodiscard]] std::span<const std::string_view> options() const override {
        static constexpr std::array<std::string_view, 1> kOptions = {"block"};
        return kOptions;
    }
    [[nodiscard]] Errors check(const SyncRequest& request, const SyncOptions& options) const override {
        Errors errors;
        if (options.block < 1)
            errors.push_back(sync_detail::rule(
                "block", "blocks of " + std::to_string(options.block) + " elements", "256"));
        if (request.zero_stage > 0)
            errors.push_back(
                sync_detail::rule("zero_stage", "8-bit all-reduce gives every replica whole gradients", "0"));
        return errors;
    }
    [[nodiscard]] SyncCost cost(const SyncRequest& request, const SyncOptions& options) const override {
        const double element = bytes_per_element(request.gradient);
        const double packed = request.parameters * (1 + 4.0 / static_cast<double>(options.block));
        SyncCost cost;
        if (request.replicas < 2) return cost;
        sync_detail::add(cost, request, {CollectiveKind::AllToAll, packed, 1, SyncMoment::AfterBackward});
        sync_detail::add(cost, request, {CollectiveKind::AllGather, packed, 1, SyncMoment::AfterBackward});
        cost.memory_bytes = 4 * request.parameters + 2 * packed;
        // Quantise: gradient and residual in, packed and residual out. Reduce: packed in, a share out.
        // Dequantise: packed in, gradient out.
        cost.kernel_bytes = request.parameters * (element + 4 + 4) + packed +
                            packed * (1 + 1.0 / request.replicas) + packed + request.parameters * element;
        return cost;
    }
};

}  // namespace

const GradientSync& eight_bit_sync();
const GradientSync& eight_bit_sync() {
    static const EightBitSync method;
    return method;
}

}  // namespace tw

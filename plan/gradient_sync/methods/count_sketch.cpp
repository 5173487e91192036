// Count sketch (Ivkin et al. 2019, SketchedSGD): every rank hashes gradient plus residual into a table of
// rows x columns fp32 counters; tables add, so they are all-reduced; the largest k entries are read off the
// sum and their exact values all-reduced. The residual keeps the rest in fp32.
#include <array>

#include "plan/gradient_sync/method_helpers.hpp"

namespace tw {

namespace {

class CountSketchSync final : public GradientSync {
  public:
    [[nodiscard]] SyncInfo info() const override {
        return {"count-sketch", "Count sketch", "Ivkin et al. 2019 (SketchedSGD); Charikar et al. 2002",
                Semantics::Synchronous, false};
    }
    [[nodiscard]] std::span<const std::string_view> options() const override {
        static constexpr std::array<std::string_view, 3> kOptions = {"density", "sketch_rows",
                                                                     "sketch_width"};
        return kOptions;
    }
    [[nodiscard]] Errors check(const SyncRequest& request, const SyncOptions& options) const override {
        Errors errors;
        if (options.sketch_rows < 1)
            errors.push_back(sync_detail::rule(
                "sketch_rows", std::to_string(options.sketch_rows) + " rows in a sketch", "5"));
        if (!(options.sketch_width > 0 && options.sketch_width <= 1))
            errors.push_back(sync_detail::rule("sketch_width",
                                               "a sketch width of " + std::to_string(options.sketch_width),
                                               "0.02, in (0, 1]"));
        if (!(options.density > 0 && options.density <= 1))
            errors.push_back(sync_detail::rule("density", "a density of " + std::to_string(options.density),
                                               "0.01, in (0, 1]"));
        if (request.zero_stage > 0)
            errors.push_back(
                sync_detail::rule("zero_stage", "a sketch needs whole gradients on every replica", "0"));
        return errors;
    }
    [[nodiscard]] SyncCost cost(const SyncRequest& request, const SyncOptions& options) const override {
        const double element = bytes_per_element(request.gradient);
        const double rows = options.sketch_rows;
        const double table = 4 * rows * options.sketch_width * request.parameters;
        const double values = options.density * request.parameters * element;
        SyncCost cost;
        if (request.replicas < 2) return cost;
        sync_detail::add(cost, request, {CollectiveKind::AllReduce, table, 1, SyncMoment::AfterBackward});
        sync_detail::add(cost, request, {CollectiveKind::AllReduce, values, 1, SyncMoment::AfterBackward});
        cost.memory_bytes = 4 * request.parameters + table;
        // Insert: gradient and residual in, residual out, a read and a write of a counter for every row;
        // query: a read for every row of every parameter, a write of the values.
        cost.kernel_bytes = request.parameters * (element + 8 + 8 * rows + 4 * rows) + 2 * values;
        return cost;
    }
};

}  // namespace

const GradientSync& count_sketch_sync();
const GradientSync& count_sketch_sync() {
    static const CountSketchSync method;
    return method;
}

}  // namespace tw

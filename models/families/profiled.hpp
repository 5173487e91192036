// A layer whose times somebody measured (PipeDream's profiler): its kernels are durations, not shapes.
//
// A profile was taken at one microbatch size. Other sizes scale linearly, which overstates large and
// understates small microbatches; the loader says so. Tensor, context and expert parallelism cannot be
// derived from a duration: legal degrees are 1.
#pragma once

#include <cstdint>
#include <string>

#include "models/graph/layer_graph.hpp"

namespace tw {

struct MeasuredLayer {
    std::string name;
    double forward_s = 0, backward_s = 0;  // of one profiled minibatch
    // Share of backward_s that makes the input gradient; the rest makes the weight gradient.
    double input_gradient_share = 1;
    double saved_bytes =
        0;  // of one profiled minibatch, kept from forward to backward; 0 for views and in-place operators
    std::int64_t parameters = 0;
    std::int64_t minibatch = 1;  // samples in the profiled minibatch

    // Equal arithmetic; names may differ.
    [[nodiscard]] bool same_work(const MeasuredLayer& other) const;
};

class ProfiledLayer final : public LayerModel {
  public:
    explicit ProfiledLayer(MeasuredLayer layer) : layer_(std::move(layer)) {}

    [[nodiscard]] LayerWork work(const WorkShape& shape) const override;
    [[nodiscard]] std::int64_t parameters() const override { return layer_.parameters; }
    // Unknown for a measured layer: 0, so that no MFU is claimed.
    [[nodiscard]] FlopCount model_flops(std::int64_t, std::int64_t, bool) const override {
        return FlopCount(0);
    }
    [[nodiscard]] std::vector<Divisibility> divisibility() const override;
    [[nodiscard]] const MeasuredLayer& measured() const { return layer_; }

  private:
    MeasuredLayer layer_;
};

}  // namespace tw

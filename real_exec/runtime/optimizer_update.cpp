#include "real_exec/runtime/optimizer_update.hpp"

namespace tw {

UpdateTensors UpdateTensors::part(std::int64_t begin, std::int64_t count) const {
    const auto cut = [&](const Tensor& whole) { return whole ? whole.rows(begin, count) : whole; };
    return {cut(values), cut(master), cut(grads), cut(first), cut(second)};
}

void update_bucket(Backend& backend, const UpdateSpec& spec, const OptimizerOptions& o,
                   const StageState& state, const Bucket& bucket, const UpdateTensors& owned) {
    const std::int64_t begin = state.owned_begin(bucket);
    for (const BucketRun& run : state.owned_runs(bucket)) {
        const UpdateTensors t = owned.part(run.begin - begin, run.elements);
        const double weight_decay = run.decay ? o.weight_decay : 0;
        if (spec.kind == OptimizerKind::Adam) {
            const AdamSpec adam{spec.rate,      o.beta1,      o.beta2,
                                o.epsilon,      weight_decay, run.earlier + spec.update,
                                spec.grad_scale};
            backend.adamw(t.values, t.master, t.grads, t.first, t.second, adam);
            continue;
        }
        const bool momentum = spec.kind == OptimizerKind::SgdMomentum;
        const SgdSpec sgd{spec.rate, momentum ? o.momentum : 0, weight_decay, spec.grad_scale};
        backend.sgd(t.values, t.master, t.grads, momentum ? t.first : Tensor{}, sgd);
    }
}

}  // namespace tw

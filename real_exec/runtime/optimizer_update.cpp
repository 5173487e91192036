#include "real_exec/runtime/optimizer_update.hpp"

namespace tw {

UpdateTensors UpdateTensors::part(std::int64_t begin, std::int64_t count) const {
    const auto cut = [&](const Tensor& whole) { return whole ? whole.rows(begin, count) : whole; };
    return {cut(values), cut(master), cut(grads), cut(first), cut(second)};
}

void update_elements(Backend& backend, const UpdateSpec& spec, const OptimizerOptions& o,
                     const UpdateTensors& t, bool decay) {
    const double weight_decay = decay ? o.weight_decay : 0;
    if (spec.kind == OptimizerKind::Adam) {
        const AdamSpec adam{spec.rate,    o.beta1,     o.beta2,        o.epsilon,
                            weight_decay, spec.update, spec.grad_scale};
        backend.adamw(t.values, t.master, t.grads, t.first, t.second, adam);
        return;
    }
    const bool momentum = spec.kind == OptimizerKind::SgdMomentum;
    const SgdSpec sgd{spec.rate, momentum ? o.momentum : 0, weight_decay, spec.grad_scale};
    backend.sgd(t.values, t.master, t.grads, momentum ? t.first : Tensor{}, sgd);
}

}  // namespace tw

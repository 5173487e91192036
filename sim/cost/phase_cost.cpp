#include "sim/cost/phase_cost.hpp"

#include <cmath>

namespace tw {

double Uncertainty::sigma() const {
    double sum = 0;
    for (std::size_t i = 0; i < kErrorSources; ++i)
        sum += seconds[i] * seconds[i] + scatter_squared[i];
    return std::sqrt(sum);
}

double sigma_of_difference(const Uncertainty& a, const Uncertainty& b, bool same_kernels) {
    double sum = 0;
    for (std::size_t i = 0; i < kErrorSources; ++i) {
        const double shared = a.seconds[i] - b.seconds[i];
        const double repeated = std::sqrt(a.scatter_squared[i]) - std::sqrt(b.scatter_squared[i]);
        const bool alike = same_kernels && i != static_cast<std::size_t>(ErrorSource::Framework);
        sum += shared * shared + (alike ? repeated * repeated : a.scatter_squared[i] + b.scatter_squared[i]);
    }
    return std::sqrt(sum);
}

void PhaseCost::append(const PhaseCost& then) {
    matrix = compose(matrix, then.matrix);
    kernel_s += then.kernel_s;
    recompute_s += then.recompute_s;
    recompute_flops += then.recompute_flops;
    dispatch_s += then.dispatch_s;
    offload_wait_s += then.offload_wait_s;
    tp.add(then.tp, 1);
    cp.add(then.cp, 1);
    ep.add(then.ep, 1);
    dp.add(then.dp, 1);
    uncertainty.add(then.uncertainty);
    out_of_range |= then.out_of_range;
}

PhaseCost PhaseCost::repeated(int n) const {
    PhaseCost r;
    r.matrix = power(matrix, n);
    r.kernel_s = kernel_s * n;
    r.recompute_s = recompute_s * n;
    r.recompute_flops = recompute_flops * n;
    r.dispatch_s = dispatch_s * n;
    r.offload_wait_s = offload_wait_s * n;
    r.tp.add(tp, n);
    r.cp.add(cp, n);
    r.ep.add(ep, n);
    r.dp.add(dp, n);
    r.uncertainty.add(uncertainty, n);
    r.out_of_range = out_of_range && n > 0;
    return r;
}

double PhaseCost::exposed_overlap_s() const {
    const double blocking = tp.blocking_s + cp.blocking_s + ep.blocking_s + dp.blocking_s;
    return std::max(0.0, to_seconds(device_time()).value - kernel_s - blocking - offload_wait_s);
}

namespace {
// A stage ends when both its kernels and its own collectives are done; a collective that still runs is waited
// for.
SimTime device_path(const MaxPlus& m, CostStream from) {
    return std::max({m.get(CostStream::Compute, from), m.get(CostStream::Comm, from),
                     m.get(CostStream::Shard, from), SimTime{0}});
}
}  // namespace

SimTime PhaseCost::device_time() const {
    return std::max({device_path(matrix, CostStream::Compute), device_path(matrix, CostStream::Comm),
                     device_path(matrix, CostStream::Shard)});
}

SimTime PhaseCost::host_time() const {
    return std::max(matrix.get(CostStream::Host, CostStream::Host), SimTime{0});
}

SimTime PhaseCost::host_to_device_time() const {
    return device_path(matrix, CostStream::Host);
}

}  // namespace tw

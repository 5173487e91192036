#include "models/hardware/scatter.hpp"

#include <algorithm>
#include <cmath>

#include "models/hardware/gemm_form.hpp"

namespace tw {
namespace {

double own(const FitRecord& fit) {
    return std::sqrt(std::max(0.0, fit.sigma * fit.sigma - fit.shared * fit.shared));
}

bool same_curve(Precision a, Precision b) {
    const auto half = [](Precision p) { return p == Precision::Fp16 || p == Precision::Bf16; };
    return a == b || (half(a) && half(b));
}

struct Scatter {
    const HardwareProfile& profile;

    double operator()(const Gemm& gemm) const {
        for (const HostGemmEntry& entry : profile.host_gemm) {
            if (entry.precision == gemm.precision && entry.form == gemm.form) return own(entry.fit);
        }
        double squares = 0;
        for (const GemmEntry& entry : profile.gemm) {
            if (same_curve(entry.precision, gemm.precision)) squares = own(entry.fit) * own(entry.fit);
        }
        if (const GemmFormEntry* form = gemm_form(profile, gemm.form, gemm.precision)) {
            const double sigma = own(form->fit);
            // The forward's factor is how far a second machine lies from the table, all shapes alike;
            // documents that do not tell `shared` hold it in sigma.
            const bool whole = form->form == GemmForm::Forward && form->fit.shared == 0;
            const double apart = whole ? std::min(sigma, std::abs(std::log(form->factor))) : 0;
            squares += sigma * sigma - apart * apart;
        }
        return std::sqrt(squares);
    }

    double operator()(const Attention& attention) const {
        for (const AttentionEntry& entry : profile.attention) {
            if (entry.kernel == attention.kernel && entry.backward == attention.backward)
                return own(entry.fit);
        }
        return 0;
    }

    double operator()(const MemoryOp& op) const {
        for (const MemoryEntry& entry : profile.memory_ops) {
            if (entry.kind == op.kind && entry.backward == op.backward) return own(entry.fit);
        }
        return 0;
    }

    double operator()(const Convolution&) const { return 0; }
    double operator()(const MeasuredOp&) const { return 0; }
    double operator()(const CollectiveOp&) const { return 0; }
};

}  // namespace

double kernel_scatter(const HardwareProfile& profile, const Op& op) {
    return std::visit(Scatter{profile}, op.body);
}

}  // namespace tw

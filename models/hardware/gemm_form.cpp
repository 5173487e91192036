#include "models/hardware/gemm_form.hpp"

namespace tw {

const GemmFormEntry* gemm_form(const HardwareProfile& profile, GemmForm form, Precision precision) {
    const GemmFormEntry* for_all = nullptr;
    for (const GemmFormEntry& entry : profile.gemm_forms) {
        if (entry.form != form) continue;
        if (entry.precision == precision) return &entry;
        if (!entry.precision) for_all = &entry;
    }
    return for_all;
}

}  // namespace tw

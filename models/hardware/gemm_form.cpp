#include "models/hardware/gemm_form.hpp"

#include <utility>

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

void set_gemm_form(HardwareProfile& profile, const GemmFormEntry& measured, Precision precision) {
    const GemmFormEntry* const held = gemm_form(profile, measured.form, precision);
    GemmFormEntry entry = measured;
    entry.precision = held != nullptr ? held->precision : std::nullopt;
    if (held == nullptr) {
        profile.gemm_forms.push_back(std::move(entry));
    } else {
        profile.gemm_forms[static_cast<std::size_t>(held - profile.gemm_forms.data())] = std::move(entry);
    }
}

}  // namespace tw

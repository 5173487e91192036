// Measured training results in their three shapes, and the cases made of them.
#include "sim/validate/truth_case.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto rows = tw::read_truth_text(tw::fuzz::text_of(data, size), "rows.json");
    tw::fuzz::require_value_or_refusal(rows);
    if (!rows) return 0;
    for (const tw::TruthRow& row : *rows) {
        if (!row.errors.empty()) {
            tw::fuzz::require_refusal(row.errors);
            continue;
        }
        const auto made = tw::make_case(row);
        if (!made) tw::fuzz::require(!made.error().message.empty(), "an error without a message");
    }
    return 0;
}

// PyTorch's schedule CSV: read, proven, lowered, drawn.
#include "plan/schedule/pytorch_csv.hpp"

#include "plan/schedule/check.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = tw::fuzz::text_of(data, size);
    const auto order = tw::read_pytorch_csv(text);
    if (!order) {
        tw::fuzz::require(!order.errors().empty(), "a refusal without errors");
    } else {
        const tw::Errors errors = tw::check_order(*order);
        (void)tw::format_grid(*order, errors.empty() ? nullptr : &errors.front());
        (void)tw::write_pytorch_csv(*order);
    }
    for (const auto p2p : {tw::LoweringOptions::P2p::PerDirection, tw::LoweringOptions::P2p::Single}) {
        const auto schedule = tw::read_pytorch_csv_schedule(text, p2p);
        if (schedule) (void)tw::write_pytorch_csv(*schedule);
    }
    return 0;
}

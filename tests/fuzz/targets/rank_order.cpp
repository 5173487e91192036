// "tp-cp-ep-dp-pp": read, written and read back.
#include "models/hardware/rank_order.hpp"

#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto order = tw::parse_rank_order(tw::fuzz::text_of(data, size));
    tw::fuzz::require_value_or_refusal(order, tw::ErrorCode::Usage);
    if (!order) return 0;
    const auto again = tw::parse_rank_order(tw::to_string(*order));
    tw::fuzz::require(again.has_value() && *again == *order, "another order is read back");
    return 0;
}

// Files of other tools that hold figures of a machine, under file names that say how many ranks there were.
#include "models/formats/foreign_hardware.hpp"

#include <cmath>

#include "models/formats/other_tools.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = tw::fuzz::text_of(data, size);
    for (const tw::ForeignHardwareKind& kind : tw::foreign_hardware_kinds()) {
        (void)kind.sniff(text);
        const auto hardware = kind.read(text, "profile_2nodes_8gpus_per_node/intra_8.json");
        tw::fuzz::require_value_or_refusal(hardware);
        if (!hardware) continue;
        (void)tw::describe(*hardware);
        for (const tw::ForeignProduct& product : hardware->products)
            tw::fuzz::require(std::isfinite(product.seconds) && product.seconds > 0,
                              "a product without a time");
        for (const tw::ForeignSeries& series : hardware->series) {
            for (const auto& point : series.points)
                tw::fuzz::require(point.bytes > 0 && point.seconds > 0, "a point without size or time");
        }
        for (const tw::Finding& finding : hardware->findings)
            (void)tw::is_suspect(finding);
    }
    for (const tw::DocumentKind& kind : tw::other_tools()) {
        (void)kind.sniff(text, "file.json");
        tw::fuzz::require_value_or_refusal(kind.describe(text, "file.json"));
    }
    return 0;
}

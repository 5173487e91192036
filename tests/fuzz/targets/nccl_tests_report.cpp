// JSON reports of nccl-tests, and logs that hold several tests.
#include "models/formats/nccl_tests.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = tw::fuzz::text_of(data, size);
    tw::fuzz::require_value_or_refusal(tw::parse_nccl_tests_json(text, "report.json"));
    const auto logs = tw::parse_nccl_tests_all(text, "report.json");
    tw::fuzz::require_value_or_refusal(logs);
    if (logs) {
        for (const tw::NcclTestsLog& log : *logs) {
            tw::fuzz::require(!log.rows.empty(), "a log without rows");
            for (const tw::Finding& finding : log.warnings)
                (void)tw::is_suspect(finding);  // CHECKs that the name is one of the table
        }
    }
    return 0;
}

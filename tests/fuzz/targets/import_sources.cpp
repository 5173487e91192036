// Whatever is imported: a profile document that reads back, or a refusal. The input goes through a file, as a
// user's does.
#include <cstdlib>
#include <filesystem>

#include "base/json.hpp"
#include "models/hardware/profile_document_json.hpp"
#include "profiler/import/import_profile.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temporary_folder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const tw::TemporaryFolder folder;
    const std::filesystem::path path = folder.path() / "intra_8.log";
    if (!tw::write_text_file(path, tw::fuzz::text_of(data, size))) return 0;
    const auto result = tw::import_profile({path}, {.device = "h100", .name = "", .progress = nullptr});
    tw::fuzz::require_value_or_refusal(result);
    if (!result) return 0;
    const auto json = tw::parse_json(tw::profile_document_text(result->document), "written");
    tw::fuzz::require(json.has_value(), "the profile written is no JSON");
    const auto again = tw::decode_profile_document(*json, "written");
    tw::fuzz::require(again.has_value(), "the profile written cannot be read",
                      again ? "" : tw::to_string(again.errors()));
    return 0;
}

// model.safetensors.index.json: file names of its own folder, or a refusal; a folder with it opens or is
// refused.
#include <algorithm>
#include <filesystem>

#include "base/json.hpp"
#include "real_exec/checkpoint/safetensors.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temporary_folder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const tw::TemporaryFolder folder;
    const std::filesystem::path index = folder.path() / "model.safetensors.index.json";
    if (!tw::write_text_file(index, tw::fuzz::text_of(data, size))) return 0;
    static const tw::Status shard = tw::write_safetensors(folder.path() / "model-1.safetensors", {});
    tw::fuzz::require(shard.has_value(), "a file without tensors cannot be written");
    const auto files = tw::weight_index_files(index);
    tw::fuzz::require_value_or_refusal(files);
    const auto weights = tw::WeightFiles::open(folder.path());
    tw::fuzz::require_value_or_refusal(weights);
    if (!files) return 0;
    tw::fuzz::require(std::ranges::is_sorted(*files), "names out of order");
    for (const std::string& name : *files)
        tw::fuzz::require(!name.empty() && name.find('/') == std::string::npos, "a name outside the folder",
                          name);
    return 0;
}

// A checkpoint of one rank: the input's first line is its index, the rest the file of its pieces. Checksums
// and the manifest are made to fit, so that nothing but the contents can be wrong. What opens is verified,
// read whole and exported.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <vector>

#include "base/json.hpp"
#include "real_exec/checkpoint/checkpoint.hpp"
#include "real_exec/checkpoint/checkpoint_json.hpp"
#include "real_exec/checkpoint/export_weights.hpp"
#include "real_exec/checkpoint/safetensors.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/seal_checkpoint.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

constexpr std::int64_t kStep = 1;

// The length of a range of the file that is there; 0 where it is not.
std::size_t length_within(const tw::Json& begin, const tw::Json& bytes, std::size_t file) {
    if (!begin.is_number_unsigned() || !bytes.is_number_unsigned()) return 0;
    if (begin.get<std::uint64_t>() > file) return 0;
    return std::min<std::uint64_t>(bytes.get<std::uint64_t>(), file - begin.get<std::uint64_t>());
}

void fit_checksums(tw::Json& index, std::string_view file) {
    if (!index.is_object()) return;
    const std::size_t head = length_within(0U, index.value("head_bytes", tw::Json()), file.size());
    index["head_crc32c"] = tw::fuzz::checksum(file.substr(0, head));
    if (!index.contains("pieces")) return;
    for (tw::Json& piece : index["pieces"]) {
        if (!piece.is_object()) continue;
        const tw::Json begin = piece.value("begin", tw::Json());
        const std::size_t length = length_within(begin, piece.value("bytes", tw::Json()), file.size());
        if (length > 0) piece["crc32c"] = tw::fuzz::checksum(file.substr(begin.get<std::uint64_t>(), length));
    }
}

void read_whole(const tw::Checkpoint& checkpoint) {
    constexpr std::int64_t kMost = 1 << 16;
    for (const tw::Checkpoint::Entry& entry : checkpoint.entries()) {
        const tw::TensorRegion region = tw::whole_region(entry.shape);
        if (!tw::check_region(region, entry.name) || region.elements() > kMost) continue;
        for (const tw::DType dtype : {tw::DType::F32, tw::DType::F16, tw::DType::I32}) {
            std::vector<std::byte> memory(static_cast<std::size_t>(region.elements()) * tw::bytes_of(dtype));
            tw::fuzz::require_value_or_refusal(
                checkpoint.read(entry.kind, entry.name, region, dtype, memory.data()));
        }
    }
}

bool small(const tw::Checkpoint& checkpoint) {
    return std::ranges::all_of(checkpoint.entries(), [](const tw::Checkpoint::Entry& entry) {
        return tw::check_region(tw::whole_region(entry.shape), "") && entry.shape.elements() < (1 << 16);
    });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const tw::TemporaryFolder folder;
    const std::string_view input = tw::fuzz::text_of(data, size);
    const std::size_t end = std::min(input.find('\n'), input.size());
    const std::string_view file = input.substr(std::min(end + 1, input.size()));
    auto index = tw::parse_json(input.substr(0, end), "index");
    if (!index) return 0;
    fit_checksums(*index, file);
    const std::string text = tw::fuzz::sealed(std::move(*index));

    tw::CheckpointManifest manifest;
    manifest.state.step = kStep;
    manifest.parts.push_back({static_cast<std::int64_t>(text.size()), static_cast<std::int64_t>(file.size()),
                              tw::fuzz::checksum(text)});
    const std::filesystem::path step = folder.path() / tw::step_folder(kStep);
    std::filesystem::create_directories(step);
    if (!tw::write_text_file(step / tw::part_file(0, ".json"), text) ||
        !tw::write_text_file(step / tw::part_file(0, ".safetensors"), file) ||
        !tw::write_text_file(step / "manifest.json", tw::manifest_text(manifest)))
        return 0;

    const auto checkpoint = tw::open_checkpoint(folder.path(), kStep);
    tw::fuzz::require_value_or_refusal(checkpoint);
    if (!checkpoint) return 0;
    tw::fuzz::require_value_or_refusal(checkpoint->verify());
    read_whole(*checkpoint);
    if (!small(*checkpoint)) return 0;
    const std::filesystem::path weights = folder.path() / "model.safetensors";
    if (tw::export_weights(*checkpoint, weights, tw::DType::F32)) {
        const auto exported = tw::WeightFiles::open(weights);
        tw::fuzz::require(exported.has_value(), "the weights exported cannot be read",
                          exported ? "" : tw::to_string(exported.errors()));
    }
    return 0;
}

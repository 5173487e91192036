// The two documents of a checkpoint, the manifest and a rank's index, sealed with the checksum that fits, so
// that it hides nothing: read, or refused as unreadable; what was read is written and reads back the same.
#include "base/json.hpp"
#include "real_exec/checkpoint/checkpoint_json.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/seal_checkpoint.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    auto json = tw::parse_json(tw::fuzz::text_of(data, size), "document.json");
    if (!json) return 0;
    const std::string text = tw::fuzz::sealed(std::move(*json));
    const auto part = tw::part_from_text(text, "rank.json");
    tw::fuzz::require_value_or_refusal(part);
    const auto manifest = tw::manifest_from_text(text, "manifest.json");
    tw::fuzz::require_value_or_refusal(manifest);
    if (part) {
        std::int64_t at = part->head_bytes;
        for (const tw::CheckpointPiece& piece : part->pieces) {
            tw::fuzz::require(piece.begin == at, "a hole between pieces", text);
            at += piece.bytes;
        }
        tw::fuzz::require(at == part->file_bytes, "pieces that end elsewhere than the file", text);
        const std::string written = tw::part_text(*part);
        const auto again = tw::part_from_text(written, "again.json");
        tw::fuzz::require(again.has_value(), "the index written cannot be read", written);
        tw::fuzz::require(tw::part_text(*again) == written, "the index changes by being read", written);
    }
    if (manifest) {
        const std::string written = tw::manifest_text(*manifest);
        const auto again = tw::manifest_from_text(written, "again.json");
        tw::fuzz::require(again.has_value(), "the manifest written cannot be read", written);
        tw::fuzz::require(again->state == manifest->state, "the state changes by being written", written);
    }
    return 0;
}

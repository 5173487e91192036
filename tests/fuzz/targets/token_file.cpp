// Files of tokens, as integers and as a text: samples whose tokens are below the vocabulary, or a refusal.
#include <array>
#include <filesystem>

#include "base/json.hpp"
#include "real_exec/data/dataset.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

constexpr std::int64_t kLength = 4, kSamples = 3;

void draw_samples(const tw::DataOptions& options) {
    const auto dataset = tw::Dataset::open(options);
    tw::fuzz::require_value_or_refusal(dataset);
    if (!dataset) return;
    tw::fuzz::require((*dataset)->tokens() >= kLength, "accepted without tokens for one sample");
    tw::fuzz::require(!(*dataset)->identity().empty(), "data without an identity");
    std::array<std::int32_t, kLength * kSamples> tokens{}, targets{};
    for (const std::int64_t step : {0, 1'000'000}) {
        const tw::Status filled =
            (*dataset)->fill(step, 5, kSamples, {tokens.data(), targets.data(), nullptr});
        if (!filled) {
            tw::fuzz::require_refusal(filled.errors());
            continue;
        }
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            tw::fuzz::require(tokens[i] >= 0 && tokens[i] < options.vocabulary,
                              "a token beyond the vocabulary");
            tw::fuzz::require(targets[i] >= -1 && targets[i] < options.vocabulary,
                              "a target beyond the vocabulary");
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const tw::TemporaryFolder folder;
    tw::DataOptions options;
    options.seq_len = kLength;
    for (const char* const name : {"tokens.bin", "text.txt"}) {
        const std::filesystem::path path = folder.path() / name;
        if (!tw::write_text_file(path, tw::fuzz::text_of(data, size))) return 0;
        options.path = path.string();
        for (const std::int64_t vocabulary : {256, 50'257}) {
            options.vocabulary = vocabulary;
            for (const tw::SampleKind kind : {tw::SampleKind::Tokens, tw::SampleKind::MaskedTokens}) {
                options.kind = kind;
                draw_samples(options);
            }
        }
    }
    return 0;
}

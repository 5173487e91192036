// Training samples. Sample i of step k depends on (data, seed, k, i) alone: not on the layout, the number of
// ranks, the order of calls or what was read before. A run goes on from a checkpoint with nothing but its
// step.
//
// Token samples are seq_len + 1 consecutive tokens at a place drawn uniformly (as nanoGPT's get_batch does):
// tokens 0 .. seq_len - 1 are the input, 1 .. seq_len the targets. Masked samples hide 15 % of the tokens, of
// which 80 % become the mask, 10 % a random token and 10 % stay (Devlin et al. 2018, BERT, section 3.1);
// targets elsewhere are -1. Images are synthetic: a pattern of their class plus noise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace tw {

enum class SampleKind : std::uint8_t { Tokens, MaskedTokens, Images };

struct DataOptions {
    // A text file (one token a byte), a .bin of uint16 tokens (nanoGPT's, or llm.c's with its header of 1024
    // bytes; llm.c's version 7 has uint32), or empty: the corpus that is built in (corpus.hpp).
    std::string path;
    SampleKind kind = SampleKind::Tokens;
    std::uint64_t seed = 0;
    std::int64_t seq_len = 1;
    std::int64_t vocabulary = 256;  // tokens are below it
    std::int64_t mask_token = -1;   // -1: 256 for bytes (where the vocabulary has it), else vocabulary - 1
    std::int64_t channels = 3, height = 0, width = 0, classes = 0;  // Images
};

// Where samples are written; host memory. Null where the kind has none.
struct SampleRows {
    std::int32_t* tokens = nullptr;   // [count, seq_len]
    std::int32_t* targets = nullptr;  // [count, seq_len]; Images: [count]
    float* images = nullptr;          // [count, channels, height, width]
};

class Dataset {
  public:
    // Errors: a file that cannot be read, is too short for a sample, has a foreign header, or bytes that do
    // not fit the vocabulary.
    static Result<std::unique_ptr<Dataset>> open(const DataOptions& options);
    virtual ~Dataset() = default;

    // Samples [first, first + count) of `step` (0 <= first: the index within the global batch). Thread-safe.
    // An error where a token of the file is not below the vocabulary.
    virtual Status fill(std::int64_t step, std::int64_t first, std::int64_t count,
                        const SampleRows& rows) const = 0;
    // Names the data: kind, name of the file, length and checksum of its first and last megabyte, seed. Two
    // runs with the same identity see the same samples.
    [[nodiscard]] virtual const std::string& identity() const = 0;
    [[nodiscard]] virtual std::int64_t tokens() const = 0;  // of the file; Images: 0
    [[nodiscard]] virtual const DataOptions& options() const = 0;
};

}  // namespace tw

#include "real_exec/data/dataset.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "base/prng.hpp"
#include "real_exec/data/token_source.hpp"

namespace tw {
namespace {

// Draws of samples share no stream with those of weights and dropout, whatever the seed.
constexpr std::uint64_t kSampleDraws = 0x73616d706c657321ULL;  // "samples!"

std::uint64_t sample_random(std::uint64_t seed, std::int64_t step, std::int64_t sample) {
    return counter_random(seed ^ kSampleDraws, static_cast<std::uint64_t>(step),
                          static_cast<std::uint64_t>(sample));
}

Error beyond_vocabulary(std::uint32_t token, std::int64_t at, std::int64_t vocabulary) {
    return {ErrorCode::Unreadable,
            fmt::format("token {} at {} is not below the vocabulary of {}", token, at, vocabulary), "data",
            "name a model with the vocabulary that the file was made with"};
}

class TokenDataset final : public Dataset {
  public:
    TokenDataset(DataOptions options, TokenSource source)
        : options_(std::move(options)), source_(std::move(source)) {
        identity_ = fmt::format("{}, sequences of {}, seed {}", source_.description(), options_.seq_len,
                                options_.seed);
        if (masked()) {
            if (options_.mask_token < 0)
                options_.mask_token =
                    source_.is_text() && options_.vocabulary > 256 ? 256 : options_.vocabulary - 1;
            identity_ += fmt::format(", mask {} of {}", options_.mask_token, options_.vocabulary);
        }
    }

    Status fill(std::int64_t step, std::int64_t first, std::int64_t count,
                const SampleRows& rows) const override {
        for (std::int64_t i = 0; i < count; ++i) {
            const std::uint64_t random = sample_random(options_.seed, step, first + i);
            const auto places = static_cast<std::uint64_t>(source_.size() - needed() + 1);
            const auto place = static_cast<std::int64_t>(random % places);
            std::int32_t* const tokens = rows.tokens + i * options_.seq_len;
            std::int32_t* const targets = rows.targets + i * options_.seq_len;
            const Status done = masked() ? fill_masked(place, mix64(random), tokens, targets)
                                         : fill_next(place, tokens, targets);
            if (!done) return done;
        }
        return ok();
    }
    [[nodiscard]] const std::string& identity() const override { return identity_; }
    [[nodiscard]] std::int64_t tokens() const override { return source_.size(); }
    [[nodiscard]] const DataOptions& options() const override { return options_; }

    // Tokens of the file that a sample takes.
    [[nodiscard]] std::int64_t needed() const { return options_.seq_len + (masked() ? 0 : 1); }

  private:
    [[nodiscard]] bool masked() const { return options_.kind == SampleKind::MaskedTokens; }

    Status fill_next(std::int64_t place, std::int32_t* tokens, std::int32_t* targets) const {
        for (std::int64_t s = 0; s <= options_.seq_len; ++s) {
            const std::uint32_t token = source_[place + s];
            if (token >= static_cast<std::uint64_t>(options_.vocabulary))
                return beyond_vocabulary(token, place + s, options_.vocabulary);
            if (s < options_.seq_len) tokens[s] = static_cast<std::int32_t>(token);
            if (s > 0) targets[s - 1] = static_cast<std::int32_t>(token);
        }
        return ok();
    }

    Status fill_masked(std::int64_t place, std::uint64_t seed, std::int32_t* tokens,
                       std::int32_t* targets) const {
        Prng random(seed);
        for (std::int64_t s = 0; s < options_.seq_len; ++s) {
            const std::uint32_t token = source_[place + s];
            if (token >= static_cast<std::uint64_t>(options_.vocabulary))
                return beyond_vocabulary(token, place + s, options_.vocabulary);
            const bool hidden = random.uniform() < 0.15;
            const double how = random.uniform();
            const auto other = static_cast<std::int32_t>(random.integer(0, options_.vocabulary - 1));
            targets[s] = hidden ? static_cast<std::int32_t>(token) : -1;
            tokens[s] = static_cast<std::int32_t>(token);
            if (hidden && how < 0.8) tokens[s] = static_cast<std::int32_t>(options_.mask_token);
            if (hidden && how >= 0.9) tokens[s] = other;
        }
        return ok();
    }

    DataOptions options_;
    TokenSource source_;
    std::string identity_;
};

// Class c of k is a plane wave whose direction and frequency name the class, with normal noise of half its
// amplitude: a network learns it, and nothing has to be read.
class ImageDataset final : public Dataset {
  public:
    explicit ImageDataset(DataOptions options) : options_(std::move(options)) {
        identity_ = fmt::format("synthetic images, {}x{}x{}, {} classes, seed {}", options_.channels,
                                options_.height, options_.width, options_.classes, options_.seed);
    }

    Status fill(std::int64_t step, std::int64_t first, std::int64_t count,
                const SampleRows& rows) const override {
        const std::int64_t pixels = options_.channels * options_.height * options_.width;
        for (std::int64_t i = 0; i < count; ++i) {
            Prng random(sample_random(options_.seed, step, first + i));
            const std::int64_t label = random.integer(0, options_.classes - 1);
            rows.targets[i] = static_cast<std::int32_t>(label);
            draw(label, random, rows.images + i * pixels);
        }
        return ok();
    }
    [[nodiscard]] const std::string& identity() const override { return identity_; }
    [[nodiscard]] std::int64_t tokens() const override { return 0; }
    [[nodiscard]] const DataOptions& options() const override { return options_; }

  private:
    void draw(std::int64_t label, Prng& random, float* image) const {
        const double turn =
            std::numbers::pi * static_cast<double>(label) / static_cast<double>(options_.classes);
        const double waves = 1.0 + static_cast<double>(label % 4);
        const double x_rate =
            waves * std::cos(turn) * 2 * std::numbers::pi / static_cast<double>(options_.width);
        const double y_rate =
            waves * std::sin(turn) * 2 * std::numbers::pi / static_cast<double>(options_.height);
        const double phase = 2 * std::numbers::pi * random.uniform();
        for (std::int64_t c = 0; c < options_.channels; ++c) {
            for (std::int64_t y = 0; y < options_.height; ++y) {
                for (std::int64_t x = 0; x < options_.width; ++x) {
                    const double wave =
                        std::sin(x_rate * static_cast<double>(x) + y_rate * static_cast<double>(y) + phase +
                                 static_cast<double>(c));
                    *image++ = static_cast<float>(wave + 0.5 * random.normal());
                }
            }
        }
    }

    DataOptions options_;
    std::string identity_;
};

Status check_images(const DataOptions& options) {
    if (options.channels < 1 || options.height < 1 || options.width < 1 || options.classes < 2)
        return Error{ErrorCode::Unreadable,
                     fmt::format("images of {}x{}x{} in {} classes", options.channels, options.height,
                                 options.width, options.classes),
                     "data", "every size is at least 1, and there are at least two classes"};
    if (!options.path.empty())
        return Error{ErrorCode::Usage,
                     "image models train on synthetic images; there is no reader of image files",
                     options.path, "leave the data out"};
    return ok();
}

}  // namespace

Result<std::unique_ptr<Dataset>> Dataset::open(const DataOptions& options) {
    if (options.kind == SampleKind::Images) {
        if (const Status legal = check_images(options); !legal) return legal.errors();
        return std::unique_ptr<Dataset>(std::make_unique<ImageDataset>(options));
    }
    auto source = TokenSource::open(options.path);
    if (!source) return source.errors();
    const std::string name = options.path.empty() ? "built-in corpus" : options.path;
    // Bytes of plain text are below 128; others are found when they are read.
    if (source->is_text() && options.vocabulary < 128)
        return Error{ErrorCode::Unreadable,
                     fmt::format("bytes are up to 255, the vocabulary has {}", options.vocabulary), name,
                     "a model for bytes has a vocabulary of at least 256"};
    auto dataset = std::make_unique<TokenDataset>(options, std::move(*source));
    if (dataset->tokens() < dataset->needed())
        return Error{ErrorCode::Unreadable,
                     fmt::format("has {} tokens, a sample takes {}", dataset->tokens(), dataset->needed()),
                     name, "shorter sequences, or more text"};
    return std::unique_ptr<Dataset>(std::move(dataset));
}

}  // namespace tw

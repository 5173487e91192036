#include "real_exec/data/dataset.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "real_exec/data/corpus.hpp"
#include "real_exec/data/prefetcher.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tw {
namespace {

struct Rows {
    std::vector<std::int32_t> tokens, targets;
    std::vector<float> images;
};

Rows fill(const Dataset& dataset, std::int64_t step, std::int64_t first, std::int64_t count) {
    const DataOptions& o = dataset.options();
    Rows rows;
    rows.tokens.resize(static_cast<std::size_t>(count * o.seq_len));
    rows.targets.resize(static_cast<std::size_t>(o.kind == SampleKind::Images ? count : count * o.seq_len));
    rows.images.resize(static_cast<std::size_t>(count * o.channels * o.height * o.width));
    const Status status =
        dataset.fill(step, first, count, {rows.tokens.data(), rows.targets.data(), rows.images.data()});
    EXPECT_TRUE(status) << to_string(status.errors());
    return rows;
}

DataOptions tokens(std::int64_t seq_len, std::string path = "") {
    DataOptions options;
    options.path = std::move(path);
    options.seq_len = seq_len;
    options.vocabulary = 512;
    options.seed = 42;
    return options;
}

std::string integers(const std::vector<std::uint32_t>& values, int width) {
    std::string out;
    for (const std::uint32_t value : values)
        for (int byte = 0; byte < width; ++byte)
            out += static_cast<char>(
                static_cast<unsigned char>((value >> (8 * static_cast<unsigned>(byte))) & 0xffU));
    return out;
}

TEST(Corpus, IsPlainTextAndAlwaysTheSame) {
    const std::string& corpus = built_in_corpus();
    ASSERT_EQ(corpus.size(), kCorpusBytes);
    EXPECT_TRUE(std::all_of(corpus.begin(), corpus.end(),
                            [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
    const auto dataset = Dataset::open(tokens(16));
    ASSERT_TRUE(dataset);
    EXPECT_EQ((*dataset)->identity(),
              "built-in corpus, 65536 tokens, crc32c 8b1acdac, sequences of 16, seed 42");
}

TEST(Dataset, TargetsAreTheNextTokens) {
    const auto dataset = Dataset::open(tokens(32));
    ASSERT_TRUE(dataset);
    const Rows rows = fill(**dataset, 3, 0, 4);
    for (std::size_t row = 0; row < 4; ++row) {
        std::string text;
        for (std::size_t s = 0; s < 32; ++s) {
            text += static_cast<char>(rows.tokens[row * 32 + s]);
            if (s > 0) {
                EXPECT_EQ(rows.targets[row * 32 + s - 1], rows.tokens[row * 32 + s]);
            }
        }
        EXPECT_NE(built_in_corpus().find(text), std::string::npos);
    }
}

// The samples of a step are the same however the global batch is cut.
TEST(Dataset, SamplesDependOnStepAndSeedAlone) {
    for (const SampleKind kind : {SampleKind::Tokens, SampleKind::MaskedTokens, SampleKind::Images}) {
        DataOptions options = tokens(kind == SampleKind::Images ? 1 : 24);
        options.kind = kind;
        options.height = options.width = 4;
        options.classes = 10;
        const auto dataset = Dataset::open(options);
        ASSERT_TRUE(dataset) << to_string(dataset.errors());
        const Rows whole = fill(**dataset, 7, 0, 12);
        for (const std::int64_t microbatch : {1, 2, 3, 4, 6}) {
            Rows joined;
            for (std::int64_t first = 12 - microbatch; first >= 0; first -= microbatch) {  // in any order
                const Rows part = fill(**dataset, 7, first, microbatch);
                joined.tokens.insert(joined.tokens.begin(), part.tokens.begin(), part.tokens.end());
                joined.targets.insert(joined.targets.begin(), part.targets.begin(), part.targets.end());
                joined.images.insert(joined.images.begin(), part.images.begin(), part.images.end());
            }
            EXPECT_EQ(joined.tokens, whole.tokens);
            EXPECT_EQ(joined.targets, whole.targets);
            EXPECT_EQ(joined.images, whole.images);
        }
        EXPECT_NE(fill(**dataset, 8, 0, 12).targets, whole.targets);
        options.seed = 43;
        const auto other = Dataset::open(options);
        EXPECT_NE(fill(**other, 7, 0, 12).targets, whole.targets);
        EXPECT_NE((*other)->identity(), (*dataset)->identity());
    }
}

TEST(Dataset, HidesAsBertDoes) {
    DataOptions options = tokens(512);
    options.kind = SampleKind::MaskedTokens;
    const auto dataset = Dataset::open(options);
    ASSERT_TRUE(dataset);
    EXPECT_EQ((*dataset)->options().mask_token, 256);
    const Rows rows = fill(**dataset, 0, 0, 200);
    double hidden = 0, masked = 0, kept = 0;
    for (std::size_t i = 0; i < rows.tokens.size(); ++i) {
        if (rows.targets[i] < 0) {
            EXPECT_LT(rows.tokens[i], 256);
            continue;
        }
        ++hidden;
        masked += rows.tokens[i] == 256 ? 1 : 0;
        kept += rows.tokens[i] == rows.targets[i] ? 1 : 0;
    }
    // 102,400 tokens: three standard deviations are 0.34 % of all, 1 % of the hidden.
    EXPECT_NEAR(hidden / static_cast<double>(rows.tokens.size()), 0.15, 0.0034);
    EXPECT_NEAR(masked / hidden, 0.8, 0.01);
    EXPECT_NEAR(kept / hidden, 0.1, 0.008);
}

TEST(Dataset, ReadsNanoGptAndLlmcFiles) {
    const TemporaryFolder folder;
    const auto path = (folder.path() / "train.bin").string();
    const std::vector<std::uint32_t> values = {5, 300, 7, 511, 9};
    const auto expect = [&](const std::string& content) {
        ASSERT_TRUE(write_text_file(path, content));
        const auto dataset = Dataset::open(tokens(4, path));
        ASSERT_TRUE(dataset) << to_string(dataset.errors());
        EXPECT_EQ((*dataset)->tokens(), 5);
        const Rows rows = fill(**dataset, 0, 0, 1);  // there is one place
        EXPECT_EQ(rows.tokens, (std::vector<std::int32_t>{5, 300, 7, 511}));
        EXPECT_EQ(rows.targets, (std::vector<std::int32_t>{300, 7, 511, 9}));
    };
    const auto header = [](std::uint32_t magic, std::uint32_t version, std::uint32_t count) {
        std::vector<std::uint32_t> words(256);
        words[0] = magic;
        words[1] = version;
        words[2] = count;
        return integers(words, 4);
    };
    expect(integers(values, 2));
    expect(header(20240520, 1, 5) + integers(values, 2));
    expect(header(20240801, 7, 5) + integers(values, 4));

    const auto message = [&](const std::string& content) {
        EXPECT_TRUE(write_text_file(path, content));
        const auto dataset = Dataset::open(tokens(4, path));
        return dataset ? std::string("accepted") : dataset.error().message;
    };
    EXPECT_EQ(message(header(20240520, 1, 6) + integers(values, 2)),
              "its header promises 6 tokens, 5 are there");
    EXPECT_EQ(message(header(20240520, 3, 5) + integers(values, 2)),
              "has llm.c's header in version 3, which is not known");
    EXPECT_EQ(message(integers(values, 2) + "x"), "11 bytes are no whole number of 2-byte tokens");
    EXPECT_EQ(message(integers({1, 2}, 2)), "has 2 tokens, a sample takes 5");
    EXPECT_EQ(message(""), "has 0 tokens, a sample takes 5");
}

TEST(Dataset, NamesTokensBeyondTheVocabulary) {
    const TemporaryFolder folder;
    const auto path = (folder.path() / "train.bin").string();
    ASSERT_TRUE(write_text_file(path, integers({1, 2, 512}, 2)));
    const auto dataset = Dataset::open(tokens(2, path));
    ASSERT_TRUE(dataset);
    std::vector<std::int32_t> row(2), targets(2);
    const Status filled = (*dataset)->fill(0, 0, 1, {row.data(), targets.data(), nullptr});
    ASSERT_FALSE(filled);
    EXPECT_EQ(filled.error().message, "token 512 at 2 is not below the vocabulary of 512");
    DataOptions narrow = tokens(4);
    narrow.vocabulary = 100;
    EXPECT_FALSE(Dataset::open(narrow));
}

TEST(Dataset, ImagesCarryTheirClass) {
    DataOptions options;
    options.kind = SampleKind::Images;
    options.channels = 1;
    options.height = options.width = 16;
    options.classes = 4;
    const auto dataset = Dataset::open(options);
    ASSERT_TRUE(dataset);
    const Rows rows = fill(**dataset, 0, 0, 64);
    EXPECT_EQ(std::set<std::int32_t>(rows.targets.begin(), rows.targets.end()),
              (std::set<std::int32_t>{0, 1, 2, 3}));
    double sum = 0, squares = 0;
    for (const float pixel : rows.images) {
        sum += pixel;
        squares += static_cast<double>(pixel) * pixel;
    }
    const auto n = static_cast<double>(rows.images.size());
    EXPECT_NEAR(sum / n, 0, 0.05);
    EXPECT_NEAR(squares / n, 0.5 + 0.25, 0.08);  // a wave's power and the noise's
    options.path = "photos";
    EXPECT_FALSE(Dataset::open(options));
}

TEST(Prefetcher, HandsOutTheStepsInOrder) {
    const auto dataset = Dataset::open(tokens(8));
    ASSERT_TRUE(dataset);
    PrefetchPlan plan;
    plan.first_step = 5;
    plan.last_step = 12;
    plan.first_sample = {6, 2};
    plan.microbatch = 2;
    Prefetcher prefetcher(**dataset, plan);
    for (std::int64_t step = 5; step < 10; ++step) {  // and is destroyed with steps left
        const auto batches = prefetcher.take(step);
        ASSERT_TRUE(batches);
        ASSERT_EQ(batches->size(), 2U);
        for (std::size_t b = 0; b < 2; ++b) {
            EXPECT_EQ((*batches)[b].first_sample, plan.first_sample[b]);
            const Rows direct = fill(**dataset, step, plan.first_sample[b], 2);
            EXPECT_EQ((*batches)[b].tokens, direct.tokens);
            EXPECT_EQ((*batches)[b].targets, direct.targets);
        }
    }
    EXPECT_GE(prefetcher.waited_s(), 0);
}

TEST(Prefetcher, HandsOnWhatIsWrongWithTheData) {
    const TemporaryFolder folder;
    const auto path = (folder.path() / "train.bin").string();
    ASSERT_TRUE(write_text_file(path, integers({1, 999, 2}, 2)));
    const auto dataset = Dataset::open(tokens(2, path));
    ASSERT_TRUE(dataset);
    PrefetchPlan plan;
    plan.last_step = 1;
    plan.first_sample = {0};
    Prefetcher prefetcher(**dataset, plan);
    const auto batches = prefetcher.take(0);
    ASSERT_FALSE(batches);
    EXPECT_EQ(batches.error().message, "token 999 at 1 is not below the vocabulary of 512");
}

}  // namespace
}  // namespace tw

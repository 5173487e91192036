#include "plan/stage_program/measured_blocks.hpp"

#include <gtest/gtest.h>

#include "models/families/registry.hpp"

namespace tw {
namespace {

constexpr double kMiB = 1 << 20;

// verl-project/verl#7476: 64 layers of 5120 channels, 32,768 tokens, sequences split over 8 ranks that were
// not. 138 blocks of 340 MiB were held; a layer's input is 320 MiB, split 40.
LayerGraph sixty_four_layers() {
    ModelConfig c;
    c.name = "64-layers";
    c.source = "drawn";
    c.family = "llama";
    c.layers = 64, c.heads = 40, c.kv_heads = 8, c.hidden = 5120, c.ffn = 27648, c.vocab = 152064;
    c.seq_len = 32768;
    return build_model(c).value();
}

WorkShape ulysses() {
    WorkShape shape;
    shape.seq_len = 32768;
    shape.cp = 8;
    shape.cp_kind = WorkShape::Cp::AllToAll;
    return shape;
}

TEST(MeasuredBlocks, NameTheAxisThatDidNotSplit) {
    const auto matches = match_blocks(sixty_four_layers(), ulysses(), {{340 * kMiB, 138}});
    ASSERT_EQ(matches.size(), 1U);
    EXPECT_EQ(matches[0].unsplit, "cp");
    EXPECT_EQ(matches[0].block.count, 138);
    EXPECT_EQ(matches[0].layer, "block.0-63");
    EXPECT_DOUBLE_EQ(matches[0].planned_bytes, 40 * kMiB);
}

TEST(MeasuredBlocks, AsPlanned) {
    const auto matches =
        match_blocks(sixty_four_layers(), ulysses(), {{40 * kMiB, 64}, {40 * kMiB + 512, 1}, {3 * kMiB, 1}});
    ASSERT_EQ(matches.size(), 3U);
    EXPECT_TRUE(matches[0].known() && matches[0].unsplit.empty());
    EXPECT_TRUE(matches[1].known() && matches[1].unsplit.empty());
    EXPECT_FALSE(matches[2].known());
}

TEST(MeasuredBlocks, TensorParallelAndItsSequences) {
    WorkShape shape;
    shape.seq_len = 32768;
    shape.tp = 8;
    shape.sequence_parallel = true;
    // A layer's input whole: sequence parallelism alone splits it.
    const auto matches = match_blocks(sixty_four_layers(), shape, {{320 * kMiB, 64}});
    ASSERT_EQ(matches.size(), 1U);
    EXPECT_EQ(matches[0].unsplit, "sp");
    EXPECT_DOUBLE_EQ(matches[0].planned_bytes, 40 * kMiB);
}

TEST(MeasuredBlocks, AreReadFromLines) {
    const auto blocks = parse_blocks("# active\n335544320\n340 MiB x 138\r\n\n335544320  # again\n", "b");
    ASSERT_TRUE(blocks) << to_string(blocks.errors());
    ASSERT_EQ(blocks->size(), 2U);
    EXPECT_DOUBLE_EQ((*blocks)[0].bytes, 320 * kMiB);
    EXPECT_EQ((*blocks)[0].count, 2);
    EXPECT_DOUBLE_EQ((*blocks)[1].bytes, 340 * kMiB);
    EXPECT_EQ((*blocks)[1].count, 138);
    for (const char* wrong : {"", "# none\n", "12 apples\n", "-3\n", "1 GiB x 0\n", "1 GiB x many\n"})
        EXPECT_FALSE(parse_blocks(wrong, "b")) << wrong;
}

}  // namespace
}  // namespace tw

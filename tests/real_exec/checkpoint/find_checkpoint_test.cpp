#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "real_exec/checkpoint/checkpoint.hpp"
#include "real_exec/comm/local/local_transport.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;

// One rank's checkpoint of one tensor.
Status save(const fs::path& folder, std::int64_t step) {
    std::array<float, 4> values = {1, 2, 3, 4};
    const CheckpointTensor tensor{
        "weight", "w", whole_region(Shape{4}), {values.data(), DType::F32, Shape{4}}};
    CheckpointOptions options;
    options.folder = folder;
    options.keep = 9;
    auto writer = CheckpointWriter::create(options);
    if (!writer) return writer.errors();
    CheckpointState state;
    state.step = step;
    if (Status begun = (*writer)->save(state, std::span(&tensor, 1)); !begun) return begun;
    return (*writer)->wait();
}

// A file system may show one rank a folder before it shows it to the others.
TEST(FindCheckpoint, AllRanksReadTheSameStep) {
    const TemporaryFolder folder, other;
    for (const std::int64_t step : {10, 20, 30})
        ASSERT_TRUE(save(folder.path(), step));
    fs::copy(folder.path(), other.path(), fs::copy_options::recursive);
    fs::remove_all(other.path() / "step-00000030");
    std::vector<FoundCheckpoint> found(2);
    run_local_ranks(2, [&](Transport& transport) {
        const std::vector<int> ranks = {0, 1};
        const auto group = transport.create("all", ranks);
        const auto rank = static_cast<std::size_t>(transport.rank());
        const auto smallest = [&](std::int64_t own) -> Result<Smallest> {
            std::array<std::int32_t, 2> all = {};
            auto mine = static_cast<std::int32_t>(own);
            const RequestPtr gathered =
                (*group)->all_gather({&mine, DType::I32, Shape{1}}, {all.data(), DType::I32, Shape{2}});
            if (Status met = gathered->wait(); !met) return met.errors();
            return Smallest{std::min(all[0], all[1]), all[1] < all[0] ? 1 : 0};
        };
        auto one = find_checkpoint(rank == 0 ? folder.path() : other.path(), transport.rank(), 2, smallest);
        ASSERT_TRUE(one) << to_string(one.errors());
        found[rank] = std::move(*one);
    });
    for (const FoundCheckpoint& one : found) {
        ASSERT_TRUE(one.checkpoint);
        EXPECT_EQ(one.checkpoint->state().step, 20);
    }
    ASSERT_EQ(found[0].refused.size(), 1U);
    EXPECT_NE(found[0].refused[0].find("step 30: "), std::string::npos) << found[0].refused[0];
    EXPECT_NE(found[0].refused[0].find("rank 1 does not find it"), std::string::npos);
    EXPECT_TRUE(found[1].refused.empty());
}

}  // namespace
}  // namespace tw

#include "real_exec/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "base/prng.hpp"
#include "real_exec/checkpoint/checkpoint_json.hpp"
#include "real_exec/checkpoint/crc32c.hpp"
#include "real_exec/checkpoint/export_weights.hpp"
#include "real_exec/checkpoint/safetensors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test_scale.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;

// A small model's tensors: element i of tensor t holds 1000 * t + i, plus 0.5 for moments.
struct Model {
    struct One {
        std::string name;
        Shape shape;
        int axis = 0, parts = 1;
        std::int64_t padded_from = -1;
    };
    std::vector<One> tensors = {{"embed.weight", {10, 4}, 0, 1, 9},
                                {"qkv.weight", {12, 4}, 0, 3, -1},
                                {"proj.weight", {4, 8}, 1, 1, -1},
                                {"norm.weight", {4}, 0, 1, -1}};
};

float value_of(std::size_t tensor, std::int64_t index, bool moment) {
    return static_cast<float>(1000 * tensor) + static_cast<float>(index) + (moment ? 0.5F : 0.0F);
}

// A layout: tensor-parallel degree, and replicas that share every shard's flat range between them (ZeRO).
struct Layout {
    int tp = 1, dp = 1;
    [[nodiscard]] int world() const { return tp * dp; }
};

TensorRegion region_in(const Model::One& one, const Layout& layout, int rank) {
    TensorRegion region = whole_region(one.shape);
    region.padded_from = one.padded_from;
    if (one.shape.rank > 1) {
        region.axis = one.axis;
        region.parts = one.parts;
        region.extent = one.shape[one.axis] / one.parts / layout.tp;
        region.offset = region.extent * (rank % layout.tp);
    }
    const std::int64_t all = region.shard_elements(), share = (all + layout.dp - 1) / layout.dp;
    region.first = std::min(all, share * (rank / layout.tp));
    region.count = std::min(all - region.first, share);
    return region;
}

struct RankMemory {
    std::vector<std::vector<float>> values;
    std::vector<CheckpointTensor> tensors;
};

RankMemory memory_of(const Model& model, const Layout& layout, int rank) {
    RankMemory memory;
    for (const bool moment : {false, true}) {
        for (std::size_t t = 0; t < model.tensors.size(); ++t) {
            const TensorRegion region = region_in(model.tensors[t], layout, rank);
            std::vector<float> values(static_cast<std::size_t>(region.elements()),
                                      NAN);  // padding: never stored
            for (const ElementRun& run : runs_of(region))
                for (std::int64_t i = 0; i < run.length; ++i)
                    values[static_cast<std::size_t>(run.local + i)] = value_of(t, run.at + i, moment);
            memory.values.push_back(std::move(values));
            memory.tensors.push_back({moment ? "moment1" : "master",
                                      model.tensors[t].name,
                                      region,
                                      {memory.values.back().data(), DType::F32, {region.elements()}}});
        }
    }
    return memory;
}

CheckpointState state_of(std::int64_t step) {
    CheckpointState state;
    state.step = step;
    state.seed = 0xfedcba9876543210ULL;
    state.model = "tiny";
    state.plan = "tp2 dp2";
    state.data = "text corpus";
    state.scalars = {{"loss_scale", 65536}, {"third", 1.0 / 3}};
    return state;
}

// Of a layer that all ranks hold and of one that is this rank's alone.
std::map<int, std::int64_t> updates_of(int rank) {
    return {{0, 7}, {rank + 1, 40 + rank}};
}

CheckpointOptions options_of(const fs::path& folder, int rank, int world) {
    CheckpointOptions options;
    options.folder = folder;
    options.rank = rank;
    options.world = world;
    options.attempt = 77;
    options.deadline_s = 20;
    return options;
}

// Saves one step with all ranks of a layout, one writer each, as processes would.
Status save(const fs::path& folder, const Layout& layout, std::int64_t step,
            const std::function<void(CheckpointOptions&)>& change = {}) {
    const Model model;
    std::vector<std::unique_ptr<CheckpointWriter>> writers;
    std::vector<RankMemory> memory;
    for (int rank = 0; rank < layout.world(); ++rank) {
        CheckpointOptions options = options_of(folder, rank, layout.world());
        if (change) change(options);
        auto writer = CheckpointWriter::create(std::move(options));
        if (!writer) return writer.errors();
        writers.push_back(std::move(*writer));
        memory.push_back(memory_of(model, layout, rank));
    }
    for (int rank = 0; rank < layout.world(); ++rank) {
        const auto at = static_cast<std::size_t>(rank);
        CheckpointState state = state_of(step);
        state.layer_updates = updates_of(rank);
        if (Status started = writers[at]->save(state, memory[at].tensors); !started) return started;
        // The snapshot is taken: what training does to the memory now must not show.
        for (auto& values : memory[at].values)
            std::fill(values.begin(), values.end(), -1.0F);
    }
    Status all = ok();
    for (auto& writer : writers)
        if (Status done = writer->wait(); !done && all) all = done;
    return all;
}

void expect_reads(const Checkpoint& checkpoint, const Layout& layout) {
    const Model model;
    for (int rank = 0; rank < layout.world(); ++rank) {
        for (const bool moment : {false, true}) {
            for (std::size_t t = 0; t < model.tensors.size(); ++t) {
                const TensorRegion region = region_in(model.tensors[t], layout, rank);
                std::vector<float> got(static_cast<std::size_t>(region.elements()), -7);
                const Status read = checkpoint.read(moment ? "moment1" : "master", model.tensors[t].name,
                                                    region, DType::F32, got.data());
                ASSERT_TRUE(read) << to_string(read.errors());
                std::vector<float> wanted(got.size(), 0);  // padding reads as zeros
                for (const ElementRun& run : runs_of(region))
                    for (std::int64_t i = 0; i < run.length; ++i)
                        wanted[static_cast<std::size_t>(run.local + i)] = value_of(t, run.at + i, moment);
                ASSERT_EQ(got, wanted) << model.tensors[t].name << " rank " << rank;
            }
        }
    }
}

TEST(Checkpoint, EveryLayoutReadsWhatEveryOtherWrote) {
    const std::vector<Layout> layouts = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 3}};
    for (const Layout& writing : layouts) {
        const TemporaryFolder folder;
        if (10 % writing.tp != 0) continue;
        const Status saved = save(folder.path(), writing, 20);
        ASSERT_TRUE(saved) << to_string(saved.errors());
        const auto found = find_checkpoint(folder.path());
        ASSERT_TRUE(found);
        ASSERT_TRUE(found->checkpoint);
        CheckpointState expected = state_of(20);
        for (int rank = 0; rank < writing.world(); ++rank)
            expected.layer_updates.merge(updates_of(rank));
        EXPECT_EQ(found->checkpoint->state(), expected);
        EXPECT_EQ(found->checkpoint->world(), writing.world());
        EXPECT_EQ(found->checkpoint->entries().size(), 8U);
        EXPECT_EQ(found->checkpoint->find("master", "embed.weight")->shape, (Shape{9, 4}));
        for (const Layout& reading : layouts)
            if (10 % reading.tp == 0) expect_reads(*found->checkpoint, reading);
    }
}

TEST(Checkpoint, KeepsTheNewestAndLeavesNothingElse) {
    const TemporaryFolder folder;
    for (const std::int64_t step : {10, 20, 30, 40})
        ASSERT_TRUE(save(folder.path(), {2, 1}, step));
    EXPECT_EQ(checkpoint_steps(folder.path()), (std::vector<std::int64_t>{40, 30}));
    ASSERT_TRUE(save(folder.path(), {2, 1}, 40)) << "a step may be saved again";
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
}

TEST(Checkpoint, AnEmptyFolderHoldsNone) {
    const TemporaryFolder folder;
    const auto found = find_checkpoint(folder.path() / "nothing");
    ASSERT_TRUE(found);
    EXPECT_FALSE(found->checkpoint);
    EXPECT_TRUE(found->refused.empty());
}

TEST(Checkpoint, NamesWhatItDoesNotHold) {
    const TemporaryFolder folder;
    ASSERT_TRUE(save(folder.path(), {1, 1}, 1));
    const auto checkpoint = open_checkpoint(folder.path(), 1);
    ASSERT_TRUE(checkpoint);
    float value = 0;
    Status read = checkpoint->read("master", "embed.wight", whole_region({1}), DType::F32, &value);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().hint, "did you mean 'embed.weight'?");
    read = checkpoint->read("master", "norm.weight", whole_region({5}), DType::F32, &value);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().message, "has shape [4], the model needs [5]");
}

TEST(Checkpoint, SaysWhichElementsNobodyWrote) {
    const TemporaryFolder folder;
    auto writer = CheckpointWriter::create(options_of(folder.path(), 0, 1));
    ASSERT_TRUE(writer);
    std::vector<float> half = {1, 2};
    TensorRegion region = whole_region({4});
    region.extent = 2;
    const std::vector<CheckpointTensor> tensors = {{"master", "w", region, {half.data(), DType::F32, {2}}}};
    ASSERT_TRUE((*writer)->save(state_of(3), tensors));
    ASSERT_TRUE((*writer)->wait());
    const auto checkpoint = open_checkpoint(folder.path(), 3);
    ASSERT_TRUE(checkpoint);
    std::vector<float> got(4);
    const Status read = checkpoint->read("master", "w", whole_region({4}), DType::F32, got.data());
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().message, "2 of 4 elements were written by no rank");
    EXPECT_TRUE(checkpoint->read("master", "w", region, DType::F32, got.data()));
}

TEST(Checkpoint, ConvertsBetweenTypes) {
    const TemporaryFolder folder;
    auto writer = CheckpointWriter::create(options_of(folder.path(), 0, 1));
    ASSERT_TRUE(writer);
    std::vector<std::uint16_t> values = {0x3f80, 0xc040};  // 1 and -3 in bf16
    const std::vector<CheckpointTensor> tensors = {
        {"weight", "w", whole_region({2}), {values.data(), DType::BF16, {2}}}};
    ASSERT_TRUE((*writer)->save(state_of(3), tensors));
    ASSERT_TRUE((*writer)->wait());
    const auto checkpoint = open_checkpoint(folder.path(), 3);
    std::vector<float> got(2);
    ASSERT_TRUE(checkpoint->read("weight", "w", whole_region({2}), DType::F32, got.data()));
    EXPECT_EQ(got, (std::vector<float>{1, -3}));
}

TEST(Checkpoint, ExportsItsWeights) {
    const TemporaryFolder folder;
    auto writer = CheckpointWriter::create(options_of(folder.path(), 0, 1));
    ASSERT_TRUE(writer);
    std::vector<float> values = {1, 2, 3, 4, 5, 6, 0, 0};
    TensorRegion padded = whole_region({4, 2});
    padded.padded_from = 3;
    const std::vector<CheckpointTensor> tensors = {
        {"weight", "transformer.wte.weight", padded, {values.data(), DType::F32, {8}}},
        {"moment1", "transformer.wte.weight", padded, {values.data(), DType::F32, {8}}}};
    ASSERT_TRUE((*writer)->save(state_of(3), tensors));
    ASSERT_TRUE((*writer)->wait());
    const auto checkpoint = open_checkpoint(folder.path(), 3);
    ASSERT_TRUE(checkpoint);
    ASSERT_TRUE(export_weights(*checkpoint, folder.path() / "model.safetensors", DType::BF16));
    const auto weights = WeightFiles::open(folder.path());
    ASSERT_TRUE(weights) << to_string(weights.errors());
    EXPECT_EQ(weights->names(), (std::vector<std::string>{"transformer.wte.weight"}));
    EXPECT_EQ(weights->find("transformer.wte.weight")->shape, (std::vector<std::int64_t>{3, 2}));
    std::vector<float> got(8, -1);
    ASSERT_TRUE(weights->read("transformer.wte.weight", padded, DType::F32, got.data()));
    EXPECT_EQ(got, values);
}

TEST(Checkpoint, RefusesTensorsThatDoNotFitTheirRegion) {
    const TemporaryFolder folder;
    auto writer = CheckpointWriter::create(options_of(folder.path(), 0, 1));
    ASSERT_TRUE(writer);
    std::vector<float> values(3);
    std::vector<CheckpointTensor> tensors = {
        {"master", "w", whole_region({4}), {values.data(), DType::F32, {3}}}};
    Status saved = (*writer)->save(state_of(3), tensors);
    ASSERT_FALSE(saved);
    EXPECT_EQ(to_string(saved.error()), "master w: its region has 4 elements, its memory 3");
    tensors[0].region = whole_region({3});
    tensors.push_back(tensors[0]);
    saved = (*writer)->save(state_of(3), tensors);
    ASSERT_FALSE(saved);
    EXPECT_EQ(to_string(saved.error()), "master w: is passed twice");
    CheckpointState state = state_of(3);
    state.scalars["loss_scale"] = NAN;
    EXPECT_FALSE((*writer)->save(state, {}));
}

// ---- faults

std::string refused_of(const fs::path& folder) {
    const auto found = find_checkpoint(folder);
    if (!found) return "none is whole: " + to_string(found.errors());
    return found->refused.empty() ? "" : found->refused.front();
}

// Two checkpoints, 10 and 20; the newer one is then damaged.
struct Damaged {
    Damaged() {
        EXPECT_TRUE(save(folder.path(), {2, 1}, 10));
        EXPECT_TRUE(save(folder.path(), {2, 1}, 20));
    }
    [[nodiscard]] fs::path file(const std::string& name) const {
        return folder.path() / "step-00000020" / name;
    }
    void expect_previous_used(const std::string& why) const {
        const auto found = find_checkpoint(folder.path());
        ASSERT_TRUE(found) << to_string(found.errors());
        ASSERT_TRUE(found->checkpoint);
        EXPECT_EQ(found->checkpoint->state().step, 10);
        ASSERT_EQ(found->refused.size(), 1U);
        EXPECT_NE(found->refused.front().find(why), std::string::npos) << found->refused.front();
        expect_reads(*found->checkpoint, {1, 1});
    }
    TemporaryFolder folder;
};

TEST(CheckpointFaults, TruncatedFilesAreRefusedByName) {
    for (const char* name : {"rank-00000.safetensors", "rank-00001.safetensors"}) {
        const Damaged damaged;
        const auto size = fs::file_size(damaged.file(name));
        fs::resize_file(damaged.file(name), size - 1);
        damaged.expect_previous_used(std::string(name) + ": is truncated: ");
    }
    const Damaged damaged;
    fs::resize_file(damaged.file("rank-00001.json"), 100);
    damaged.expect_previous_used("rank-00001.json: is truncated or was replaced: 100 bytes");
}

TEST(CheckpointFaults, TornSavesAreRefusedByName) {
    {
        const Damaged damaged;
        fs::remove(damaged.file("manifest.json"));
        damaged.expect_previous_used("step-00000020: is torn: it has no manifest.json");
    }
    const Damaged damaged;
    fs::remove(damaged.file("rank-00001.safetensors"));
    damaged.expect_previous_used("rank-00001.safetensors: cannot be opened");
}

// Any single flipped bit of any file is found.
TEST(CheckpointFaults, FlippedBitsAreRefusedByName) {
    const Damaged damaged;
    Prng random(5);
    for (const char* name :
         {"rank-00000.safetensors", "rank-00001.safetensors", "rank-00000.json", "manifest.json"}) {
        const auto size = static_cast<std::int64_t>(fs::file_size(damaged.file(name)));
        for (int round = 0; round < scaled(40); ++round) {
            const std::int64_t at = random.integer(0, size - 1);
            const int bit = static_cast<int>(random.integer(0, 7));
            const auto flip = [&] {
                std::fstream file(damaged.file(name), std::ios::in | std::ios::out | std::ios::binary);
                file.seekg(at);
                const int byte = file.get();
                file.seekp(at);
                file.put(static_cast<char>(byte ^ (1 << bit)));
            };
            flip();
            const auto found = find_checkpoint(damaged.folder.path());
            ASSERT_TRUE(found);
            // White space of the manifest may change without changing what it says.
            const bool harmless = std::string(name) == "manifest.json" && found->refused.empty();
            if (!harmless) {
                ASSERT_EQ(found->checkpoint->state().step, 10) << name << " byte " << at << " bit " << bit;
                ASSERT_NE(found->refused.front().find(name), std::string::npos) << found->refused.front();
            } else {
                ASSERT_EQ(found->checkpoint->state(), state_of(20));
            }
            flip();
        }
    }
    EXPECT_EQ(refused_of(damaged.folder.path()), "");
}

TEST(CheckpointFaults, WithoutAWholeOneAllAreNamed) {
    const TemporaryFolder folder;
    ASSERT_TRUE(save(folder.path(), {1, 1}, 10));
    fs::remove(folder.path() / "step-00000010" / "manifest.json");
    const auto found = find_checkpoint(folder.path());
    ASSERT_FALSE(found);
    EXPECT_EQ(exit_code(found.errors()), 5);
}

TEST(CheckpointFaults, OneRankThatDisagreesIsEnough) {
    const Damaged damaged;
    int asked = 0;
    const auto found =
        find_checkpoint(damaged.folder.path(), 0, 2, [&](std::int64_t mine) -> Result<Smallest> {
            if (mine >= 10) return Smallest{mine, 0};  // a step
            EXPECT_EQ(mine, 1);
            return Smallest{++asked > 1 ? 1 : 0, 1};  // the other rank refuses the first
        });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->checkpoint->state().step, 10);
    EXPECT_NE(found->refused.front().find("another rank found it damaged"), std::string::npos);
}

TEST(CheckpointFaults, AFullDiskKeepsThePreviousOne) {
    const TemporaryFolder folder;
    ASSERT_TRUE(save(folder.path(), {2, 1}, 10));
    const Status saved = save(folder.path(), {2, 1}, 20, [](CheckpointOptions& options) {
        if (options.rank == 1) options.faults.full_disk_after_bytes = 300;
    });
    ASSERT_FALSE(saved);
    // Rank 0 learns of it at once and names the rank.
    EXPECT_NE(to_string(saved.errors()).find("checkpoint of step 20: rank 1 could not write its part"),
              std::string::npos)
        << to_string(saved.errors());
    EXPECT_NE(to_string(saved.errors()).find("No space left on device"), std::string::npos);
    EXPECT_EQ(find_checkpoint(folder.path())->checkpoint->state().step, 10);
    // The next save goes through and clears what the failed one left.
    ASSERT_TRUE(save(folder.path(), {2, 1}, 30));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
}

TEST(CheckpointFaults, InjectedCorruptionIsFound) {
    const TemporaryFolder folder;
    ASSERT_TRUE(save(folder.path(), {2, 1}, 10));
    ASSERT_TRUE(
        save(folder.path(), {2, 1}, 20, [](CheckpointOptions& options) { options.faults.corrupt = true; }));
    EXPECT_NE(refused_of(folder.path()).find("step 20: "), std::string::npos);
    EXPECT_EQ(find_checkpoint(folder.path())->checkpoint->state().step, 10);
}

TEST(CheckpointFaults, AMissingRankIsNamedAfterTheDeadline) {
    const TemporaryFolder folder;
    CheckpointOptions options = options_of(folder.path(), 0, 3);
    options.deadline_s = 0.05;
    auto writer = CheckpointWriter::create(std::move(options));
    ASSERT_TRUE(writer);
    ASSERT_TRUE((*writer)->save(state_of(4), {}));
    const Status done = (*writer)->wait();
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find("the parts of ranks 1, 2 did not appear within 0.05 s"),
              std::string::npos);
    EXPECT_TRUE((*writer)->wait()) << "an outcome is told once";
    EXPECT_TRUE(checkpoint_steps(folder.path()).empty());
}

TEST(CheckpointFaults, WhatAKilledRunLeftIsCleared) {
    const TemporaryFolder folder;
    ASSERT_TRUE(save(folder.path(), {1, 1}, 10));
    fs::create_directories(folder.path() / "step-00000020.0000000000000001.partial");
    fs::create_directories(folder.path() / "step-00000005.0000000000000001.removed");
    // An earlier start of the same number, too: an index of its is no part of a new save.
    fs::create_directories(folder.path() / "step-00000020.000000000000004d.partial");
    ASSERT_TRUE(CheckpointWriter::create(options_of(folder.path(), 0, 1)));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

// Damaged documents with a right checksum: they are read or refused, never a crash.
TEST(CheckpointFuzz, MutatedIndexes) {
    const TemporaryFolder folder;
    ASSERT_TRUE(save(folder.path(), {2, 1}, 10));
    const auto text = read_text_file(folder.path() / "step-00000010" / "rank-00000.json");
    ASSERT_TRUE(text);
    ASSERT_TRUE(part_from_text(*text, "part"));
    for (std::size_t length = 0; length + 2 < text->size(); length += 7)
        EXPECT_FALSE(part_from_text(std::string_view(*text).substr(0, length), "cut"));
    Prng random(99);
    for (int round = 0; round < scaled(3000); ++round) {
        // Another number in place of one: sealed again, so that the checksum does not hide the check behind
        // it.
        auto json = parse_json(*text, "part");
        json->erase("crc32c");
        auto& piece = (*json)["pieces"][static_cast<std::size_t>(random.integer(0, 7))];
        static constexpr std::array kKeys = {"axis",  "parts", "offset", "extent",     "first",
                                             "count", "begin", "bytes",  "padded_from"};
        const std::int64_t value =
            random.integer(0, 3) == 0 ? random.integer(0, std::int64_t{1} << 62) : random.integer(-2, 50);
        piece[kKeys[static_cast<std::size_t>(random.integer(0, 8))]] = value;
        if (random.integer(0, 4) == 0) piece["shape"] = {value, random.integer(0, 9)};
        const std::string body = json->dump();
        (*json)["crc32c"] = crc32c(std::as_bytes(std::span(body.data(), body.size())));
        const auto part = part_from_text(json->dump(), "part");
        if (!part) {
            ASSERT_EQ(exit_code(part.errors()), 5) << to_string(part.errors());
            continue;
        }
        std::int64_t at = part->head_bytes;
        for (const CheckpointPiece& one : part->pieces) {
            ASSERT_EQ(one.begin, at);
            at += one.bytes;
        }
        ASSERT_EQ(at, part->file_bytes);
    }
}

}  // namespace
}  // namespace tw

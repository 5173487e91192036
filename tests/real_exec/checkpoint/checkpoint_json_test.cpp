// The documents of a checkpoint by themselves.
#include "real_exec/checkpoint/checkpoint_json.hpp"

#include <span>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "real_exec/checkpoint/crc32c.hpp"

namespace tw {
namespace {

TEST(CheckpointJson, IndexesOfVersion1HaveNoCountsByLayer) {
    CheckpointPart part;
    part.layer_updates = {{0, 7}, {3, 9}};
    const auto read = part_from_text(part_text(part), "part");
    ASSERT_TRUE(read) << to_string(read.errors());
    EXPECT_EQ(read->layer_updates, part.layer_updates);
    const auto refused = [](Json json) {
        json.erase("crc32c");
        const std::string body = json.dump();
        json["crc32c"] = crc32c(std::as_bytes(std::span(body.data(), body.size())));
        const auto again = part_from_text(json.dump(), "part");
        if (!again) return to_string(again.errors());
        EXPECT_TRUE(again->layer_updates.empty());
        return std::string();
    };
    Json json = *parse_json(part_text(part), "part");
    Json twice = json;
    twice["layer_updates"][1]["layer"] = 0;
    EXPECT_NE(refused(twice).find("0 is there twice"), std::string::npos) << refused(twice);
    json.erase("layer_updates");
    EXPECT_NE(refused(json), "");
    json["version"] = 1;
    EXPECT_EQ(refused(json), "");
}

// A small document that claims more pieces of a tensor than there is time to walk through.
TEST(CheckpointJson, ClaimsOfManyElementsAreCountedNotWalked) {
    CheckpointPart part;
    CheckpointPiece piece{"weight", "w", DType::F32, whole_region({std::int64_t{1} << 40, 2}), 0, 4, 0};
    piece.region.axis = 1;
    piece.region.extent = 1;
    part.pieces = {piece};
    part.file_bytes = 4;
    const auto read = part_from_text(part_text(part), "part");
    ASSERT_FALSE(read);
    EXPECT_NE(to_string(read.errors()).find("the region has 1099511627776 elements"), std::string::npos)
        << to_string(read.errors());
}

}  // namespace
}  // namespace tw

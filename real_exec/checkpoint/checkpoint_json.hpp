// The two documents of a checkpoint: the manifest (schema "trainwright/checkpoint") and every rank's index of
// pieces (schema "trainwright/checkpoint-part"), version 1 and 2; version 1 of an index has no
// "layer_updates". Each ends with the CRC-32C of itself without
// that member, so that any flipped bit is found.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "real_exec/checkpoint/checkpoint.hpp"

namespace tw {

// A region's stored elements, padding left out, in the region's order.
struct CheckpointPiece {
    std::string kind, name;
    DType dtype = DType::F32;
    TensorRegion region;                // full_shape is the stored shape or, with padding, the writer's
    std::int64_t begin = 0, bytes = 0;  // in the rank's file
    std::uint32_t crc32c = 0;
};

struct CheckpointPart {
    int rank = 0;
    std::int64_t step = 0;
    std::int64_t file_bytes = 0;  // of rank-NNNNN.safetensors
    std::int64_t head_bytes = 0;  // before the first piece
    std::uint32_t head_crc32c = 0;
    std::map<int, std::int64_t> layer_updates;  // of the rank's layers
    std::vector<CheckpointPiece> pieces;        // ascending in `begin`, without holes
};

struct CheckpointManifest {
    CheckpointState state;
    struct Part {
        std::int64_t index_bytes = 0, file_bytes = 0;  // of rank-NNNNN.json and .safetensors
        std::uint32_t index_crc32c = 0;                // of the whole index file
    };
    std::vector<Part> parts;  // one a rank
};

std::string part_text(const CheckpointPart& part);
std::string manifest_text(const CheckpointManifest& manifest);

// All errors of the document; every region is legal, pieces lie one after another up to the file's end.
Result<CheckpointPart> part_from_text(std::string_view text, std::string_view name);
Result<CheckpointManifest> manifest_from_text(std::string_view text, std::string_view name);

// File names within a checkpoint's folder, and the folders' own.
std::string part_file(int rank, std::string_view suffix);  // "rank-00003" + ".json"
std::string step_folder(std::int64_t step);                // "step-00000020"

}  // namespace tw

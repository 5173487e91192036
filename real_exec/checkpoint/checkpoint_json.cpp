#include "real_exec/checkpoint/checkpoint_json.hpp"

#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "base/json.hpp"
#include "real_exec/checkpoint/crc32c.hpp"
#include "real_exec/checkpoint/safetensors.hpp"

namespace tw {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr int kMostRanks = 1 << 20;
constexpr int kPartVersion = 2;
constexpr std::string_view kChecksumKey = "crc32c";

std::uint32_t checksum_of(const Json& json) {
    const std::string text = json.dump();
    return crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

std::string sealed(Json json) {
    const std::uint32_t checksum = checksum_of(json);
    json[kChecksumKey] = checksum;
    return json.dump(1) + "\n";
}

// The document without its checksum, which fits.
Result<Json> unsealed(std::string_view text, std::string_view name) {
    auto json = parse_json(text, name);
    if (!json) return json.errors();
    if (!json->is_object() || !json->contains(kChecksumKey) || !(*json)[kChecksumKey].is_number_unsigned())
        return Error{ErrorCode::Unreadable, "carries no checksum", std::string(name), ""};
    const auto stored = (*json)[kChecksumKey].get<std::uint64_t>();
    json->erase(std::string(kChecksumKey));
    if (const std::uint32_t found = checksum_of(*json); found != stored)
        return Error{ErrorCode::Unreadable,
                     fmt::format("is damaged: its checksum is {:08x}, it says {:08x}", found, stored),
                     std::string(name), ""};
    return json;
}

Json region_to_json(const TensorRegion& region) {
    Json json;
    json["shape"] = std::vector<std::int64_t>(region.full_shape.dims.begin(),
                                              region.full_shape.dims.begin() + region.full_shape.rank);
    json["axis"] = region.axis;
    json["parts"] = region.parts;
    json["offset"] = region.offset;
    json["extent"] = region.extent;
    json["first"] = region.first;
    json["count"] = region.elements();
    if (region.padded_from >= 0) json["padded_from"] = region.padded_from;
    return json;
}

TensorRegion region_from(const JsonObject& object) {
    TensorRegion region;
    const Json& shape = object.array("shape");
    if (shape.size() > 4) object.error("shape", "has more than four dimensions");
    for (std::size_t axis = 0; axis < shape.size() && axis < 4; ++axis) {
        if (!shape[axis].is_number_unsigned() ||
            shape[axis].get<std::uint64_t>() > static_cast<std::uint64_t>(kMost)) {
            object.error("shape", "holds something else than sizes");
            break;
        }
        region.full_shape.dims[axis] = shape[axis].get<std::int64_t>();
        region.full_shape.rank = static_cast<int>(axis) + 1;
    }
    region.axis = static_cast<int>(object.integer("axis", 0, 3));
    region.parts = static_cast<int>(object.integer("parts", 1, std::numeric_limits<int>::max()));
    region.offset = object.integer("offset", 0, kMost);
    region.extent = object.integer("extent", 0, kMost);
    region.first = object.integer("first", 0, kMost);
    region.count = object.integer("count", 0, kMost);
    region.padded_from = object.integer_or("padded_from", -1, 0, kMost);
    return region;
}

std::uint32_t checksum_from(const JsonObject& object, std::string_view key) {
    return static_cast<std::uint32_t>(object.integer(key, 0, std::numeric_limits<std::uint32_t>::max()));
}

CheckpointPiece piece_from(const Json& json, const std::string& pointer, Errors& errors) {
    const std::size_t before = errors.size();
    const JsonObject object(json, pointer, errors);
    CheckpointPiece piece;
    piece.kind = object.string("kind");
    piece.name = object.string("name");
    const std::string word = object.string("dtype");
    const auto dtype = dtype_of_safetensors(word);
    if (!dtype && errors.size() == before) object.error("dtype", fmt::format("unknown type '{}'", word));
    piece.dtype = dtype.value_or(DType::F32);
    piece.region = region_from(object);
    piece.begin = object.integer("begin", 0, kMost);
    piece.bytes = object.integer("bytes", 0, kMost);
    piece.crc32c = checksum_from(object, "crc32c");
    object.finish();
    if (errors.size() != before) return piece;
    if (const Status legal = check_region(piece.region, pointer); !legal) {
        for (const Error& error : legal.errors())
            errors.push_back({ErrorCode::Unreadable, error.message, error.context, error.hint});
        return piece;
    }
    const std::int64_t elements = stored_elements(piece.region);
    if (piece.bytes != elements * static_cast<std::int64_t>(bytes_of(piece.dtype)))
        object.error("bytes", fmt::format("is {}, the region has {} elements", piece.bytes, elements));
    return piece;
}

std::map<int, std::int64_t> layer_updates_from(const JsonObject& part, const std::string& pointer,
                                               Errors& errors) {
    std::map<int, std::int64_t> all;
    std::size_t index = 0;
    for (const Json& one : part.array("layer_updates")) {
        const JsonObject object(one, fmt::format("{}: /layer_updates/{}", pointer, index++), errors);
        const auto layer = static_cast<int>(object.integer("layer", 0, std::numeric_limits<int>::max()));
        if (!all.emplace(layer, object.integer("updates", 0, kMost)).second)
            object.error("layer", fmt::format("{} is there twice", layer));
        object.finish();
    }
    return all;
}

CheckpointState state_from(const Json& json, const std::string& pointer, Errors& errors) {
    const JsonObject object(json, pointer, errors);
    CheckpointState state;
    state.step = object.integer("step", 0, kMost);
    const std::string seed = object.string("seed");
    const auto parsed = std::from_chars(seed.data(), seed.data() + seed.size(), state.seed);
    if (parsed.ec != std::errc{} || parsed.ptr != seed.data() + seed.size())
        object.error("seed", fmt::format("'{}' is no 64-bit number", seed));
    state.model = object.string("model");
    state.plan = object.string("plan");
    state.data = object.string("data");
    if (const Json* const scalars = object.find("scalars"); scalars != nullptr && scalars->is_object()) {
        for (const auto& [name, value] : scalars->items()) {
            if (value.is_number()) {
                state.scalars[name] = value.get<double>();
            } else {
                object.error("scalars", fmt::format("'{}' is no number", name));
            }
        }
    } else {
        object.error("scalars", "is no object of numbers");
    }
    object.finish();
    return state;
}

}  // namespace

std::string part_text(const CheckpointPart& part) {
    Json json;
    json["schema"] = "trainwright/checkpoint-part";
    json["version"] = kPartVersion;
    json["rank"] = part.rank;
    json["step"] = part.step;
    json["file_bytes"] = part.file_bytes;
    json["head_bytes"] = part.head_bytes;
    json["head_crc32c"] = part.head_crc32c;
    json["layer_updates"] = Json::array();
    for (const auto& [layer, updates] : part.layer_updates)
        json["layer_updates"].push_back(Json{{"layer", layer}, {"updates", updates}});
    json["pieces"] = Json::array();
    for (const CheckpointPiece& piece : part.pieces) {
        Json one;
        one["kind"] = piece.kind;
        one["name"] = piece.name;
        one["dtype"] = std::string(safetensors_word(piece.dtype));
        one.update(region_to_json(piece.region));
        one["begin"] = piece.begin;
        one["bytes"] = piece.bytes;
        one["crc32c"] = piece.crc32c;
        json["pieces"].push_back(std::move(one));
    }
    return sealed(std::move(json));
}

std::string manifest_text(const CheckpointManifest& manifest) {
    Json json;
    json["schema"] = "trainwright/checkpoint";
    json["version"] = 1;
    const CheckpointState& state = manifest.state;
    json["state"] = Json{{"step", state.step},   {"seed", std::to_string(state.seed)},
                         {"model", state.model}, {"plan", state.plan},
                         {"data", state.data},   {"scalars", Json::object()}};
    for (const auto& [name, value] : state.scalars)
        json["state"]["scalars"][name] = value;
    json["parts"] = Json::array();
    for (const CheckpointManifest::Part& part : manifest.parts)
        json["parts"].push_back(Json{{"index_bytes", part.index_bytes},
                                     {"index_crc32c", part.index_crc32c},
                                     {"file_bytes", part.file_bytes}});
    return sealed(std::move(json));
}

Result<CheckpointPart> part_from_text(std::string_view text, std::string_view name) {
    const auto json = unsealed(text, name);
    if (!json) return json.errors();
    Errors errors;
    const std::string pointer(name);
    const JsonObject object(*json, pointer, errors);
    const int version = read_schema(object, "checkpoint-part", kPartVersion);
    CheckpointPart part;
    part.rank = static_cast<int>(object.integer("rank", 0, kMostRanks));
    part.step = object.integer("step", 0, kMost);
    part.file_bytes = object.integer("file_bytes", 0, kMost);
    part.head_bytes = object.integer("head_bytes", 0, kMost);
    part.head_crc32c = checksum_from(object, "head_crc32c");
    if (version > 1) part.layer_updates = layer_updates_from(object, pointer, errors);
    std::int64_t at = part.head_bytes;
    std::size_t index = 0;
    for (const Json& one : object.array("pieces")) {
        const std::string where = fmt::format("{}: /pieces/{}", pointer, index++);
        const std::size_t before = errors.size();
        CheckpointPiece piece = piece_from(one, where, errors);
        if (errors.size() != before) continue;
        if (piece.begin != at || piece.bytes > part.file_bytes - at) {
            errors.push_back({ErrorCode::Unreadable,
                              fmt::format("bytes {} + {} do not follow {} within {}", piece.begin,
                                          piece.bytes, at, part.file_bytes),
                              where, ""});
            break;
        }
        at += piece.bytes;
        part.pieces.push_back(std::move(piece));
    }
    if (errors.empty() && at != part.file_bytes)
        object.error("file_bytes", fmt::format("is {}, the pieces end at {}", part.file_bytes, at));
    object.finish();
    if (!errors.empty()) return errors;
    return part;
}

Result<CheckpointManifest> manifest_from_text(std::string_view text, std::string_view name) {
    const auto json = unsealed(text, name);
    if (!json) return json.errors();
    Errors errors;
    const std::string pointer(name);
    const JsonObject object(*json, pointer, errors);
    read_schema(object, "checkpoint", 1);
    CheckpointManifest manifest;
    if (const Json* const state = object.find("state"); state != nullptr) {
        manifest.state = state_from(*state, pointer + ": /state", errors);
    } else {
        object.error("state", "is missing");
    }
    std::size_t index = 0;
    for (const Json& one : object.array("parts")) {
        const JsonObject part(one, fmt::format("{}: /parts/{}", pointer, index++), errors);
        manifest.parts.push_back({part.integer("index_bytes", 0, kMost), part.integer("file_bytes", 0, kMost),
                                  checksum_from(part, "index_crc32c")});
        part.finish();
    }
    object.finish();
    if (!errors.empty()) return errors;
    return manifest;
}

std::string part_file(int rank, std::string_view suffix) {
    return fmt::format("rank-{:05}{}", rank, suffix);
}

std::string step_folder(std::int64_t step) {
    return fmt::format("step-{:08}", step);
}

}  // namespace tw

#include "plan/gradient_sync/sync_options_json.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "plan/gradient_sync/gradient_sync.hpp"

namespace tw {
namespace {

constexpr std::int64_t kMost = 1'000'000;
constexpr double kLeastShare = 1e-6;

}  // namespace

Json sync_options_to_json(const SyncOptions& options) {
    Json json = Json::object();
    for_each_sync_option([&](std::string_view name, auto member) {
        if (options.*member != SyncOptions().*member) json[std::string(name)] = options.*member;
    });
    return json;
}

SyncOptions sync_options_from_json(const JsonObject& object, std::string_view method) {
    SyncOptions o;
    const auto whole = [&](std::string_view key, std::int64_t fallback, std::int64_t low,
                           std::int64_t high = kMost) {
        return static_cast<int>(object.integer_or(key, fallback, low, high));
    };
    o.servers = whole("servers", o.servers, 0);
    o.staleness = whole("staleness", o.staleness, -1);
    o.local_steps = whole("local_steps", o.local_steps, 1);
    o.outer_momentum = object.boolean_or("outer_momentum", o.outer_momentum);
    o.density = object.number_or("density", o.density, kLeastShare, 1);
    o.block = whole("block", o.block, 1, 1 << 20);
    o.rank = whole("rank", o.rank, 1);
    o.sketch_rows = whole("sketch_rows", o.sketch_rows, 1, 1000);
    o.sketch_width = object.number_or("sketch_width", o.sketch_width, kLeastShare, 1);
    if (const auto found = find_gradient_sync(method)) {
        for_each_sync_option([&](std::string_view name, auto /*member*/) {
            if (!object.has(name)) return;
            if (const auto reason = why_not_an_option(**found, name))
                object.error(name, reason->message, reason->hint);
        });
    }
    object.finish();
    return o;
}

std::string sync_options_text(const SyncOptions& options) {
    std::string text;
    for_each_sync_option([&](std::string_view name, auto member) {
        if (options.*member == SyncOptions().*member) return;
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, options.*member);
    });
    return text;
}

}  // namespace tw

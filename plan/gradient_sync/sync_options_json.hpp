// A plan document's "gradient_sync_options".
#pragma once

#include <string>
#include <string_view>

#include "base/json.hpp"
#include "plan/gradient_sync/sync_options.hpp"

namespace tw {

// What differs from the defaults; an empty object where nothing does.
Json sync_options_to_json(const SyncOptions& options);

// Records an error at each key that is unknown, outside of its range, or of another method than `method`; of
// an unknown method every option is read.
SyncOptions sync_options_from_json(const JsonObject& object, std::string_view method);

// "servers 4, staleness 2": what differs from the defaults; empty where nothing does.
std::string sync_options_text(const SyncOptions& options);

}  // namespace tw

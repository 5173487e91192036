// Shared by the methods: adding collectives to a cost, and the checks that several have.
#pragma once

#include <string>
#include <string_view>

#include "plan/gradient_sync/gradient_sync.hpp"

namespace tw::sync_detail {

// Adds a collective and its wire bytes; nothing among fewer than two ranks.
void add(SyncCost& cost, const SyncRequest& request, SyncCollective collective);

Error rule(std::string_view key, std::string message, std::string hint);

double gradient_bytes(const SyncRequest& request);
double parameter_bytes(const SyncRequest& request);

}  // namespace tw::sync_detail

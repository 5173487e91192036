#include "real_exec/runtime/sync_method.hpp"

#include <algorithm>
#include <array>

namespace tw {
namespace {

constexpr std::array<std::string_view, 7> kNames = {"all-reduce", "zero",  "ps-sync", "ps-async",
                                                    "local-sgd",  "top-k", "8-bit"};
constexpr std::array kMethods = {SyncMethod::Reduce,      SyncMethod::Reduce,     SyncMethod::ServerSync,
                                 SyncMethod::ServerAsync, SyncMethod::LocalSteps, SyncMethod::TopK,
                                 SyncMethod::EightBit};

}  // namespace

std::optional<SyncMethod> sync_method_of(std::string_view name) {
    const auto* found = std::find(kNames.begin(), kNames.end(), name);
    if (found == kNames.end()) return std::nullopt;
    return kMethods[static_cast<std::size_t>(found - kNames.begin())];
}

std::span<const std::string_view> executed_sync_methods() {
    return kNames;
}

}  // namespace tw

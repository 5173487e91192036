// How the executor synchronises gradients among replicas: the registry names of plan/gradient_sync that it
// runs, and what each of them means for the rest of the runtime.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tw {

enum class SyncMethod : std::uint8_t {
    Reduce,       // "all-reduce", "zero": sums, by all-reduce or by reduce-scatter and all-gather
    ServerSync,   // "ps-sync": the same sums; each replica serves its shard of the parameters
    ServerAsync,  // "ps-async": each push is applied at once (parameter_server.hpp)
    LocalSteps,   // "local-sgd": replicas step by themselves and average their parameters now and then
    TopK,         // "top-k" and
    EightBit,     // "8-bit": sums of what was sent, the rest kept for the next step (compressed_reduce.hpp)
};

std::optional<SyncMethod> sync_method_of(std::string_view name);
std::span<const std::string_view> executed_sync_methods();

constexpr bool compresses(SyncMethod method) {
    return method == SyncMethod::TopK || method == SyncMethod::EightBit;
}
// Replicas that step at their own pace: gradient norms are each replica's own, and its gradient is the mean
// over its own samples.
constexpr bool steps_alone(SyncMethod method) {
    return method == SyncMethod::ServerAsync || method == SyncMethod::LocalSteps;
}
constexpr bool shards_update(SyncMethod method) {
    return method == SyncMethod::ServerSync || method == SyncMethod::ServerAsync;
}

}  // namespace tw

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/nearest.hpp"
#include "plan/gradient_sync/gradient_sync.hpp"

namespace tw {

const GradientSync& all_reduce_sync();
const GradientSync& zero_sync();
const GradientSync& parameter_server_sync();
const GradientSync& parameter_server_async();
const GradientSync& local_sgd_sync();
const GradientSync& top_k_sync();
const GradientSync& eight_bit_sync();
const GradientSync& power_sgd_sync();
const GradientSync& count_sketch_sync();

std::span<const GradientSync* const> gradient_syncs() {
    static const std::array<const GradientSync*, 9> table = {
        &all_reduce_sync(),        &zero_sync(),      &parameter_server_sync(),
        &parameter_server_async(), &local_sgd_sync(), &top_k_sync(),
        &eight_bit_sync(),         &power_sgd_sync(), &count_sketch_sync(),
    };
    return table;
}

Result<const GradientSync*> find_gradient_sync(std::string_view name) {
    for (const GradientSync* method : gradient_syncs())
        if (method->info().name == name) return method;
    return Error{ErrorCode::Usage, "unknown gradient synchronisation '" + std::string(name) + "'",
                 "gradient_sync", unknown_name_hint(name, gradient_sync_names())};
}

std::vector<std::string> gradient_sync_names() {
    std::vector<std::string> names;
    for (const GradientSync* method : gradient_syncs())
        names.emplace_back(method->info().name);
    return names;
}

std::optional<Error> why_not_an_option(const GradientSync& method, std::string_view option) {
    const std::span<const std::string_view> options = method.options();
    if (std::find(options.begin(), options.end(), option) != options.end()) return std::nullopt;
    return Error{
        ErrorCode::Usage, fmt::format("gradient sync {} does not use '{}'", method.info().name, option),
        "gradient_sync_options",
        options.empty() ? "it has no options" : fmt::format("its options: {}", fmt::join(options, ", "))};
}

Result<SyncCost> gradient_sync_cost(std::string_view name, const SyncRequest& request,
                                    const SyncOptions& options) {
    const auto method = find_gradient_sync(name);
    if (!method) return method.errors();
    Errors errors = (*method)->check(request, options);
    if (!errors.empty()) return errors;
    return (*method)->cost(request, options);
}

double rank_wire_bytes(CollectiveKind kind, double bytes, int ranks) {
    if (ranks < 2) return 0;
    const double n = ranks;
    switch (kind) {
        case CollectiveKind::AllReduce:
            return 2 * (n - 1) / n * bytes;
        case CollectiveKind::SendRecv:
            return bytes;
        default:
            return (n - 1) / n * bytes;
    }
}

}  // namespace tw

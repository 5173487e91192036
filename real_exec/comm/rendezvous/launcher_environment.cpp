#include "real_exec/comm/rendezvous/launcher_environment.hpp"

#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace tw {
namespace {

constexpr std::int64_t kFirstPort = 20000;
constexpr std::int64_t kPorts = 20000;

std::string_view text_of(const LauncherVariables& environment, const char* name) {
    const char* value = environment(name);
    return value != nullptr ? std::string_view(value) : std::string_view{};
}

// Adds an error where the variable is not a number in [low, high].
std::int64_t number_of(const LauncherVariables& environment, const char* name, std::int64_t low,
                       std::int64_t high, std::optional<std::int64_t> otherwise, Errors& errors) {
    const std::string_view text = text_of(environment, name);
    if (text.empty() && otherwise) return *otherwise;
    std::int64_t value = 0;
    const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || bad != std::errc{} || end != text.data() + text.size() || value < low ||
        value > high) {
        errors.push_back({ErrorCode::Usage,
                          text.empty() ? std::string("is not set")
                                       : fmt::format("'{}' is not a number from {} to {}", text, low, high),
                          name, "the launcher sets it: torchrun, or srun"});
    }
    return value;
}

}  // namespace

Result<std::string> first_host(std::string_view list) {
    const std::size_t open = list.find('[');
    const std::size_t comma = list.find(',');
    if (open == std::string_view::npos || comma < open) {
        const std::string_view host = list.substr(0, comma);
        if (host.empty())
            return Error{ErrorCode::Usage, "names no host", "SLURM_JOB_NODELIST", "node1 or node[1-4]"};
        return std::string(host);
    }
    const std::size_t close = list.find(']', open);
    const std::string_view inside =
        close == std::string_view::npos ? "" : list.substr(open + 1, close - open - 1);
    const std::string_view number = inside.substr(0, inside.find_first_of(",-"));
    if (number.empty()) {
        return Error{ErrorCode::Usage, fmt::format("'{}' has no number in its brackets", list),
                     "SLURM_JOB_NODELIST", "node[1-4]"};
    }
    const std::string_view after = list.substr(close + 1);
    return std::string(list.substr(0, open)) + std::string(number) +
           std::string(after.substr(0, after.find(',')));
}

Launcher launcher_of(const LauncherVariables& environment, bool has_mpi) {
    const auto is_set = [&](const char* name) { return environment(name) != nullptr; };
    if (is_set("RANK") && is_set("WORLD_SIZE")) return Launcher::Torchrun;
    const bool by_mpi = is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMIX_RANK") || is_set("PMI_RANK");
    if (has_mpi && by_mpi) return Launcher::Mpi;
    if (is_set("SLURM_PROCID")) return Launcher::Slurm;
    return is_set("RANK") ? Launcher::Torchrun : Launcher::None;
}

Result<LaunchedRank> launched_rank(const LauncherVariables& environment) {
    Errors errors;
    LaunchedRank found;
    const Launcher launcher = launcher_of(environment, false);
    const bool torchrun = launcher == Launcher::Torchrun;
    if (launcher == Launcher::None) {
        return Error{ErrorCode::Usage, "neither torchrun nor srun has started this process",
                     "RANK, SLURM_PROCID",
                     "torchrun --no-python --nproc-per-node 8 trainwright-exec …, srun …, or mpirun with MPI "
                     "built in"};
    }
    constexpr std::int64_t kMost = 1 << 20;
    const char* rank = torchrun ? "RANK" : "SLURM_PROCID";
    const char* size = torchrun ? "WORLD_SIZE" : "SLURM_NTASKS";
    const char* local = torchrun ? "LOCAL_RANK" : "SLURM_LOCALID";
    found.launcher = torchrun ? "torchrun" : "slurm";
    found.size = static_cast<int>(number_of(environment, size, 1, kMost, {}, errors));
    found.rank = static_cast<int>(number_of(environment, rank, 0, kMost, {}, errors));
    found.local_rank = static_cast<int>(number_of(environment, local, 0, kMost, found.rank, errors));
    if (errors.empty() && found.rank >= found.size) {
        errors.push_back({ErrorCode::Usage, fmt::format("is {} of {} ranks", found.rank, found.size), rank,
                          fmt::format("0 to {}", found.size - 1)});
    }
    found.address.host = text_of(environment, "MASTER_ADDR");
    std::optional<std::int64_t> port;
    if (!torchrun) {
        if (found.address.host.empty()) {
            const Result<std::string> host = first_host(text_of(environment, "SLURM_JOB_NODELIST"));
            if (host) {
                found.address.host = *host;
            } else {
                errors.push_back(host.error());
            }
        }
        if (text_of(environment, "MASTER_PORT").empty())
            port = kFirstPort +
                   number_of(environment, "SLURM_JOB_ID", 0, std::int64_t{1} << 32, {}, errors) % kPorts;
    } else if (found.address.host.empty()) {
        errors.push_back({ErrorCode::Usage, "is not set", "MASTER_ADDR", "rank 0's address"});
    }
    std::int64_t number = number_of(environment, "MASTER_PORT", 1, 65535, port, errors);
    // torchrun's own store already listens there.
    if (text_of(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True") ++number;
    found.address.port = static_cast<std::uint16_t>(number);
    if (!errors.empty()) return errors;
    return found;
}

}  // namespace tw

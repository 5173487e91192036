#include "cli/profile_rank.hpp"

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "cli/common/help.hpp"
#include "cli/common/parse.hpp"
#include "cli/common/stop_signals.hpp"
#include "cli/common/writable_output.hpp"
#include "cli/profile_flags.hpp"
#include "models/hardware/profile_document_json.hpp"
#include "profiler/bench/session.hpp"
#include "real_exec/backend/make_backend.hpp"
#include "real_exec/comm/device_transport.hpp"
#include "real_exec/comm/staged/staged_transport.hpp"

namespace tw::cli {
namespace {

constexpr double kDeadline_s = 600;  // of one collective: another rank measures alone meanwhile

// The interrupted document that this run goes on with; empty where there is none.
ProfileDocument known_points(const ProfileFlags& flags, const MeasuredEnvironment& here, Console& console) {
    if (flags.fresh || !std::filesystem::exists(flags.output)) return {};
    const auto json = read_json_file(flags.output);
    if (!json) return {};
    auto document = decode_measured_samples(*json, flags.output);
    if (!document || !document->environment || document->environment->complete) return {};
    if (!same_machine(*document->environment, here)) {
        console.note(flags.output + " was measured elsewhere: everything is measured anew");
        return {};
    }
    console.note(
        fmt::format("{} was interrupted: its {} points are kept", flags.output, document->samples.size()));
    return std::move(*document);
}

void show_progress(const SessionProgress& p, bool rewritten) {
    std::cerr << fmt::format("{}{:>3.0f} s of {:.0f} s  {:>2}/{}  {:<18} {} points{}",
                             rewritten ? "\r\x1b[K" : "", p.elapsed_s, p.budget_s, p.index + 1, p.count,
                             p.benchmark, p.points, rewritten ? "" : "\n")
              << std::flush;
}

Result<std::unique_ptr<Backend>> open_backend(const ProfileFlags& flags) {
    BackendOptions wanted;
    wanted.threads = flags.threads;
    wanted.device = local_rank([](const char* name) { return std::getenv(name); });
    wanted.share = true;
    return make_backend(flags.backend, wanted);
}

}  // namespace

int run_profile_rank(const std::vector<std::string>& words, const OpenTransport& open) {
    Commands commands;
    commands.push_back(std::make_unique<Command>("profile", "Measure this machine, as one rank"));
    commands.back()->details(
        "trainwright profile starts the ranks on this machine; mpirun and srun --mpi=pmix start "
        "them across nodes. Without --output the profile goes to my.profile.json.");
    ProfileFlags flags;
    flags.output = "my.profile.json";
    define_profile_flags(*commands.back(), flags);
    commands.back()->flag("--progress", flags.progress, "rewrite one line on stderr");
    std::vector<std::string> all = {"profile"};
    all.insert(all.end(), words.begin(), words.end());
    Invocation invocation = parse_command_line(commands, all, Defaults::None);
    Console& console = invocation.console;
    if (invocation.help) {
        console.out(command_help(*commands.back(), console.out_colour(), "trainwright-profile"));
        return 0;
    }
    if (!invocation.errors.empty()) return console.fail(invocation.errors);
    if (flags.output == "-")
        return console.fail({{ErrorCode::Usage, "cannot go to stdout: it is written while it is measured",
                              "--output", "--output my.profile.json"}});
    auto backend = open_backend(flags);
    if (!backend) return console.fail(backend.errors());
    auto transport = open(0, kDeadline_s);
    if (!transport) return console.fail(transport.errors());
    if ((*backend)->host_memory() == false) transport = stage_through_host(std::move(*transport), **backend);
    const bool leads = (*transport)->rank() == 0;
    const auto fail = [&](const Errors& errors) {
        if ((*transport)->size() > 1) (*transport)->abort(exit_code(errors), to_string(errors));
        return console.fail(errors);
    };
    if (const Errors errors = leads ? unwritable(flags.output, "--output") : Errors{}; !errors.empty())
        return fail(errors);

    const StopSignals interrupt;
    SessionOptions options;
    options.budget_s = flags.budget_s;
    options.only = only_names(flags);
    options.least_points = flags.points;
    options.process_time = flags.process_time;
    options.threads = flags.threads;
    options.stop = &interrupt.flag();
    ProfileDocument known;
    if (leads)
        known = known_points(flags, describe_environment(**backend, **transport, flags.threads), console);
    const auto write = [&](const ProfileDocument& document) {
        return console.write(flags.output, profile_document_text(document));
    };
    const auto result = run_session(
        options, **transport, **backend, std::move(known),
        [&](const SessionProgress& p) { show_progress(p, flags.progress); },
        [&](const ProfileDocument& document) { (void)write(document); });
    if (flags.progress && leads) std::cerr << "\r\x1b[K";
    if (!result) return fail(result.errors());
    if (!leads) return 0;
    if (const Status written = write(*result); !written) return console.fail(written.errors());
    return interrupt.flag() ? 130 : 0;
}

}  // namespace tw::cli

#include <algorithm>
#include <array>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "cli/commands.hpp"
#include "cli/profile_diff.hpp"
#include "cli/profile_flags.hpp"
#include "cli/profile_import.hpp"
#include "cli/profile_samples.hpp"
#include "cli/profile_svg.hpp"
#include "cli/start_ranks.hpp"
#include "models/hardware/profile_document_json.hpp"
#include "models/hardware/profile_json.hpp"
#include "models/hardware/scale_profile.hpp"
#include "profiler/bench/session.hpp"

namespace tw::cli {
namespace {

// Ranks that measure together on one host: more say nothing new.
constexpr int kMostRanks = 8;

struct ProfileOptions {
    std::string action, svg;
    std::vector<std::string> files;  // to show: one, a profile; to import: any number
    ProfileFlags flags;
    ImportFlags import;
    ProfileDiffFlags diff;
};

// A fit that found none ends a little above zero.
std::string latency_text(double seconds) {
    return format_duration(seconds < 1e-12 ? 0 : seconds);
}

// One line of the profile: what was fitted, where it holds and how well.
struct Part {
    std::string part, name, figures, range;
    const FitRecord* fit;
};

std::string size_range(const Range& range) {
    return fmt::format("{:g}-{:g}", range.low, range.high);
}

std::string byte_range(const Range& range) {
    return format_bytes(range.low) + " - " + format_bytes(range.high);
}

std::vector<Part> parts_of(const HardwareProfile& p) {
    std::vector<Part> parts;
    for (const GemmEntry& e : p.gemm) {
        parts.push_back(
            {"product", std::string(to_string(e.precision)),
             fmt::format("{}, {}, launch {}{}", format_rate(tile_rate(e.curve), "FLOP/s"),
                         format_rate(e.curve.bandwidth, "B/s"), format_duration(e.curve.launch_s),
                         e.residual.empty() ? "" : fmt::format(", grid of {}", e.residual.values.size())),
             fmt::format("m {}, n {}, k {}", size_range(e.m), size_range(e.n), size_range(e.k)), &e.fit});
    }
    for (const GemmFormEntry& e : p.gemm_forms) {
        parts.push_back(
            {"product form",
             std::string(to_string(e.form)) + (e.precision ? " " + std::string(to_string(*e.precision)) : ""),
             fmt::format("{:.3f} of the curve's time", e.factor), "", &e.fit});
    }
    for (const HostGemmEntry& e : p.host_gemm) {
        parts.push_back(
            {"core's product", fmt::format("{} {}", to_string(e.precision), to_string(e.form)),
             fmt::format("{} as it lies{}, {} packed{}", format_rate(2 / e.curve.direct.step_s, "FLOP/s"),
                         e.curve.packed_from > 0 ? fmt::format(" below {:.0f}", e.curve.packed_from) : "",
                         format_rate(2 / e.curve.packed.step_s, "FLOP/s"),
                         e.residual.empty() ? "" : fmt::format(", grid of {}", e.residual.values.size())),
             fmt::format("m {}, n {}, k {}", size_range(e.m), size_range(e.n), size_range(e.k)), &e.fit});
    }
    if (p.sustained.slowdown > 1) {
        parts.push_back({"sustained load", "",
                         fmt::format("{:.3f} of the compute time", p.sustained.slowdown), "",
                         &p.sustained.fit});
    }
    for (const AttentionEntry& e : p.attention) {
        parts.push_back(
            {"attention", fmt::format("{} {}", to_string(e.kernel), e.backward ? "backward" : "forward"),
             fmt::format("{} at head dimension 128",
                         format_rate(e.curve.rate * 128 / (128 + e.curve.narrow), "FLOP/s")),
             fmt::format("sequence {}, head {}", size_range(e.seq), size_range(e.head_dim)), &e.fit});
    }
    parts.push_back({"memory", "copy",
                     fmt::format("{}, cache {}, latency {}", format_rate(p.memory.bandwidth, "B/s"),
                                 format_rate(p.memory.l2_bandwidth, "B/s"), latency_text(p.memory.latency_s)),
                     "", &p.memory_fit});
    for (const MemoryEntry& e : p.memory_ops) {
        parts.push_back({"memory", fmt::format("{}{}", to_string(e.kind), e.backward ? " backward" : ""),
                         fmt::format("{} of the copy", format_percent(e.efficiency, 0)), "", &e.fit});
    }
    for (const ConvolutionEntry& e : p.convolution) {
        parts.push_back({"convolution", std::string(to_string(e.precision)),
                         fmt::format("{:.2f}, {:.2f}, {:.2f} of the implicit product's time", e.curve.forward,
                                     e.curve.input_grad, e.curve.weight_grad),
                         "", &e.fit});
    }
    for (const HostEntry& e : p.host)
        parts.push_back(
            {"host", e.mode, format_duration(e.seconds_per_dispatch) + " an operation", "", &e.fit});
    for (const CollectiveEntry& e : p.collectives) {
        const AlphaBeta& last = e.curve.lines.back();
        parts.push_back({"collective",
                         fmt::format("{} of {}{}", to_string(e.kind), e.group_size,
                                     e.nodes > 1 ? fmt::format(" on {} nodes", e.nodes) : ""),
                         fmt::format("{}, from {}", format_rate(last.rate, "B/s"),
                                     format_duration(e.curve.lines.front().alpha_s)),
                         byte_range(e.bytes), &e.fit});
    }
    return parts;
}

// What a simulation may ask for and the profile cannot say: taken from something near it, and flagged.
std::vector<std::string> absent_parts(const HardwareProfile& p) {
    std::vector<std::string> absent;
    const auto has = [](const auto& entries, const auto& matches) {
        return std::any_of(entries.begin(), entries.end(), matches);
    };
    for (const Precision precision : {Precision::Fp32, Precision::Tf32, Precision::Fp8, Precision::Nvfp4}) {
        if (!has(p.gemm, [&](const GemmEntry& e) { return e.precision == precision; }))
            absent.push_back(fmt::format("product {}", to_string(precision)));
    }
    for (const AttentionKernel kernel : {AttentionKernel::Flash1, AttentionKernel::Flash2,
                                         AttentionKernel::Flash3, AttentionKernel::CuDnn}) {
        for (const bool backward : {false, true}) {
            if (!has(p.attention,
                     [&](const AttentionEntry& e) { return e.kernel == kernel && e.backward == backward; }))
                absent.push_back(
                    fmt::format("attention {} {}", to_string(kernel), backward ? "backward" : "forward"));
        }
    }
    for (const MemoryOpKind kind : {MemoryOpKind::Embedding, MemoryOpKind::Permute, MemoryOpKind::Router,
                                    MemoryOpKind::Pool, MemoryOpKind::Rope}) {
        if (!has(p.memory_ops, [&](const MemoryEntry& e) { return e.kind == kind; }))
            absent.push_back(fmt::format("memory {}", to_string(kind)));
    }
    for (const CollectiveKind kind :
         {CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
          CollectiveKind::AllToAll, CollectiveKind::SendRecv}) {
        if (!has(p.collectives, [&](const CollectiveEntry& e) { return e.kind == kind; }))
            absent.push_back(fmt::format("collective {}", to_string(kind)));
    }
    return absent;
}

bool scaled(const Part& part) {
    return !part.fit->scaled_from.empty();
}

Json range_or_null(const Part& part) {
    return part.range.empty() ? Json(nullptr) : Json(part.range);
}

Json show_json(const HardwareProfile& profile, const std::vector<Part>& parts) {
    Json json = document("profile-summary");
    json["name"] = profile.name;
    json["description"] = profile.description;
    json["parts"] = Json::array();
    for (const Part& part : parts) {
        const FitRecord& fit = *part.fit;
        const bool held_out = fit.held_out > 0;
        json["parts"].push_back({{"part", part.part},
                                 {"name", part.name},
                                 {"figures", part.figures},
                                 {"range", range_or_null(part)},
                                 {"points", fit.points},
                                 {"held_out_points", fit.held_out},
                                 {"held_out_median", held_out ? Json(fit.median) : Json(nullptr)},
                                 {"held_out_p90", held_out ? Json(fit.p90) : Json(nullptr)},
                                 {"sigma", fit.sigma},
                                 {"scaled_from", scaled(part) ? Json(fit.scaled_from) : Json(nullptr)},
                                 {"source", fit.source}});
    }
    json["absent"] = absent_parts(profile);
    json["profile"] = encode_profile(profile);
    return json;
}

void show_text(const HardwareProfile& profile, const std::vector<Part>& parts, Console& console) {
    console.heading(fmt::format("{}: {}", profile.name, profile.description));
    TextTable table({"Part", "", "Figures", "Measured range", "Error % median / p90", "Sigma %", "Points",
                     "Scaled from"});
    for (const std::size_t column : {4U, 5U, 6U})
        table.align(column, Align::Right);
    std::vector<std::string> sources;
    std::size_t measured = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const Part& part = parts[i];
        const FitRecord& fit = *part.fit;
        const bool same = i > 0 && parts[i - 1].part == part.part;
        measured += scaled(part) ? 0 : 1;
        if (std::find(sources.begin(), sources.end(), fit.source) == sources.end())
            sources.push_back(fit.source);
        table.add_row(
            {same ? std::string() : part.part, part.name, part.figures, part.range,
             fit.held_out > 0 ? fmt::format("{:.1f} / {:.1f}", 100 * fit.median, 100 * fit.p90) : "-",
             fmt::format("{:.1f}", 100 * fit.sigma), fit.points > 0 ? format_count(fit.points) : "-",
             TableCell(fit.scaled_from, TextStyle::Yellow)});
    }
    console.out_table(table);
    console.out(fmt::format("\n{} of {} parts were measured on this device.\n", measured, parts.size()));
    const std::vector<std::string> absent = absent_parts(profile);
    if (!absent.empty()) {
        std::string list;
        for (const std::string& one : absent)
            list += (list.empty() ? "" : ", ") + one;
        console.out("Not in the profile, taken from the nearest part that is: " + list + ".\n");
    }
    console.out("\nSources\n");
    for (const std::string& source : sources)
        console.out("  " + source + "\n");
}

// A shipped profile or a document; else the profile that a device's simulations use.
Result<HardwareProfile> find_profile(const std::string& name) {
    auto profile = load_profile(name);
    if (profile) return profile;
    const auto device = load_device(name);
    return device ? profile_for(*device) : profile;
}

int show_profile(const ProfileOptions& options, Console& console) {
    const std::string& name = options.files.front();
    const Result<HardwareProfile> profile = find_profile(name);
    if (!profile) return console.fail(profile.errors());
    // A document of a measurement has its samples beside the curves.
    ProfileDocument document;
    if (auto whole = load_profile_document(name)) document = std::move(*whole);
    if (!options.svg.empty()) {
        const Status written = console.write(
            options.svg, document.samples.empty() ? profile_svg(*profile) : samples_svg(document));
        if (!written) return console.fail(written.errors());
        if (options.svg == "-") return 0;
    }
    const std::vector<Part> parts = parts_of(*profile);
    if (console.json) {
        Json json = show_json(*profile, parts);
        if (!document.samples.empty()) json["samples"] = samples_json(document);
        console.out_json(json);
    } else {
        show_text(*profile, parts, console);
        if (!document.samples.empty()) {
            console.out("\n");
            show_measured(document, console);
        }
    }
    return 0;
}

int measure_profile(const ProfileOptions& options, Console& console) {
    if (options.flags.output.empty())
        return console.fail({{ErrorCode::Usage, "no file for the profile", "--output",
                              "trainwright profile -o my.profile.json, or trainwright profile show NAME"}});
    if (options.flags.output == "-")
        return console.fail({{ErrorCode::Usage, "cannot go to stdout: it is written while it is measured",
                              "--output", "trainwright profile -o my.profile.json"}});
    if (const Errors errors = check_benchmarks(only_names(options.flags)); !errors.empty())
        return console.fail(errors);
    ProfileFlags flags = options.flags;
    flags.progress = console.err_is_terminal();
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    // Twice as many ranks as cores where those are few: what more ranks than cores do is measured too.
    const int ranks = flags.backend != "cpu"                 ? 1
                      : cores <= kMostRanks / 2 && cores > 1 ? 2 * cores
                                                             : std::min(cores, kMostRanks);
    const auto began = std::filesystem::file_time_type::clock::now();
    const auto ended =
        start_ranks(ranks, profile_words(flags), {.binary = "trainwright-profile", .end_when_asked = true});
    if (!ended) return console.fail(ended.errors());
    // mpirun calls an interruption a failure: what was measured is written all the same.
    const auto written =
        std::filesystem::exists(flags.output) ? std::filesystem::last_write_time(flags.output) : began;
    const bool interrupted = ended->exit_code != 0 && written > began;
    if (ended->exit_code != 0 && !interrupted) return ended->exit_code;
    const auto document = load_profile_document(flags.output);
    if (!document && interrupted) {
        console.note(
            fmt::format("interrupted before anything could be fitted: what was measured is in {}; the same "
                        "command goes on",
                        flags.output));
        return exit_code(ErrorCode::Interrupted);
    }
    if (!document) return console.fail(document.errors());
    if (console.json) {
        console.out_json(encode_profile_document(*document));
    } else {
        show_measured(*document, console);
    }
    if (!interrupted) return 0;
    console.note(
        fmt::format("interrupted: what was measured is in {}; the same command goes on", flags.output));
    return exit_code(ErrorCode::Interrupted);
}

// Options that one action takes and others do not.
Errors of_another_action(const Command& command, const ProfileOptions& options) {
    constexpr std::array<std::string_view, 7> kMeasuring = {
        "--budget", "--backend", "--threads", "--only", "--points", "--fresh", "--process-time"};
    constexpr std::array<std::string_view, 2> kImporting = {"--device", "--name"};
    const bool measures = options.action.empty(), imports = options.action == "import";
    const bool differs = options.action == "show" && options.files.size() == 2;
    const bool shows = options.action == "show" && !differs;
    const std::string why = measures  ? "where a profile is measured"
                            : imports ? "with import"
                            : differs ? "where two profiles are compared"
                                      : "where one profile is shown";
    std::vector<std::string_view> names;
    if (!measures) names.insert(names.end(), kMeasuring.begin(), kMeasuring.end());
    if (!imports) names.insert(names.end(), kImporting.begin(), kImporting.end());
    if (!differs) names.emplace_back("--tolerance");
    if (!shows) names.emplace_back("--svg");
    if (shows) names.emplace_back("--output");
    return command.unused(names, why);
}

int profile(const Command& command, const ProfileOptions& options, Console& console) {
    if (!options.action.empty() && options.action != "import" && options.action != "show")
        return console.fail({{ErrorCode::Usage, "'" + options.action + "' is not one of show, import",
                              "ACTION", "show, import, or nothing to measure this machine"}});
    if (const Errors unused = of_another_action(command, options); !unused.empty())
        return console.fail(unused);
    if (options.action.empty()) return measure_profile(options, console);
    if (options.action == "import")
        return run_profile_import(options.files, options.import, options.flags.output, console);
    if (options.files.size() == 2)
        return run_profile_diff(options.files, options.diff, options.flags.output, console);
    if (options.files.size() != 1)
        return console.fail({{ErrorCode::Usage, std::to_string(options.files.size()) + " profiles to show",
                              "FILE", "one, or two to compare: trainwright profile show h100"}});
    return show_profile(options, console);
}

}  // namespace

void define_profile(Command& command) {
    auto& options = command.keep<ProfileOptions>();
    command.positional("ACTION", options.action, "show or import; nothing measures this machine",
                       Need::Optional);
    command.positionals("FILE", options.files,
                        "show: a shipped profile, a device, or a profile document; two are compared; import: "
                        "logs of nccl-tests, "
                        "topologies, traces, files of other tools",
                        Need::Optional);
    command.output("--svg", options.svg, "show: draw the curves with their intervals; - is stdout");
    define_profile_flags(command, options.flags);
    define_import_flags(command, options.import);
    define_profile_diff_flags(command, options.diff);
    command.details(
        "A profile holds the curves that a device's kernels and links were fitted to. Error: of points that "
        "the fit never saw, "
        "|log(measured / predicted)|. Sigma: the relative standard deviation that predictions take from it. "
        "Scaled from: another "
        "device, precision or kernel whose curve stands in, by the ratio of the datasheets.");
    command.example("profile -o my.profile.json --budget 120s", "measure this machine");
    command.example("profile show h100", "what is known of the H100, and how well");
    command.example("profile show b200 --svg b200.svg", "the same as a picture");
    command.example("profile show before.json after.json", "what moved between two measurements, and why");
    command.example("profile import all_reduce.log topo.xml -o imported.profile.json",
                    "a profile and a cluster out of what others measured");
    command.run([&command, &options](Console& console) { return profile(command, options, console); });
}

}  // namespace tw::cli

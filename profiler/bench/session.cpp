#include "profiler/bench/session.hpp"

#include <algorithm>
#include <ctime>
#include <optional>

#include <fmt/format.h>

#include "base/nearest.hpp"
#include "profiler/bench/machine.hpp"
#include "profiler/fit/fit_measured.hpp"
#include "real_exec/comm/patience.hpp"

namespace tw {
namespace {

constexpr double kCheckpoint_s = 20;
constexpr double kOftenDisturbed = 0.05;

std::string now_utc() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

Result<std::vector<const Benchmark*>> chosen(const SessionOptions& options, const Team& team) {
    std::vector<const Benchmark*> list;
    if (Errors errors = check_benchmarks(options.only); !errors.empty()) return errors;
    for (const Benchmark& b : benchmarks()) {
        const bool wanted = options.only.empty() ||
                            std::find(options.only.begin(), options.only.end(), b.name) != options.only.end();
        const bool possible = b.kind == Benchmark::Kind::Solo ||
                              (b.kind == Benchmark::Kind::Team && team.size() > 1) ||
                              (b.kind == Benchmark::Kind::Crowd && team.everyone() > team.size());
        if (wanted && possible) list.push_back(&b);
    }
    return list;
}

}  // namespace

Errors check_benchmarks(const std::vector<std::string>& names) {
    Errors errors;
    std::vector<std::string> known;
    for (const Benchmark& b : benchmarks())
        known.emplace_back(b.name);
    for (const std::string& name : names) {
        if (find_benchmark(name) == nullptr)
            errors.push_back({ErrorCode::Usage, "unknown benchmark '" + name + "'", "--only",
                              unknown_name_hint(name, known)});
    }
    return errors;
}

bool same_machine(const MeasuredEnvironment& a, const MeasuredEnvironment& b) {
    return a.host == b.host && a.processor == b.processor && a.cores == b.cores && a.backend == b.backend &&
           a.ranks == b.ranks && a.threads == b.threads;
}

MeasuredEnvironment describe_environment(const Backend& backend, const Transport& transport, int threads) {
    MeasuredEnvironment e = describe_machine();
    e.date = now_utc();
    e.backend = std::string(backend.description());
    e.ranks = transport.size();
    e.threads = threads;
    e.multiprocessors = backend.multiprocessors();
    return e;
}

Status refit(ProfileDocument& document) {
    const bool cpu = document.environment && document.environment->backend.rfind("cpu", 0) == 0;
    auto fit =
        fit_measured(document.samples, cpu ? "cpu-local" : "gpu-local",
                     document.environment ? document.environment->processor + ", measured here" : "",
                     cpu || !document.environment ? 0 : std::max(1, document.environment->multiprocessors));
    if (!fit) return fit.errors();
    document.profile = std::move(fit->profile);
    if (document.environment) {
        document.environment->missing = std::move(fit->missing);
        if (cpu)
            document.cluster = measured_cluster(document.profile, document.samples, *document.environment);
    }
    return ok();
}

Result<ProfileDocument> run_session(const SessionOptions& options, Transport& transport, Backend& backend,
                                    ProfileDocument known, const OnProgress& progress,
                                    const OnCheckpoint& checkpoint) {
    // Ranks of several hosts have cores of their own.
    const int cores = options.cores > 0 ? options.cores : describe_machine().cores;
    auto team = Team::create(transport, cores);
    if (!team) return team.errors();
    if ((*team)->nodes() > 1) team = Team::create(transport, transport.size());
    if (!team) return team.errors();
    const auto list = chosen(options, **team);
    if (!list) return list.errors();
    const Clock clock = options.process_time ? process_clock() : wall_clock();
    const double begin = clock();
    Sampler sampler(clock, options.sampling, begin + options.budget_s, options.stop);
    ProfileDocument document = std::move(known);
    const double before_s = document.environment ? document.environment->seconds : 0;
    document.environment = describe_environment(backend, transport, options.threads);
    document.environment->ranks = transport.size();
    Pace pace(transport.rank() == 0 ? reference_product(backend, clock) : Pace::Probe{});
    sampler.watch(&pace);
    // A two-hundredth of the budget tells what the reference takes when nobody disturbs it.
    pace.settle(clock, options.budget_s / 200);
    BenchContext context{&backend, team->get(), &sampler, &document, options.threads};
    const bool leads = transport.rank() == 0;
    double shares = 0;
    for (const Benchmark* b : *list)
        shares += b->share;
    std::vector<std::string> empty;
    double saved = begin;
    bool interrupted = false;  // and what was measured is saved
    for (std::size_t i = 0; i < list->size(); ++i) {
        const Benchmark& b = *(*list)[i];
        if (!leads && b.kind == Benchmark::Kind::Solo) continue;
        if (b.kind == Benchmark::Kind::Team && !(*team)->active()) {
            (*team)->follow();
            continue;
        }
        if (leads) {
            const double left = std::max(0.0, begin + options.budget_s - clock());
            sampler.begin(clock() + left * b.share / shares, options.least_points);
            shares -= b.share;
            if (progress)
                progress(
                    {b.name, i, list->size(), clock() - begin, options.budget_s, document.samples.size()});
        }
        const std::size_t points = document.samples.size();
        {
            // The processes that only a crowd needs must not change how a team waits.
            std::optional<OwnCores> own_cores;
            if (b.kind == Benchmark::Kind::Team) own_cores.emplace();
            b.run(context);
        }
        if (b.kind == Benchmark::Kind::Team) (*team)->agree(Team::kEnd);
        if (!leads) continue;
        if (document.samples.size() == points && before_s == 0)
            empty.push_back(fmt::format("{}: {}", b.name,
                                        sampler.stopped() ? "interrupted"
                                        : sampler.over()  ? "the budget was over"
                                                          : "nothing to measure here"));
        document.environment->seconds = before_s + clock() - begin;
        document.environment->complete = false;
        if (!checkpoint || interrupted) continue;
        if (sampler.stopped()) {
            // Who interrupts may lose patience: at once, without a fit.
            interrupted = true;
            checkpoint(document);
            continue;
        }
        // Fits take a second or two: not after each of the short ones.
        const bool due = clock() - saved >= kCheckpoint_s;
        if (i + 1 == list->size() || !due || !refit(document)) continue;
        checkpoint(document);
        saved = clock();
    }
    // The end of a process polls without pause in the communication library: nobody ends before rank 0 does.
    (*team)->agree(Team::kEnd);
    if (!leads) return document;
    if (pace.watches()) {
        SampleSeries best;
        best.benchmark = "pace";
        best.variant = "undisturbed";
        best.values = {pace.best_s()};
        context.keep(std::move(best));
    }
    MeasuredEnvironment& e = *document.environment;
    const NoiseVerdict noise = judge_noise(document.samples);
    e.date = now_utc();
    e.noise = noise.noise;
    e.noise_verdict = noise.text;
    if (const double share = pace.share_disturbed(); share > kOftenDisturbed)
        e.noise_verdict += fmt::format(
            "; others slowed the processor in {:.0f} % of the time, whose samples were taken again",
            100 * share);
    if (options.process_time) e.noise_verdict += "; times are of the processor, not of the wall";
    e.harness_overhead = sampler.overhead();
    e.seconds = before_s + clock() - begin;
    const bool stopped = sampler.stopped();
    if (const Status fitted = refit(document); !fitted) {
        if (checkpoint) checkpoint(document);
        if (!stopped) return fitted.errors();
        return document;
    }
    e.complete = !stopped && empty.empty();
    e.missing.insert(e.missing.end(), empty.begin(), empty.end());
    if ((*team)->size() == 1) e.missing.emplace_back("communication: one rank alone measured");
    return document;
}

}  // namespace tw

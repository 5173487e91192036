#include "sim/report/gradient_sync_report.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "base/text_style.hpp"
#include "plan/gradient_sync/gradient_sync.hpp"
#include "plan/gradient_sync/schedule_staleness.hpp"
#include "plan/gradient_sync/sync_options_json.hpp"
#include "plan/parallel_plan.hpp"
#include "sim/cost/plan_cost.hpp"

namespace tw {
namespace {

// Of each rank's program: how often a step updates each stage.
void add_traffic(const PlanCost& costs, const Schedule& schedule, GradientSyncReport& report) {
    for (const RankProgram& program : schedule.programs) {
        SyncTraffic rank;
        for (const Instruction& i : program.instructions) {
            if (i.opcode != Opcode::OptimizerStep) continue;
            const SyncTraffic& stage = costs.stage(i.stage).sync;
            rank.wire_bytes += stage.wire_bytes / schedule.steps;
            rank.server_bytes += stage.server_bytes / schedule.steps;
            rank.server_s += stage.server_s / schedule.steps;
            rank.kernel_bytes += stage.kernel_bytes / schedule.steps;
            rank.kernel_s += stage.kernel_s / schedule.steps;
        }
        if (rank.wire_bytes < report.wire_bytes) continue;
        report.wire_bytes = rank.wire_bytes;
        report.server_bytes = rank.server_bytes;
        report.server_s = rank.server_s;
        report.kernel_bytes = rank.kernel_bytes;
        report.kernel_s = rank.kernel_s;
    }
    for (int r = 0; r < schedule.ranks(); ++r) {
        double memory = 0;
        for (const std::uint16_t s : schedule.stages_of_rank(r))
            memory += costs.stage(s).sync.memory_bytes;
        report.memory_bytes = std::max(report.memory_bytes, memory);
    }
}

std::vector<std::string> approximations(const GradientSyncReport& report, const ParallelPlan& plan) {
    std::vector<std::string> texts;
    if (report.server_bytes > 0 && plan.gradient_sync_options.servers > 0)
        texts.emplace_back(
            "what the servers' processors take is not known: the update is timed on the workers");
    if (!report.staleness.probability.empty()) {
        texts.emplace_back("staleness of workers whose steps take independent exponential times");
        texts.emplace_back("pushes that wait for each other at a port that is not full are not modelled");
        texts.emplace_back("the timeline is of a worker that never waits for a full port");
    }
    if (plan.gradient_sync == "local-sgd")
        texts.emplace_back("each step bears its share of an average's bytes and time");
    if (report.kernel_bytes > 0)
        texts.emplace_back("kernels by the bytes of the method's passes over memory, at the speed of a copy");
    return texts;
}

std::string staleness_text(const GradientSyncReport& report) {
    const StalenessDistribution& d = report.staleness;
    std::string text = fmt::format("mean {:.3g} updates of others missed, half at most {}, 95 % at most {}",
                                   d.mean(), d.quantile(0.5), d.quantile(0.95));
    return text + (report.bounded ? fmt::format(", never more than {}", d.max()) : ", without a bound");
}

}  // namespace

GradientSyncReport gradient_sync_report(const ParallelPlan& plan, const PlanCost& costs,
                                        const Schedule& schedule) {
    GradientSyncReport report;
    std::vector<int> stages = schedule_staleness(schedule);
    const bool stale = std::any_of(stages.begin(), stages.end(), [](int k) { return k > 0; });
    const bool sums = plan.gradient_sync == "all-reduce" || plan.gradient_sync == "zero";
    const auto method = find_gradient_sync(plan.gradient_sync);
    if (!method || (sums && !stale)) return report;
    const SyncInfo info = (*method)->info();
    report.method = info.name;
    report.title = info.title;
    report.source = info.source;
    report.semantics = to_string(plan.semantics);
    report.options = sync_options_text(plan.gradient_sync_options);
    report.exact = info.exact;
    report.replicas = plan.mesh.dp * plan.mesh.cp;
    if (stale) report.stage_staleness = std::move(stages);
    add_traffic(costs, schedule, report);
    if (info.semantics == Semantics::Asynchronous && report.replicas > 1) {
        const int bound = plan.gradient_sync_options.staleness;
        report.staleness = parameter_server_staleness(report.replicas, bound);
        report.bounded = bound >= 0;
    }
    report.approximate = approximations(report, plan);
    return report;
}

Json gradient_sync_to_json(const GradientSyncReport& report) {
    Json json{{"method", report.method},
              {"title", report.title},
              {"source", report.source},
              {"semantics", report.semantics},
              {"options", report.options},
              {"exact", report.exact},
              {"replicas", report.replicas},
              {"wire_bytes", report.wire_bytes},
              {"server_bytes", report.server_bytes},
              {"server_s", report.server_s},
              {"memory_bytes", report.memory_bytes},
              {"kernel_bytes", report.kernel_bytes},
              {"kernel_s", report.kernel_s}};
    if (const StalenessDistribution& d = report.staleness; !d.probability.empty()) {
        const auto shown = std::min<std::size_t>(d.probability.size(), kShownProbabilities);
        json["staleness"] = {
            {"mean", d.mean()},
            {"p50", d.quantile(0.5)},
            {"p95", d.quantile(0.95)},
            {"max", report.bounded ? Json(d.max()) : Json(nullptr)},
            {"probability",
             Json(std::vector<double>(d.probability.begin(),
                                      d.probability.begin() + static_cast<std::ptrdiff_t>(shown)))}};
    }
    if (!report.stage_staleness.empty()) json["stage_staleness"] = report.stage_staleness;
    json["approximate"] = report.approximate;
    return json;
}

std::string gradient_sync_lines(const GradientSyncReport& report, double step_time_s) {
    std::string out;
    const auto line = [&](std::string_view name, const std::string& text) {
        out += fmt::format("  {} {}\n", pad_right(name, 15), text);
    };
    const auto bytes = [](double amount) { return format_bytes(amount, ByteUnit::Decimal); };
    line("method", fmt::format("{}: {} ({})", report.method, report.title, report.source));
    line("semantics",
         report.semantics + (report.exact ? "" : ", another gradient than the sum of the replicas' own"));
    line("replicas", std::to_string(report.replicas));
    if (!report.options.empty()) line("options", report.options);
    if (report.wire_bytes > 0) line("sent", fmt::format("{} by a rank and step", bytes(report.wire_bytes)));
    if (report.server_bytes > 0) {
        const bool paced = report.server_s > 0.999 * step_time_s;
        line("server's port",
             fmt::format("{} a step, busy for {}{}", bytes(report.server_bytes),
                         format_duration(report.server_s), paced ? ": it paces the step" : ""));
    }
    if (report.memory_bytes > 0)
        line("memory", fmt::format("{} beside gradients and parameters", format_bytes(report.memory_bytes)));
    if (report.kernel_bytes > 0)
        line("kernels", fmt::format("{} read and written, {}", bytes(report.kernel_bytes),
                                    format_duration(report.kernel_s)));
    if (!report.staleness.probability.empty()) line("staleness", staleness_text(report));
    if (!report.stage_staleness.empty())
        line("stages", fmt::format("{} of its own updates missed by a gradient of each stage",
                                   fmt::join(report.stage_staleness, ", ")));
    for (const std::string& text : report.approximate)
        line("approximate", text);
    return out;
}

}  // namespace tw

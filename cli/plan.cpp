#include <algorithm>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "cli/commands.hpp"
#include "cli/common/flops_option.hpp"
#include "cli/common/interrupt.hpp"
#include "cli/common/load_plan.hpp"
#include "cli/common/search_progress.hpp"
#include "cli/plan_answer.hpp"
#include "models/load_model.hpp"
#include "plan/rules/attention_kernel.hpp"
#include "planner/rank_devices.hpp"
#include "planner/search_sentence.hpp"
#include "sim/report/flop_convention.hpp"

namespace tw::cli {
namespace {

struct PlanOptions {
    std::string model, cluster, fix, precision, objective = "time", optimizer = "adam", output;
    std::string framework = "trainwright", flops = "causal";
    std::int64_t global_batch = 0, seq_len = 0, seed = 0;
    int top = 5, jobs = 0;
    bool top_given = false, every = false;
    double time_limit_s = 0, headroom = kDefaultHeadroomPercent;
};

void add_errors(Errors& all, const Errors& some) {
    all.insert(all.end(), some.begin(), some.end());
}

// Money is counted where the cluster's node types have prices.
bool has_prices(const Cluster& cluster) {
    return std::any_of(cluster.groups.begin(), cluster.groups.end(),
                       [](const NodeGroup& group) { return group.type.usd_per_device_hour > 0; });
}

// Of the plans that no other beats, as many as are wanted: the fastest, the smallest, and between them at
// equal distances in their order.
void thin_front(std::vector<RankedPlan>& plans, std::size_t most) {
    if (plans.size() <= most) return;
    std::vector<RankedPlan> kept;
    for (std::size_t i = 0; i < most; ++i)
        kept.push_back(std::move(plans[most == 1 ? 0 : i * (plans.size() - 1) / (most - 1)]));
    plans = std::move(kept);
}

// What is planned for: the model on the cluster, and what is asked of the search.
struct Task {
    PlanDocument document;  // its plan is filled in last
    std::shared_ptr<const Environment> environment;
    PlanRequest request;
};

Result<Task> make_task(const PlanOptions& options, Console& console) {
    Errors errors;
    auto model = load_model(options.model);
    auto cluster = load_cluster(options.cluster);
    auto constraints = parse_fix(options.fix);
    auto objective = parse_objective(options.objective);
    auto target = parse_target_framework(options.framework);
    if (!model) add_errors(errors, model.errors());
    if (!cluster) {
        Errors refused = cluster.errors();
        for (Error& error : refused) {
            if (error.context.empty()) error.context = "--cluster";
        }
        add_errors(errors, refused);
    }
    if (!constraints) add_errors(errors, constraints.errors());
    if (!objective) add_errors(errors, objective.errors());
    if (!target) add_errors(errors, target.errors());
    if (objective && *objective == Objective::Money && cluster && !has_prices(*cluster)) {
        errors.push_back({ErrorCode::Usage, cluster->name + " has no prices: every plan would cost nothing",
                          "--objective",
                          "time, which ranks alike; or a cluster document whose node types have "
                          "usd_per_device_hour"});
    }
    if (!errors.empty()) return errors;
    for (const std::string& warning : model->warnings)
        console.warn(warning);

    auto document = read_model_document(options.model);
    if (!document) return document.errors();
    auto environment = make_environment(model->graph, *cluster, options.headroom / 100, executor_verdict());
    if (!environment) return environment.errors();
    // Profiles of layers were measured in fp32.
    const Precision own = model->graph.measured_on.empty() ? default_precision(*cluster) : Precision::Fp32;
    const std::string_view precision = options.precision.empty() ? to_string(own) : options.precision;

    Task task;
    task.document.model_name = model->graph.name.empty() ? options.model : model->graph.name;
    task.document.graph = std::move(model->graph);
    task.document.model_document = std::move(*document);
    task.document.cluster = std::move(*cluster);
    task.environment = std::move(*environment);
    task.request.global_batch = options.global_batch;
    task.request.seq_len = options.seq_len;
    task.request.constraints = std::move(*constraints);
    task.request.base.precision = precision_named(precision);
    task.request.base.optimizer = optimizer_named(options.optimizer);
    task.request.objective = *objective;
    task.request.target = *target;
    task.request.base.attention = fastest_attention(
        task.document.cluster, task.request.base.precision.compute, task.request.base.framework);
    plan_for(*target, task.document.cluster, task.request.base);
    task.request.top = options.top;
    task.request.every = options.every;
    task.request.jobs = options.jobs;
    task.request.time_limit_s = options.time_limit_s;
    return task;
}

Json request_to_json(const PlanOptions& options, const Task& task) {
    return Json{{"model", task.document.model_name},
                {"cluster", task.document.cluster.name},
                {"devices", task.document.cluster.devices()},
                {"global_batch", options.global_batch},
                {"seq_len", options.seq_len > 0 ? options.seq_len : task.document.graph.default_seq_len},
                {"fix", to_string(task.request.constraints)},
                {"precision", to_string(task.request.base.precision.compute)},
                {"optimizer", options.optimizer},
                {"objective", options.objective},
                {"framework", options.framework},
                {"flops", options.flops},
                {"headroom", options.headroom / 100},
                {"top", options.top},
                {"every", options.every},
                {"seed", options.seed}};
}

std::string task_sentence(const PlanOptions& options, const Task& task) {
    const LayerGraph& graph = task.document.graph;
    const std::int64_t seq_len = options.seq_len > 0 ? options.seq_len : graph.default_seq_len;
    const std::string batch = graph.counts_tokens
                                  ? fmt::format("{} sequences of {} tokens",
                                                format_count(options.global_batch), format_count(seq_len))
                                  : fmt::format("{} images", format_count(options.global_batch));
    return fmt::format("{} ({} parameters) on {}, {} a step, {}", task.document.model_name,
                       format_short_count(static_cast<double>(graph.parameters())),
                       task.document.cluster.name, batch, to_string(task.request.base.precision.compute));
}

int nothing_found(const PlanAnswer& answer, const Json& request, bool interrupted, Console& console) {
    if (console.json) {
        Json json = document("plans");
        json["request"] = request;
        json["search"] = search_to_json(answer.search);
        json["plans"] = Json::array();
        json["missing"] = answer.missing;
        console.out_json(json);
    }
    if (interrupted)
        return console.fail(
            {Error{ErrorCode::Interrupted, "interrupted before any plan was found", "plan", ""}});
    if (answer.search.interrupted) {
        return console.fail(
            {Error{ErrorCode::Failure, "no plan was found in " + format_duration(answer.search.wall_s),
                   "--time-limit", "more time, or more of the plan decided by --fix"}});
    }
    const bool none = answer.search.configurations == 0;
    Errors errors{
        Error{ErrorCode::Infeasible,
              none ? "no plan is legal" : "no plan is feasible: " + search_sentence(answer.search, false),
              "plan", ""}};
    for (const std::string& reason : answer.missing)
        errors.push_back({ErrorCode::Infeasible, reason, "missing", ""});
    return console.fail(errors);
}

int plan(const PlanOptions& options, Console& console) {
    const Result<FlopConvention> flops = parse_flop_convention(options.flops);
    if (!flops) return console.fail(flops.errors());
    Result<Task> task = make_task(options, console);
    if (!task) return console.fail(task.errors());
    if (const Status counted = check_flop_convention(*flops, task->document.graph); !counted)
        return console.fail(counted.errors());
    // Until the answer is written: timeout(1) sends its signal twice.
    const InterruptGuard interrupt;
    bool interrupted = false;
    Result<PlanAnswer> answer = [&] {
        SearchProgressLine line(console, options.time_limit_s);
        task->request.stop = &interrupt.flag();
        task->request.progress = [&line](const SearchProgress& progress) { line.show(progress); };
        auto found = find_plans(task->environment, task->request);
        interrupted = interrupt.flag();
        return found;
    }();
    if (!answer) return console.fail(answer.errors());
    const Json request = request_to_json(options, *task);
    if (answer->plans.empty()) return nothing_found(*answer, request, interrupted, console);
    const bool pareto = task->request.objective == Objective::Pareto;
    const std::size_t front = answer->plans.size();
    if (pareto && options.top_given) thin_front(answer->plans, static_cast<std::size_t>(options.top));

    const Simulator simulator(task->environment);
    auto found = simulate_found(simulator, *answer);
    if (!found) return console.fail(found.errors());
    for (FoundPlan& one : *found) {
        const Status stated = restate_flops(one.report, *task->environment, *flops);
        if (!stated) return console.fail(stated.errors());
    }
    // What cannot be kept is still shown: the search is not made again for it.
    Status kept = ok();
    if (!options.output.empty()) {
        const Json best = plan_document_to_json(with_plan(task->document, found->front().report.plan));
        kept = console.write(options.output, best.dump(2) + "\n");
    }
    const auto end = [&] {
        if (!kept) return console.fail(kept.errors());
        return interrupted ? exit_code(ErrorCode::Interrupted) : 0;
    };
    if (options.output == "-") return end();
    if (console.json) {
        Json json = document("plans");
        json["request"] = request;
        json["search"] = search_to_json(answer->search);
        json["plans"] = Json::array();
        for (const FoundPlan& one : *found)
            json["plans"].push_back(found_to_json(one));
        // Where a topology tells which devices are next to a network port: of the best plan.
        const RankDevices placed = rank_devices(found->front().report.plan, task->document.cluster);
        if (!placed.devices.empty()) json["rank_devices"] = placed.devices;
        console.out_json(json);
        return end();
    }
    console.out(task_sentence(options, *task) + "\n\n");
    const bool money = task->request.objective == Objective::Money || pareto;
    print_found(*found, options.headroom / 100, money && has_prices(task->document.cluster), console);
    if (*flops != FlopConvention::Causal)
        console.out(fmt::format("MFU by {}.\n", found->front().report.flop_convention));
    if (const std::string alike = alike_sentence(*found); !alike.empty()) console.out(alike + "\n");
    if (pareto && found->size() < front) {
        console.out(fmt::format("{} of the {} plans that no other beats in time and memory (--top).\n",
                                found->size(), front));
    }
    console.out("\n" + search_sentence(answer->search, true) + "\n");
    const std::string tight = tight_memory_sentence(found->front().report);
    if (options.headroom == 0 && !tight.empty()) console.out(tight + "\n");
    const Cluster& cluster = task->document.cluster;
    const std::string ports =
        rank_devices_sentence(rank_devices(found->front().report.plan, cluster), cluster.groups.front().type);
    if (!ports.empty()) console.out(ports + "\n");
    return end();
}

}  // namespace

void define_plan(Command& command) {
    auto& options = command.keep<PlanOptions>();
    command.text("--model", options.model, "MODEL",
                 "a preset (trainwright models), a Hugging Face config.json, a PipeDream graph.txt",
                 Need::Required);
    command.text("--cluster", options.cluster, "CLUSTER",
                 "a preset with a size in devices (trainwright clusters), h100:64, or a JSON document",
                 Need::Required);
    command.integer("--global-batch", options.global_batch, 1, std::int64_t{1} << 30, "N",
                    "sequences a step, over all devices", Need::Required);
    command.integer("--seq-len", options.seq_len, 1, std::int64_t{1} << 30, "S",
                    "tokens of a sequence; the model's own where not given");
    command.text(
        "--fix", options.fix, "KEY=VALUE,...",
        "what the plan must have: dp, tp, sp, pp, vpp, cp, ep, etp, mbs, zero, recompute, schedule; "
        "ranges (mbs=1..8), alternatives (schedule=1f1b|zb-h1), recompute=full:2, "
        "recompute=selective-ops, recompute=modules:mla_up_proj+layernorm and zero=2/8 as tables print "
        "them; or a plan's whole label, in quotes");
    command.word("--precision", options.precision, precision_names(),
                 "of matrix products; bf16 where not given, or what the devices have");
    command.word("--optimizer", options.optimizer, optimizer_names(), "adam where not given");
    command.word("--objective", options.objective, {"time", "memory", "money", "pareto"},
                 "what the best plan has least of; pareto: the plans that no other beats in all of them");
    command.word(
        "--for", options.framework, target_framework_names(),
        "plans that this framework can run, predicted as it runs them; trainwright export writes them "
        "for it. trainwright where not given");
    define_flops(command, options.flops);
    command.integer("--top", options.top, 1, 1000, "K",
                    "plans to answer with, each the best of its kind; 5 where not given, of pareto all");
    command.flag("--every", options.every,
                 "rank every plan: those too that differ from another only in vpp, blocks recomputed, mbs, "
                 "split of layers, sp, or dp against cp");
    command.integer("-j,--jobs", options.jobs, 0, 1024, "N",
                    "threads; 0, all cores, where not given. The answer is the same");
    command.number(
        "--headroom", options.headroom, 0, 90, "PERCENT",
        "memory of every device to leave free: predictions err by a few percent; 5 where not given");
    command.duration("--time-limit", options.time_limit_s,
                     "end then, with the best found so far; 0, none, where not given");
    command.integer("--seed", options.seed, 0, std::int64_t{1} << 62, "N",
                    "recorded with the answer; the search makes no random choice");
    command.output("-o,--output", options.output,
                   "keep the best plan, for simulate, explain and diff; - is stdout");
    command.details(
        "Searches tensor, pipeline, data, context and expert parallel degrees, virtual stages, microbatch, "
        "recompute, ZeRO "
        "stage, schedule and stage partition. ± is one standard deviation of the prediction's error; plans "
        "whose difference to the first is within its own are marked =. "
        "Ctrl-C ends the search with the best found so far. Exit code 3: no plan fits, and what is missing.");
    command.example("plan --model llama3-70b --cluster h100:64 --global-batch 1024 --seq-len 8192",
                    "the best plans, ranked");
    command.example(
        "plan --model config.json --cluster a100:16 --global-batch 256 --fix tp=4..8,schedule=1f1b -o "
        "plan.json",
        "with some of it decided; the best is kept");
    command.example(
        "plan --model gpt3-175b --cluster a100:1024 --global-batch 1536 --objective pareto --json",
        "the trade-off between time, memory and money");
    command.run([&command, &options](Console& console) {
        options.top_given = command.given("--top");
        return plan(options, console);
    });
}

}  // namespace tw::cli

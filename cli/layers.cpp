// `trainwright layers`: what every layer of a model computes, moves, sends and keeps on one rank.
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "cli/commands.hpp"
#include "cli/common/load_plan.hpp"
#include "cli/layers_answer.hpp"
#include "models/formats/document_kinds.hpp"
#include "models/load_model.hpp"
#include "plan/check_plan.hpp"
#include "plan/fix_spec.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/stage_partition.hpp"
#include "sim/cost/one_thread.hpp"

namespace tw::cli {
namespace {

constexpr std::array kKernels = {AttentionKernel::Unfused, AttentionKernel::Flash1, AttentionKernel::Flash2,
                                 AttentionKernel::Flash3, AttentionKernel::CuDnn};

struct LayersOptions {
    std::string model, fix, precision = "bf16", attention, blocks;
    std::int64_t seq_len = 0;
    bool dropout = false, autocast = false;
};

std::vector<std::string> kernel_names() {
    std::vector<std::string> names;
    for (const AttentionKernel kernel : kKernels)
        names.emplace_back(to_string(kernel));
    return names;
}

// The one value that a key has; `otherwise` where it is not given.
std::int64_t only(const IntChoice& choice, std::string_view key, std::int64_t otherwise, Errors& errors) {
    if (choice.any()) return otherwise;
    const IntChoice::Range& range = choice.ranges.front();
    if (choice.ranges.size() > 1 || range.low != range.high) {
        errors.push_back({ErrorCode::Usage, fmt::format("{} has several values: work is that of one", key),
                          "--fix", fmt::format("{}={}", key, range.low)});
    }
    return range.low;
}

// Degrees and microbatch of --fix; whatever does not change a layer's work is refused.
Result<ParallelPlan> shape_plan(const std::string& spec) {
    const auto fixed = parse_fix(spec);
    if (!fixed) return fixed.errors();
    Errors errors;
    ParallelPlan plan;
    const auto degree = [&](const IntChoice& choice, std::string_view key) {
        return static_cast<int>(only(choice, key, 1, errors));
    };
    plan.mesh.tp = degree(fixed->tp, "tp");
    plan.mesh.cp = degree(fixed->cp, "cp");
    plan.mesh.ep = degree(fixed->ep, "ep");
    plan.mesh.etp = degree(fixed->etp, "etp");
    plan.sequence_parallel = only(fixed->sp, "sp", 0, errors) == 1;
    plan.microbatch = only(fixed->mbs, "mbs", 1, errors);
    const bool label = spec.find('=') == std::string::npos;
    const auto useless = [&](bool given, std::string_view key) {
        if (!given || label) return;
        errors.push_back({ErrorCode::Usage, fmt::format("{} does not change the work of a layer", key),
                          "--fix", "tp, sp, cp, ep, etp and mbs do"});
    };
    useless(!fixed->dp.any(), "dp");
    useless(!fixed->pp.any(), "pp");
    useless(!fixed->vpp.any(), "vpp");
    useless(!fixed->zero.any(), "zero");
    useless(!fixed->recompute.any(), "recompute");
    useless(!fixed->schedule.any(), "schedule");
    if (!errors.empty()) return errors;
    return plan;
}

// As many H100 as the mesh has: no layer's work depends on them, and they run every precision and kernel.
// Of a kind that computes in the precision.
Result<Cluster> stand_in(int devices, Precision precision) {
    auto cluster = load_cluster(precision == Precision::Nvfp4 ? "b200:8" : "h100:8");
    if (!cluster) return cluster.errors();
    NodeGroup& group = cluster->groups.front();
    group.type.devices = std::gcd(devices, 8);
    group.nodes = devices / group.type.devices;
    cluster->name = fmt::format("{} devices", devices);
    return cluster;
}

Result<LayersAnswer> of_model(const LayersOptions& options, Console& console) {
    auto model = load_model(options.model);
    if (!model) return model.errors();
    for (const std::string& warning : model->warnings)
        console.warn(warning);
    auto plan = shape_plan(options.fix);
    if (!plan) return plan.errors();
    const LayerGraph& graph = model->graph;
    plan->precision = precision_named(options.precision);
    plan->precision.autocast = options.autocast;
    if (options.autocast) plan->precision.parameters = Precision::Fp32;
    plan->dropout = options.dropout;
    plan->seq_len = options.seq_len > 0 ? options.seq_len : graph.default_seq_len;
    for (const AttentionKernel kernel : kKernels) {
        if (to_string(kernel) == options.attention) plan->attention = kernel;
    }
    // As many replicas as the experts' mesh asks for.
    const std::int64_t dense = static_cast<std::int64_t>(plan->mesh.tp) * plan->mesh.cp;
    const std::int64_t expert = static_cast<std::int64_t>(plan->mesh.ep) * plan->mesh.etp;
    const std::int64_t replicas = expert / std::gcd(dense, expert);
    if (dense > kMaxClusterDevices / replicas)
        return Error{ErrorCode::Usage,
                     fmt::format("tp {} * cp {} and experts' degrees ask for more than {} devices",
                                 plan->mesh.tp, plan->mesh.cp, kMaxClusterDevices),
                     "--fix", ""};
    plan->mesh.dp = static_cast<int>(replicas);
    plan->global_batch = plan->microbatch * plan->mesh.dp;
    plan->stages = uniform_partition(graph, 1, RecomputeMode::None);
    auto cluster = stand_in(plan->mesh.devices(), plan->precision.compute);
    if (!cluster) return cluster.errors();
    if (const PlanCheck check = check_plan(graph, *cluster, *plan); !check.errors.empty())
        return check.errors;
    LayersAnswer answer;
    answer.model = graph.name.empty() ? options.model : graph.name;
    answer.shape = plan->work_shape(graph);
    answer.graph = std::move(model->graph);
    return answer;
}

Result<LayersAnswer> of_plan(const LayersOptions& options) {
    auto document = load_plan_document(options.model);
    if (!document) return document.errors();
    const PlanCheck check = check_plan(document->graph, document->cluster, document->plan);
    if (!check.errors.empty()) return in_document(check.errors, options.model);
    const ParallelPlan& plan = document->plan;
    LayersAnswer answer;
    answer.model = document->model_name;
    answer.shape = plan.work_shape(document->graph);
    answer.own_executor = framework_defaults(plan.framework).own_executor &&
                          runs_on_processors(document->cluster.groups.front().device);
    answer.graph = std::move(document->graph);
    return answer;
}

bool is_plan(const std::string& path) {
    if (path == "-") return true;
    const auto text = read_text_file(path);
    return text && documents::schema_of(*text) == "trainwright/plan";
}

// What a run held that some axis should have split.
Errors unsplit_blocks(const std::vector<BlockMatch>& matches, const std::string& path) {
    Errors errors;
    for (const BlockMatch& match : matches) {
        if (match.unsplit.empty()) continue;
        errors.push_back(
            {ErrorCode::Tolerance,
             fmt::format("{} blocks of {} are {} {} as if {} did not split it: planned {}",
                         format_count(match.block.count), format_bytes(match.block.bytes), match.layer,
                         match.tensor, match.unsplit, format_bytes(match.planned_bytes)),
             path, fmt::format("does the run set {}?", match.unsplit)});
    }
    return errors;
}

int layers(const LayersOptions& options, const Command& command, Console& console) {
    const bool plan = is_plan(options.model);
    static constexpr std::string_view kOfModels[] = {"--fix",       "--precision", "--seq-len",
                                                     "--attention", "--dropout",   "--autocast"};
    if (plan) {
        if (const Errors unused = command.unused(kOfModels, "beside a plan document, which has its own");
            !unused.empty())
            return console.fail(unused);
    }
    Result<LayersAnswer> answer = plan ? of_plan(options) : of_model(options, console);
    if (!answer) return console.fail(answer.errors());
    answer->sheets = layer_sheets(answer->graph, answer->shape, answer->own_executor);
    if (!options.blocks.empty()) {
        const auto text = read_text_file(options.blocks);
        if (!text) return console.fail(text.errors());
        const auto blocks = parse_blocks(*text, options.blocks);
        if (!blocks) return console.fail(blocks.errors());
        answer->blocks = match_blocks(answer->graph, answer->shape, *blocks, answer->own_executor);
    }
    if (console.json) {
        console.out_json(layers_to_json(*answer));
    } else {
        print_layers(*answer, console);
    }
    const Errors unsplit = unsplit_blocks(answer->blocks, options.blocks);
    return unsplit.empty() ? 0 : console.fail(unsplit);
}

}  // namespace

void define_layers(Command& command) {
    auto& options = command.keep<LayersOptions>();
    command.positional(
        "MODEL", options.model,
        "a preset (trainwright models), a Hugging Face config.json, a PipeDream graph.txt; or a "
        "trainwright/plan document, for the shapes of its plan; - is a plan on stdin");
    command.text("--fix", options.fix, "KEY=VALUE,...",
                 "what one rank runs: tp, sp, cp, ep, etp, mbs; 1 and off where not given");
    command.word("--precision", options.precision, precision_names(),
                 "of matrix products; bf16 where not given");
    command.integer("--seq-len", options.seq_len, 1, std::int64_t{1} << 30, "S",
                    "tokens of a sequence; the model's own where not given");
    command.word("--attention", options.attention, kernel_names(),
                 "kernel of the attention core; flash2 where not given");
    command.flag("--dropout", options.dropout, "dropout is applied and its masks are kept");
    command.flag("--autocast", options.autocast, "fp32 parameters, cast at use (torch.autocast)");
    command.text("--blocks", options.blocks, "FILE",
                 "sizes of memory blocks that a run held, one a line (335544320, or 320 MiB x 64): which "
                 "tensors they are, and which axis did not split them");
    command.details(
        "Each kind of layer once: its products in their three forms with their shapes, FLOP, bytes moved, "
        "collectives, parameters, and its activations by what recomputation drops of them; with the formulas "
        "and their sources. One microbatch on one rank. The exit code is 4 where --blocks finds an axis that "
        "did not split its tensors.");
    command.example("layers llama3-70b --fix tp=8,sp=on", "one rank of eight");
    command.example("layers deepseek-v3 --fix ep=8,mbs=2 --precision fp8 --json", "as JSON, every operation");
    command.example("layers plan.json --blocks blocks.txt", "a run's memory against its plan");
    command.run([&options, &command](Console& console) { return layers(options, command, console); });
}

}  // namespace tw::cli

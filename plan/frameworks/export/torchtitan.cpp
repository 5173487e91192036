// torchtitan's configuration up to v0.2.2: config/job_config.py, whose TOML sections are also flags
// (--section.option); main's configurations are Python functions.
#include <array>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/frameworks/export/export_plan.hpp"
#include "plan/plan_order.hpp"
#include "plan/schedule/pytorch_csv.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

// What torch.distributed.pipelining's get_schedule_class calls ours; `csv`: it runs the order of a file, and
// the class says how stages are placed.
struct ScheduleClass {
    std::string_view ours, theirs;
    bool csv = false;
};

constexpr std::array kClasses = {
    ScheduleClass{"1f1b", "1F1B"},
    ScheduleClass{"gpipe", "GPipe"},
    ScheduleClass{"interleaved", "Interleaved1F1B"},
    ScheduleClass{"looped-bfs", "LoopedBFS"},
    ScheduleClass{"zb-v", "ZBVZeroBubble"},
    ScheduleClass{"dualpipev", "DualPipeV"},
};

ScheduleClass class_of(const ParallelPlan& plan) {
    for (const ScheduleClass& one : kClasses) {
        if (one.ours != plan.schedule) continue;
        // Interleaved1F1B takes groups of as many microbatches as there are ranks.
        const int group = plan.microbatch_group;
        return {one.ours, one.theirs, group > 0 && group != plan.mesh.pp};
    }
    return {plan.schedule, plan.virtual_stages > 1 ? "Interleaved1F1B" : "1F1B", true};
}

// Sections with their options in order; values as TOML.
class Settings {
  public:
    void section(std::string name) { sections_.push_back({std::move(name), {}}); }
    void number(std::string_view option, std::int64_t value) { add(option, fmt::format("{}", value)); }
    void flag(std::string_view option, bool value) { add(option, value ? "true" : "false"); }
    void word(std::string_view option, std::string_view value) { add(option, fmt::format("\"{}\"", value)); }
    // A list of lists of words.
    void parts(std::string_view option, const std::vector<std::vector<std::string>>& lists) {
        std::string text = "[\n";
        for (const auto& list : lists)
            text += fmt::format("    [\"{}\"],\n", fmt::join(list, "\", \""));
        add(option, text + "]");
    }

    [[nodiscard]] std::string toml() const {
        std::string text;
        for (const Section& section : sections_) {
            text += fmt::format("\n[{}]\n", section.name);
            for (const auto& [option, value] : section.options)
                text += fmt::format("{} = {}\n", option, value);
        }
        return text;
    }
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> flags() const {
        std::vector<std::pair<std::string, std::string>> all;
        for (const Section& section : sections_) {
            for (const auto& [option, value] : section.options) {
                if (value.starts_with('[')) continue;  // lists of lists are TOML's alone
                const bool quoted = value.starts_with('"');
                all.emplace_back(fmt::format("--{}.{}", section.name, option),
                                 quoted ? value.substr(1, value.size() - 2) : value);
            }
        }
        return all;
    }

  private:
    struct Section {
        std::string name;
        std::vector<std::pair<std::string, std::string>> options;
    };
    void add(std::string_view option, std::string value) {
        sections_.back().options.emplace_back(option, std::move(value));
    }
    std::vector<Section> sections_;
};

// Names of the decoder's modules, by stage.
std::vector<std::vector<std::string>> modules(const ExportInput& input) {
    const std::vector<int> counts = blocks_per_stage(input.document.graph, input.plan().stages);
    std::vector<std::vector<std::string>> parts;
    int layer = 0;
    for (std::size_t s = 0; s < counts.size(); ++s) {
        auto& part = parts.emplace_back();
        if (s == 0) part.emplace_back("tok_embeddings");
        for (int i = 0; i < counts[s]; ++i)
            part.push_back(fmt::format("layers.{}", layer++));
        if (s + 1 == counts.size()) part.insert(part.end(), {"norm", "output"});
    }
    return parts;
}

// How torchtitan is told a split that its own rule makes: the embedding and the head count as so many blocks.
struct Weights {
    int first = 0, last = 0, layers_per_stage = 0;
};

std::optional<Weights> weights_of(const std::vector<int>& counts) {
    const int blocks = std::accumulate(counts.begin(), counts.end(), 0);
    const auto stages = static_cast<int>(counts.size());
    for (int first = 0; first < counts.front(); ++first) {
        for (int last = 0; last < counts.front(); ++last) {
            if (torchtitan_split(blocks, stages, first, last) != counts) continue;
            const int all = blocks + first + last, per_stage = (all + stages - 1) / stages;
            if ((all + per_stage - 1) / per_stage == stages) return Weights{first, last, per_stage};
        }
    }
    return std::nullopt;
}

void add_split(const ExportInput& input, Settings& out, PlanExport& made) {
    const std::vector<int> counts = blocks_per_stage(input.document.graph, input.plan().stages);
    if (const auto weights = weights_of(counts)) {
        out.number("pipeline_parallel_first_stage_less_layers", weights->first);
        out.number("pipeline_parallel_last_stage_less_layers", weights->last);
        out.number("pipeline_parallel_layers_per_stage", weights->layers_per_stage);
        return;
    }
    out.parts("module_fqns_per_model_part", modules(input));
    made.remarks.emplace_back(
        "the split is a list of modules, of models that name them as torchtitan's Llama does; the command "
        "line "
        "has no flag for it");
}

void add_parallelism(const ExportInput& input, Settings& out, PlanExport& made) {
    const ParallelPlan& plan = input.plan();
    const DeviceMesh& mesh = plan.mesh;
    out.section("parallelism");
    const int shards = plan.zero_stage == 0 ? 1 : shard_ranks(plan) / mesh.cp;
    out.number("data_parallel_replicate_degree", mesh.dp / shards);
    out.number("data_parallel_shard_degree", shards);
    if (plan.zero_stage > 0)
        out.word("fsdp_reshard_after_forward", plan.zero_stage == 3 ? "always" : "never");
    out.number("tensor_parallel_degree", mesh.tp);
    // Of compiled models.
    if (plan.overlap.tp && mesh.tp > 1) out.flag("enable_async_tensor_parallel", true);
    out.number("context_parallel_degree", mesh.cp);
    // Its default gathers all keys and values.
    if (mesh.cp > 1) out.word("context_parallel_rotate_method", "alltoall");
    out.number("expert_parallel_degree", mesh.ep);
    if (mesh.ep > 1) out.number("expert_tensor_parallel_degree", mesh.etp);
    out.number("pipeline_parallel_degree", mesh.pp);
    if (mesh.pp == 1) return;
    const ScheduleClass schedule = class_of(plan);
    out.word("pipeline_parallel_schedule", schedule.theirs);
    if (schedule.csv) {
        if (const auto order = plan_order(plan)) {
            const std::string name = input.stem + ".csv";
            out.word("pipeline_parallel_schedule_csv", name);
            made.beside.push_back({name, write_pytorch_csv(*order)});
        }
    }
    out.number("pipeline_parallel_microbatch_size", plan.microbatch);
    const bool recomputes = plan.stages.front().recompute != RecomputeMode::None;
    if (plan.schedule == "dualpipev" && mesh.ep > 1 && recomputes) {
        out.flag("pipeline_parallel_expert_parallel_overlap", false);
        made.remarks.emplace_back(
            "torchtitan's DualPipeV does not recompute while it runs an all-to-all of experts beside another "
            "microbatch; the prediction has both (recompute none lets it overlap)");
    }
    add_split(input, out, made);
}

}  // namespace

PlanExport export_torchtitan(const ExportInput& input) {
    const ParallelPlan& plan = input.plan();
    PlanExport made;
    Settings out;
    out.section("training");
    // Of a rank: what its pipeline splits into microbatches; without one, a forward at a time.
    out.number("local_batch_size", plan.mesh.pp > 1 ? plan.microbatch * plan.microbatches : plan.microbatch);
    out.number("global_batch_size", plan.global_batch);
    out.number("seq_len", plan.seq_len);
    const bool fp32 = plan.precision.compute == Precision::Fp32;
    out.word("mixed_precision_param", fp32 ? "float32" : "bfloat16");
    out.word("mixed_precision_reduce", "float32");  // it takes no other
    if (plan.precision.gradient_reduce != Precision::Fp32)
        made.remarks.emplace_back("torchtitan reduces gradients in fp32");
    add_parallelism(input, out, made);
    const StageSpec& stage = plan.stages.front();  // all alike: a rule
    out.section("activation_checkpoint");
    if (stage.recompute == RecomputeMode::SelectiveOps) {
        out.word("mode", "selective");
        out.word("selective_ac_option", "op");
    } else {
        out.word("mode", to_string(stage.recompute));
    }
    if (plan.overlap.tp && plan.mesh.tp > 1) {
        out.section("compile");
        out.flag("enable", true);
    }
    if (plan.precision.compute == Precision::Fp8) {
        made.remarks.emplace_back(
            "fp8: add the converter quantize.linear.float8 to [model], with the model's name and flavor");
    } else {
        made.remarks.emplace_back("the model's name and flavor, optimizer and data are the run's own");
    }
    if (!fp32 && plan.precision.parameters != Precision::Fp32) {
        made.remarks.emplace_back(
            "torchtitan holds fp32 parameters and computes on 16-bit ones that it gathers; the prediction "
            "has "
            "16-bit parameters and fp32 copies (plan --for torchtitan predicts as torchtitan runs)");
    }
    made.text =
        as_comments({"torchtitan up to v0.2.2: " + input.title()}) + as_comments(made.remarks) + out.toml();
    made.flags = out.flags();
    return made;
}

}  // namespace tw

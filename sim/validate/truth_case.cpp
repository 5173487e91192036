#include "sim/validate/truth_case.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "models/hardware/scale_profile.hpp"
#include "plan/check_plan.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

Error reason(std::string message) {
    return Error{ErrorCode::Unreadable, std::move(message), "", ""};
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

bool says(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

// Profiles are documents of 800 lines: decoded once a device.
Result<HardwareProfile> cached_profile(const Device& device) {
    static std::mutex mutex;
    static std::map<std::string, HardwareProfile> known;
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(device.name); it != known.end()) return it->second;
    auto profile = profile_for(device);
    if (!profile) return reason("GPU " + device.name + " has no profile");
    known.emplace(device.name, *profile);
    return std::move(*profile);
}

bool hopper_or_later(const Device& device) {
    return device.architecture == "hopper" || device.architecture == "blackwell";
}

// "... shard group 8 GPUs", "fsdp degree 128, replicated 4": ranks of one shard; 0 where the text has no
// number.
int shard_of(const std::string& text) {
    for (const std::string_view word : {"shard group ", "degree "}) {
        const auto at = text.find(word);
        if (at == std::string::npos) continue;
        const int n = std::atoi(text.c_str() + at + word.size());
        if (n > 0) return n;
    }
    return 0;
}

// The precision that a row's words name ("fp16 mixed", "FP8-CS"); the framework's where it has none. Alone,
// "amp" is fp16: apex knows no other, and it is torch.autocast's default on a GPU.
Result<Precision> precision_of(const TruthRow& row, const FrameworkDefaults& defaults, ValidationCase& c) {
    const std::string& p = row.precision;
    static constexpr std::array<std::pair<std::string_view, Precision>, 11> kWords = {{
        {"fp8", Precision::Fp8},
        {"float8", Precision::Fp8},
        {"bf16", Precision::Bf16},
        {"bfloat16", Precision::Bf16},
        {"fp16", Precision::Fp16},
        {"float16", Precision::Fp16},
        {"half", Precision::Fp16},
        {"tf32", Precision::Tf32},
        {"fp32", Precision::Fp32},
        {"float32", Precision::Fp32},
        {"amp", Precision::Fp16},
    }};
    if (says(p, "fp4") || says(p, "float4")) return reason("precision " + row.precision + " is not modelled");
    for (const auto& [word, precision] : kWords) {
        if (says(p, word)) return precision;
    }
    if (!p.empty()) {
        c.assumed.push_back(
            fmt::format("precision \"{}\": {}, the framework's default", p, to_string(defaults.precision)));
    }
    return defaults.precision;
}

// What a row says of recomputation ("full (uniform, 1)", "selective + SP"); nothing where it says nothing
// that is known: the framework's default.
std::optional<RecomputeMode> recompute_of(const std::string& text, const FrameworkDefaults& defaults) {
    const auto begins = [&](std::string_view word) { return text.rfind(word, 0) == 0; };
    if (begins("none") || begins("no ") || begins("disabled") || text == "no" || text == "off" ||
        text == "false")
        return RecomputeMode::None;
    if (says(text, "select"))
        return defaults.selective_by_op ? RecomputeMode::SelectiveOps : RecomputeMode::Selective;
    // Megatron's recompute-method is one of full granularity.
    if (begins("full") || begins("yes") || begins("enabled") || begins("uniform") || text == "on" ||
        text == "true")
        return RecomputeMode::Full;
    return std::nullopt;
}

// The registry's name of a schedule as papers and logs write it; "" where it is none that is known.
std::string schedule_named(const std::string& text) {
    if (text.empty() || text == "none" || says(text, "1f1b")) return "1f1b";
    std::string name = text;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c == ' ' || c == '_'; }, '-');
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kNames = {{
        {"zb-2p", "zb-2p"},
        {"zb-1p", "zb-1p"},
        {"zb-h1", "zb-h1"},
        {"zbh1", "zb-h1"},
        {"zb-h2", "zb-h2"},
        {"zb-v", "zb-v"},
        {"zbv", "zb-v"},
        {"dualpipe", "dualpipev"},
        {"gpipe", "gpipe"},
        {"afab", "gpipe"},
        {"2bw", "pipedream-2bw"},
        {"pipedream", "pipedream"},
        {"breadth-first", "looped-bfs"},
    }};
    for (const auto& [said, known] : kNames) {
        if (says(name, said)) return std::string(known);
    }
    const auto exact = find_schedule(name);
    return exact ? (*exact)->info().name : "";
}

Status set_schedule(const TruthRow& row, const LayerGraph& graph, ParallelPlan& plan) {
    const std::string& s = row.schedule;
    const int pp = plan.mesh.pp;
    int vpp = row.vpp.value_or(1);
    const bool interleaved =
        s == "1f1b-i" || s == "interleaved 1f1b" || s == "1f1b interleaved" || s == "interleaved";
    plan.schedule = interleaved || pp == 1 ? "1f1b" : schedule_named(s);
    if (plan.schedule.empty()) return reason("schedule " + row.schedule + " is not known");
    if (const int fixed = (*find_schedule(plan.schedule))->info().fixed_virtual_stages; fixed > 0)
        vpp = fixed;
    const auto blocks = static_cast<int>(graph.blocks);
    // Embedding and head count as a layer each where only that makes the stages equal (Megatron's
    // account_for_embedding_in_pipeline_split and its sibling for the loss).
    const auto counts_ends = [&](int stages) { return blocks % stages != 0 && (blocks + 2) % stages == 0; };
    if (interleaved && !row.vpp && pp > 1) vpp = std::max(1, (blocks + (counts_ends(pp) ? 2 : 0)) / pp);
    if (pp == 1) vpp = 1;
    if (vpp > 1 && !(*find_schedule(plan.schedule))->info().virtual_stages &&
        (*find_schedule(plan.schedule))->info().fixed_virtual_stages == 0) {
        plan.schedule = "interleaved";
    }
    plan.virtual_stages = vpp;
    const int stages = pp * vpp;
    if (graph.blocks > 0 && stages > blocks + 2)
        return reason(fmt::format("{} stages for {} layers", stages, blocks));
    plan.stages = uniform_partition(graph, stages, plan.recompute);
    if (counts_ends(stages) && graph.size() == blocks + 2) {
        const int each = (blocks + 2) / stages;
        for (int i = 0; i < stages; ++i) {
            plan.stages[static_cast<std::size_t>(i)].first_layer = i * each;
            plan.stages[static_cast<std::size_t>(i)].last_layer = (i + 1) * each;
        }
    }
    for (StageSpec& stage : plan.stages)
        stage.recompute = plan.recompute;
    return ok();
}

Status set_mesh(const TruthRow& row, ParallelPlan& plan) {
    if (!row.tp) return reason("tp missing");
    if (!row.pp) return reason("pp missing");
    plan.mesh.tp = *row.tp;
    plan.mesh.pp = *row.pp;
    plan.mesh.cp = row.cp.value_or(1);
    plan.mesh.ep = row.ep.value_or(1);
    const int model = plan.mesh.tp * plan.mesh.pp * plan.mesh.cp;
    if (model < 1) return reason("a degree is 0");
    if (row.dp) {
        plan.mesh.dp = *row.dp;
    } else if (row.gpus && *row.gpus % model == 0) {
        plan.mesh.dp = *row.gpus / model;
    } else {
        return reason("dp missing");
    }
    if (plan.mesh.dp < 1) return reason("a degree is 0");
    if (row.gpus && *row.gpus != plan.mesh.devices()) {
        return reason(fmt::format("dp {} * tp {} * pp {} * cp {} are not the row's {} GPUs", plan.mesh.dp,
                                  plan.mesh.tp, plan.mesh.pp, plan.mesh.cp, *row.gpus));
    }
    if (!row.microbatch) return reason("microbatch missing");
    if (!row.global_batch) return reason("global batch missing");
    plan.microbatch = *row.microbatch;
    plan.global_batch = *row.global_batch;
    const std::int64_t pass = plan.microbatch * plan.mesh.dp;
    if (pass < 1 || plan.global_batch % pass != 0) {
        return reason(fmt::format("global batch {} is not a multiple of {} microbatches of {}",
                                  plan.global_batch, plan.mesh.dp, plan.microbatch));
    }
    plan.microbatches = plan.global_batch / pass;
    return ok();
}

// What the row says over the framework's defaults.
void apply_row(const TruthRow& row, const FrameworkDefaults& defaults, const Device& device,
               ValidationCase& c) {
    ParallelPlan& plan = c.plan;
    if (row.flash_attention) {
        plan.attention = !*row.flash_attention     ? AttentionKernel::Unfused
                         : hopper_or_later(device) ? defaults.flash_hopper
                                                   : defaults.flash;
    }
    // Functional tests of GPT set the unfused backend, but for those that resume from a checkpoint, those of
    // hierarchical context parallelism and gpt3_7b, which leave it to Transformer Engine
    // (tests/functional_tests/test_cases/gpt,
    // */model_config.yaml: no --attention-backend).
    const std::string& test = row.model.name;
    // With --deterministic-mode, and so in all whose names do not say nondeterministic, Transformer Engine
    // drops cuDNN's attention on Blackwell ("for determinism reasons",
    // attention/dot_product_attention/utils.py, get_attention_backend) and FlashAttention-2 is left;
    // hierarchical context parallelism asks for it.
    if (row.shape == TruthShape::Functional && test.rfind("gpt", 0) == 0 &&
        (says(test, "gpt3_7b") || says(test, "resume") || says(test, "a2a_p2p"))) {
        const bool fused = hopper_or_later(device) && !says(test, "a2a_p2p") &&
                           (device.architecture != "blackwell" || says(test, "nondeterministic"));
        plan.attention = fused ? defaults.flash_hopper : defaults.flash;
    }
    if (defaults.deepseek_per_node && device.architecture == "hopper" && plan.mesh.ep > 1 &&
        says(lower(row.model.name), "deepseek"))
        plan.expert_dispatch = WorkShape::ExpertDispatch::PerNode;
    // Those of hierarchical context parallelism set both dropouts to 0.
    if (row.shape == TruthShape::Functional && says(test, "a2a_p2p")) plan.dropout = false;
    if (row.dropout) plan.dropout = *row.dropout;
    if (row.sequence_parallel) plan.sequence_parallel = *row.sequence_parallel && plan.mesh.tp > 1;
    if (row.zero_stage) plan.zero_stage = *row.zero_stage;
    const bool none = row.sharding == "no" || row.sharding.rfind("none", 0) == 0 ||
                      row.sharding.rfind("no ", 0) == 0 || says(row.sharding, "ddp");
    const bool whole = says(row.sharding, "fsdp") || row.sharding.rfind("full", 0) == 0;
    if (!row.zero_stage && whole && !none) plan.zero_stage = 3;  // Megatron-Core's custom FSDP
    if (!row.sharding.empty() && !none && !whole && !says(row.sharding, "zero") &&
        !says(row.sharding, "distributed optimizer"))
        c.assumed.push_back(fmt::format("fsdp \"{}\": ZeRO {}, {}", row.sharding, plan.zero_stage,
                                        row.zero_stage ? "as the row says" : "the framework's default"));
    const int shard = shard_of(row.sharding);
    const int replicas = plan.mesh.dp * plan.mesh.cp;
    plan.zero_shard =
        plan.zero_stage > 0 && shard > 1 && shard < replicas && replicas % shard == 0 ? shard : 0;
    if (const auto mode = recompute_of(row.recompute, defaults)) {
        plan.recompute = *mode;
    } else if (!row.recompute.empty()) {
        c.assumed.push_back(fmt::format("recompute \"{}\": {}, the framework's default", row.recompute,
                                        to_string(plan.recompute)));
    }
    if (row.async_tp) plan.overlap.tp = true;
    // DeepSpeed's overlap_comm is on under ZeRO-3.
    const bool overlaps = plan.zero_stage == 3 && framework_defaults(plan.framework).reduces_on_compute;
    if (row.overlap_grad_reduce || overlaps) plan.overlap.grad_reduce = true;
    if (row.overlap_param_gather) plan.overlap.param_gather = true;
}

// A framework that has no table of its own has that of its kind: sharded parameters are PyTorch's FSDP,
// layers or pipelines cut by hand are Megatron-Core's (or what it was before FlashAttention), the rest is
// plain PyTorch.
std::string_view table_of_kind(const TruthRow& row) {
    const bool sharded = row.zero_stage.value_or(0) == 3 || says(lower(row.sharding), "fsdp");
    if (sharded) return row.compile ? "torchtitan" : "torchtitan-eager";
    if (row.tp.value_or(1) > 1 || row.pp.value_or(1) > 1)
        return row.flash_attention.value_or(true) ? "megatron" : "megatron-2022";
    return row.compile ? "pytorch-compile" : "pytorch";
}

// A recipe of Megatron-Bridge whose passes are one CUDA graph: tokens are dropped, so that no size depends on
// them, there is no pipeline, and the device is of Blackwell.
bool graphed_recipe(const TruthRow& row) {
    const std::string gpu = lower(row.gpu);
    return drops_tokens(row.model) && row.pp.value_or(1) == 1 && (says(gpu, "b200") || says(gpu, "b300"));
}

// The table of the framework that the row names; "" where it names none that has one.
std::string_view named_table(const TruthRow& row) {
    const std::string f = lower(row.framework);
    const std::string source = lower(row.source);
    if (f == "megatron-functional")
        return says(row.model.name, "local_spec") ? "megatron-functional-local" : "megatron-functional";
    if (says(source, "transformers") && !row.compile)
        return says(row.precision, "bf16_params") ? "transformers-bf16" : "transformers";
    if (row.shape == TruthShape::SingleDevice || f.rfind("transformers", 0) == 0) {
        const bool pure = says(row.precision, "bf16_params");
        if (row.compile) return pure ? "pytorch-compile-bf16" : "pytorch-compile";
        return pure ? "pytorch-bf16" : "pytorch";
    }
    if (says(f, "bigscience") || (says(source, "bigscience") && says(f, "deepspeed")))
        return says(lower(row.gpu), "a100") ? "megatron-deepspeed-tr11" : "megatron-deepspeed-bigscience";
    if (says(f, "megatron-deepspeed")) return "megatron-deepspeed";
    if (says(f, "nemo") || says(f, "megatron-bridge")) return graphed_recipe(row) ? "nemo-graphs" : "nemo";
    if (says(f, "megatron-core r0.8")) return "megatron-2024";
    if (says(f, "transformerengine") || says(f, "megatron-core")) return "megatron";
    if (says(f, "megatron-lm fork")) return "megatron-2023";
    if (says(f, "megatron")) {
        return says(source, "2021")                  ? "megatron-2021"
               : row.flash_attention.value_or(false) ? "megatron"
                                                     : "megatron-2022";
    }
    if (says(f, "composer") || says(f, "foundry"))
        return says(row.sharding, "pure") ? "composer-fsdp-pure" : "composer-fsdp";
    if (says(f, "internevo")) return "internevo";
    if (says(f, "torchtitan")) return row.compile ? "torchtitan" : "torchtitan-eager";
    if (says(f, "maxtext")) return "maxtext";
    if (says(f, "deepspeed")) return "deepspeed";
    if (says(f, "pytorch")) return "pytorch";
    return "";
}

}  // namespace

Result<const FrameworkDefaults*> framework_of(const TruthRow& row) {
    const std::string_view named = named_table(row);
    return find_framework(named.empty() ? table_of_kind(row) : named);
}

Result<ValidationCase> make_case(const TruthRow& row, const FrameworkDefaults* own) {
    if (!row.errors.empty()) return row.errors;
    if (row.status == TruthStatus::NotComparable) {
        return reason(row.status_reason.empty() ? "marked not comparable" : row.status_reason);
    }
    ValidationCase c;
    if (Status mesh = set_mesh(row, c.plan); !mesh) {
        // Missing layers are the more telling reason.
        if (row.model.document.empty() && !row.model.layers && row.shape == TruthShape::Main)
            return reason("layers missing");
        return mesh.errors();
    }
    auto defaults = own != nullptr ? Result<const FrameworkDefaults*>(own) : framework_of(row);
    if (!defaults) return defaults.errors();
    if (own == nullptr && !row.framework.empty() && named_table(row).empty())
        c.assumed.push_back(fmt::format("framework \"{}\": taken for {}", row.framework, (*defaults)->name));
    auto graph = graph_of(row, **defaults);
    if (!graph) return graph.errors();
    c.graph = std::move(*graph);
    auto cluster = cluster_of(row, c.plan.mesh.devices());
    if (!cluster) return cluster.errors();
    c.cluster = std::move(*cluster);
    const Device& device = c.cluster.groups.front().device;
    auto profile = cached_profile(device);
    if (!profile) return profile.errors();
    c.profile = std::move(*profile);
    fit_collectives_to(c.cluster.groups.front().type, device, c.profile);

    c.plan.seq_len = row.model.seq_len.value_or(c.graph.default_seq_len);
    auto precision = precision_of(row, **defaults, c);
    if (!precision) return precision.errors();
    c.plan.precision.compute = *precision;
    apply_framework(**defaults, hopper_or_later(device), c.plan);
    apply_row(row, **defaults, device, c);
    if (Status schedule = set_schedule(row, c.graph, c.plan); !schedule) return schedule.errors();
    // The same recipe overlaps them (set_moe_a2a_overlap_overrides).
    if (c.plan.expert_dispatch == WorkShape::ExpertDispatch::PerNode && c.plan.schedule == "interleaved")
        c.plan.schedule = "interleaved-overlap";
    const PlanCheck check = check_plan(c.graph, c.cluster, c.plan);
    if (!check.errors.empty()) return reason("the plan is not legal: " + check.errors.front().message);
    return c;
}

}  // namespace tw

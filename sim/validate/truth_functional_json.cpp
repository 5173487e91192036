// Results of Megatron-LM's functional tests: a test's name, the file of its golden values, and its flags.
#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "models/hardware/cluster.hpp"
#include "sim/validate/row_fields_json.hpp"
#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_shapes_json.hpp"

namespace tw {
namespace {

// Flags that change no work of a step, or that the test's name decides (functional_variant).
constexpr std::array<std::string_view, 7> kWithoutWork = {
    "step-batch-size-schedule", "eval-global-batch-size", "hierarchical-context-parallel-sizes",
    "group-query-attention",    "transformer-impl",       "max-position-embeddings",
    "use-mcore-models"};

// "golden_values_dev_dgx_h100.json": what tells this run of the test from others.
std::string run_of_golden(const std::string& golden) {
    const std::string stem = golden.substr(0, golden.rfind(".json"));
    const auto last = stem.rfind('_');
    const std::string word = last == std::string::npos ? "" : stem.substr(last + 1);
    // "golden_values_lts_dgxh100_coreweave": the device is no word of its own.
    const bool plain = known_device_in(word) == word;
    return plain ? word : begins(stem, "golden_values_") ? stem.substr(14) : stem;
}

// "..._2N8G": nodes and GPUs of each.
std::optional<int> gpus_said(const std::string& text) {
    const std::string low = lower(text);
    for (const std::string& token : tokens_of(low)) {
        const auto nodes = number_before(token, "n");
        const auto each = number_after(token, "n");
        if (nodes && each && token == fmt::format("{}n{}g", *nodes, *each) && *nodes < 1000 && *each < 1000)
            return *nodes * *each;
    }
    return std::nullopt;
}

bool flag(const JsonObject& a, std::string_view key) {
    return truth_of(a, key).value_or(false);
}

void read_model(const JsonObject& a, const std::string& test, TruthModel& model) {
    model.name = test;
    const std::string kind = test.substr(0, test.find("__"));
    model.family = kind == "bert" ? "bert" : kind == "gpt" || kind == "moe" ? "gpt-dense" : kind;
    // A name without a kind is that of a GPT.
    if (!says(test, "__")) model.family = begins(test, "bert") ? "bert" : "gpt-dense";
    model.layers = whole_of(a, "num-layers");
    model.hidden = whole_of(a, "hidden-size");
    model.heads = whole_of(a, "num-attention-heads");
    model.kv_heads = whole_of(a, "num-query-groups");
    model.ffn = whole_of(a, "ffn-hidden-size");
    model.seq_len = whole_of(a, "seq-length");
    model.experts = whole_of(a, "num-experts");
    model.gated = flag(a, "swiglu");
    model.untied = flag(a, "untie-embeddings-and-output-weights");
    model.without_bias = flag(a, "disable-bias-linear");
    model.rope =
        lower(words_of(a, "position-embedding-type")) == "rope" || flag(a, "use-rotary-position-embeddings");
    model.rms_norm = key_of(words_of(a, "normalization")) == "rmsnorm";
    if (model.experts.value_or(0) > 0) {
        model.experts_per_token = whole_of(a, "moe-router-topk").value_or(2);  // arguments.py, its default
        if (const auto width = whole_of(a, "moe-ffn-hidden-size")) model.ffn = width;
        model.family = "moe";
    } else if (kind == "moe") {
        model.family = "moe";  // refused: no widths
    }
}

// Stages of a pipeline rank: their number, or the layers of each.
std::optional<int> virtual_stages(const JsonObject& a, const TruthRow& row) {
    if (const auto stages = degree_of(a, "num-virtual-stages-per-pipeline-rank")) return stages;
    const std::int64_t each = whole_of(a, "num-layers-per-virtual-pipeline-stage").value_or(0);
    const std::int64_t pp = row.pp.value_or(0);
    if (each < 1 || pp < 1 || !row.model.layers) return std::nullopt;
    const std::int64_t stages = *row.model.layers / (pp * each);
    if (stages < 1 || stages * pp * each != *row.model.layers) {
        a.error("num-layers-per-virtual-pipeline-stage",
                fmt::format("{} layers are no whole stages of {} on {} ranks", *row.model.layers, each, pp));
    }
    return static_cast<int>(std::max<std::int64_t>(1, stages));
}

// The distributed optimizer, or one of the FSDPs: Megatron's own with its strategy, PyTorch's second.
int zero_stage(const JsonObject& a) {
    const bool own = flag(a, "use-custom-fsdp") || flag(a, "use-megatron-fsdp");
    if (flag(a, "use-torch-fsdp2")) return 3;
    if (!own) return flag(a, "use-distributed-optimizer") ? 1 : 0;
    const std::string strategy = lower(words_of(a, "data-parallel-sharding-strategy"));
    if (strategy == "optim") return 1;
    return strategy == "optim_grads" ? 2 : strategy == "no_shard" ? 0 : 3;
}

std::string precision_of(const JsonObject& a) {
    const bool bf16 = flag(a, "bf16");
    const bool fp16 = flag(a, "fp16");
    const bool fp8 = !words_of(a, "fp8-format").empty();
    if (!words_of(a, "fp4-format").empty()) return "nvfp4";
    return fp8 ? "fp8" : bf16 ? "bf16" : fp16 ? "fp16" : "fp32";
}

void read_devices(const JsonObject& a, const std::string& words, TruthRow& row) {
    row.tp = degree_of(a, "tensor-model-parallel-size");
    row.pp = degree_of(a, "pipeline-model-parallel-size");
    row.cp = degree_of(a, "context-parallel-size").value_or(1);
    row.ep = degree_of(a, "expert-model-parallel-size");
    const double devices = static_cast<double>(row.tp.value_or(1)) * row.pp.value_or(1) * *row.cp;
    if (devices > kMaxClusterDevices) a.error("args", "more devices than a cluster has");
    const int said = gpus_said(words).value_or(8);
    row.gpus = devices > kMaxClusterDevices ? kMaxClusterDevices : std::max(said, static_cast<int>(devices));
    row.gpus_per_node = 8;
}

// Recomputed blocks: "uniform" groups all of a stage, "block" the first ones.
void read_recompute(const JsonObject& a, TruthRow& row) {
    row.recompute = lower(words_of(a, "recompute-granularity"));
    if (row.recompute.empty()) row.recompute = "none";
    std::string modules;
    if (const Json* list = a.find("recompute-modules"); list != nullptr && list->is_array()) {
        for (const Json& name : *list)
            modules +=
                (modules.empty() ? "" : " ") + (name.is_string() ? name.get<std::string>() : name.dump());
    } else {
        modules = lower(words_of(a, "recompute-modules"));
    }
    if (row.recompute == "selective" && !modules.empty()) row.recompute += " (" + modules + ")";
    const int layers = degree_of(a, "recompute-num-layers").value_or(1);
    if (lower(words_of(a, "recompute-method")) == "block") row.recompute_layers = layers;
}

void list_unread(const JsonObject& a, TruthRow& row) {
    std::string unread;
    for (const std::string& pointer : a.unread_keys()) {
        const std::string key = pointer.substr(pointer.rfind('/') + 1);
        if (std::find(kWithoutWork.begin(), kWithoutWork.end(), key) == kWithoutWork.end())
            unread += (unread.empty() ? "" : ", ") + key;
    }
    if (!unread.empty()) row.assumed.push_back("args not read: " + unread);
}

}  // namespace

TruthRow functional_row(const JsonObject& object, Errors& errors) {
    TruthRow row;
    row.shape = TruthShape::Functional;
    const std::string test = words_of(object, "test");
    const std::string golden = words_of(object, "golden");
    const std::string run = run_of_golden(golden);
    row.gpu = known_device_in(run).empty() ? run : known_device_in(run);
    row.id = test + "@" + run;
    row.source = "Megatron-LM functional tests";
    row.framework = "megatron-functional";
    row.status = status_of(object);
    row.status_reason = words_of(object, "status_reason");
    row.step_time_s = number_of(object, "median_iter_s").value_or(0);
    row.memory_bytes = number_of(object, "max_mem_bytes").value_or(0);
    if (row.memory_bytes > 0) row.memory_kind = MemoryKind::Allocated;
    row.memory_of_last_stage = true;
    const Json* args = object.find("args");
    if (args == nullptr) {
        object.error("args", "no flags are stated");
        return row;
    }
    const JsonObject a(*args, object.pointer("args"), errors);
    read_model(a, test, row.model);
    row.microbatch = whole_of(a, "micro-batch-size");
    row.global_batch = whole_of(a, "global-batch-size");
    read_devices(a, test + " " + golden, row);
    row.vpp = virtual_stages(a, row);
    row.zero_stage = zero_stage(a);
    row.optimizer_instances = degree_of(a, "num-distributed-optimizer-instances");
    row.overlap_grad_reduce = flag(a, "overlap-grad-reduce");
    row.overlap_param_gather = flag(a, "overlap-param-gather");
    row.sequence_parallel = flag(a, "sequence-parallel");
    row.async_tp = flag(a, "tp-comm-overlap");
    row.precision = precision_of(a);
    read_recompute(a, row);
    if (a.has("hidden-dropout")) row.dropout = number_of(a, "hidden-dropout").value_or(0) > 0;
    list_unread(a, row);
    return row;
}

}  // namespace tw

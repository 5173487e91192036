#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "base/json.hpp"
#include "models/hardware/cluster.hpp"
#include "sim/validate/truth.hpp"

namespace tw {
namespace {

constexpr double kMost = 1e15;
constexpr double kMostWhole = 1e9;  // counts: two of them multiply within int64
constexpr double kGiB = 1073741824.0;

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

// Optional numbers: published tables write 96.0 for 96.
template <class T>
std::optional<T> whole(const JsonObject& object, std::string_view key) {
    if (!object.has(key)) return std::nullopt;
    const double value = object.number_or(key, 0, 0, kMostWhole);
    if (value != std::floor(value)) {
        object.error(key, "expected a whole number");
        return std::nullopt;
    }
    return static_cast<T>(value);
}

std::optional<bool> truth_value(const JsonObject& object, std::string_view key) {
    if (!object.has(key)) return std::nullopt;
    return object.boolean_or(key, false);
}

TruthStatus status_of(const JsonObject& object) {
    const std::string text = object.string_or("status", "ok");
    if (text == "ok") return TruthStatus::Ok;
    if (text == "out_of_memory") return TruthStatus::OutOfMemory;
    if (text != "not_comparable") object.error("status", "unknown status '" + text + "'");
    return TruthStatus::NotComparable;
}

// Bytes of "memory_gb". nvidia-smi prints MiB, so that what is read off it as GB is GiB; "GiB" says so
// itself; else 1e9 bytes.
void read_memory(const JsonObject& object, TruthRow& row) {
    const double value = object.number_or("memory_gb", 0, 0, kMost);
    const std::string kind = lower(object.string_or("memory_kind", ""));
    if (value <= 0) return;
    // Computed, or read off a figure of a computation: not a measurement.
    if (contains(kind, "analytic") || contains(kind, "digitised") || contains(kind, "summed over") ||
        contains(kind, "total over all")) {
        return;
    }
    const bool device = contains(kind, "nvidia-smi") || contains(kind, "gpu memory\"");
    row.memory_kind = device                            ? MemoryKind::Device
                      : contains(kind, "peak reserved") ? MemoryKind::Reserved
                                                        : MemoryKind::Allocated;
    row.memory_bytes = value * (device || contains(kind, "gib") ? kGiB : 1e9);
    // nvidia-smi shows the node it runs on; where nobody says that more nodes were read, that is the first
    // (bigscience experiments/tr3m-1B3.md: a layout that reads 13 GB runs out of memory on devices of 16).
    row.memory_of_first_node = contains(kind, "nvidia-smi") && !contains(kind, "max");
}

// Samples of an iteration, where the row states them by its microbatches alone.
std::optional<std::int64_t> batch_of_microbatches(const TruthRow& row) {
    if (!row.microbatch || !row.microbatches) return std::nullopt;
    const double model = double{1} * row.tp.value_or(1) * row.pp.value_or(1) * row.cp.value_or(1);
    const double dp = row.dp ? *row.dp : row.gpus && model > 0 ? std::floor(*row.gpus / model) : 0;
    const double batch = dp * static_cast<double>(*row.microbatch) * static_cast<double>(*row.microbatches);
    if (batch < 1 || batch > kMostWhole) return std::nullopt;
    return static_cast<std::int64_t>(batch);
}

// Seconds of an iteration: stated, or what the stated throughput comes to. 0 where the row says neither.
double measured_step(const JsonObject& object, const TruthRow& row) {
    const double stated = object.number_or("iteration_time_s", 0, 0, kMost);
    const double samples = object.number_or("samples_per_s", 0, 0, kMost);
    const double each = object.number_or("tokens_per_s_per_gpu", 0, 0, kMost);
    const double tokens = object.number_or("tokens_per_s", each * row.gpus.value_or(0), 0, kMost);
    if (stated > 0 || row.one_layer || !row.global_batch) return stated;
    const auto batch = static_cast<double>(*row.global_batch);
    if (samples > 0) return batch / samples;
    if (tokens > 0 && row.model.seq_len) return batch * static_cast<double>(*row.model.seq_len) / tokens;
    return 0;
}

TruthRow main_row(const JsonObject& object, Errors& errors, std::size_t index) {
    TruthRow row;
    row.id = object.string_or("id", "#" + std::to_string(index));
    row.source = object.string_or("source", "");
    row.status = status_of(object);
    const std::string unit = object.string_or("unit", "iteration");
    if (unit != "iteration" && unit != "layer")
        object.error("unit", "unknown unit '" + unit + "'", "iteration or layer");
    row.one_layer = unit == "layer";
    if (const Json* model = object.find("model")) {
        const JsonObject m(*model, object.pointer("model"), errors);
        row.model.name = m.string_or("name", "");
        row.model.family = m.string_or("family", "");
        row.model.layers = whole<std::int64_t>(m, "layers");
        row.model.hidden = whole<std::int64_t>(m, "hidden");
        row.model.heads = whole<std::int64_t>(m, "heads");
        row.model.kv_heads = whole<std::int64_t>(m, "kv_heads");
        row.model.ffn = whole<std::int64_t>(m, "ffn");
        row.model.vocab = whole<std::int64_t>(m, "vocab");
        row.model.seq_len = whole<std::int64_t>(m, "seq_len");
        row.model.experts = whole<std::int64_t>(m, "experts");
        row.model.experts_per_token = whole<std::int64_t>(m, "topk");
    }
    if (const Json* hardware = object.find("hardware")) {
        const JsonObject h(*hardware, object.pointer("hardware"), errors);
        row.gpu = h.string_or("gpu", "");
        row.gpu_mem_gb = h.number_or("gpu_mem_gb", 0, 0, 1e6);
        row.gpus_per_node = whole<int>(h, "gpus_per_node");
        if (row.gpus_per_node && *row.gpus_per_node < 1)
            h.error("gpus_per_node", "a node has at least 1 GPU");
        row.inter_node = h.string_or("inter_node", "");
    }
    row.precision = lower(object.string_or("precision", ""));
    row.framework = object.string_or("framework", "");
    row.schedule = lower(object.string_or("schedule", ""));
    row.recompute = lower(object.string_or("recompute", ""));
    row.sharding = lower(object.string_or("fsdp", ""));
    row.gpus = whole<int>(object, "gpus");
    row.dp = whole<int>(object, "dp");
    row.tp = whole<int>(object, "tp");
    row.pp = whole<int>(object, "pp");
    row.vpp = whole<int>(object, "vpp");
    row.cp = whole<int>(object, "cp");
    row.ep = whole<int>(object, "ep");
    row.zero_stage = whole<int>(object, "zero_stage");
    row.sequence_parallel = truth_value(object, "sequence_parallel");
    row.flash_attention = truth_value(object, "flash_attention");
    row.microbatch = whole<std::int64_t>(object, "micro_batch");
    row.microbatches = whole<std::int64_t>(object, "num_microbatches");
    row.global_batch = whole<std::int64_t>(object, "global_batch");
    if (!row.global_batch) row.global_batch = batch_of_microbatches(row);
    row.compile = object.boolean_or("compile", false);
    row.async_tp = object.boolean_or("async_tp", false);
    row.step_time_s = measured_step(object, row);
    read_memory(object, row);
    return row;
}

// "golden_values_dev_dgx_h100.json": the device is the last word.
std::string device_of_golden(const std::string& golden) {
    const auto end = golden.rfind(".json");
    const auto start = golden.rfind('_', end);
    return start == std::string::npos ? "" : golden.substr(start + 1, end - start - 1);
}

TruthRow functional_row(const JsonObject& object, Errors& errors) {
    TruthRow row;
    row.shape = TruthShape::Functional;
    const std::string test = object.string("test");
    const std::string golden = object.string_or("golden", "");
    row.gpu = device_of_golden(golden);
    row.id = test + "@" + row.gpu;
    row.source = "Megatron-LM functional tests";
    row.framework = "megatron-functional";
    row.status = status_of(object);
    row.status_reason = object.string_or("status_reason", "");
    row.step_time_s = object.number_or("median_iter_s", 0, 0, kMost);
    row.memory_bytes = object.number_or("max_mem_bytes", 0, 0, kMost);
    if (row.memory_bytes > 0) row.memory_kind = MemoryKind::Allocated;
    row.memory_of_last_stage = true;
    const Json* args = object.find("args");
    if (args == nullptr) return row;
    const JsonObject a(*args, object.pointer("args"), errors);
    const std::string name = lower(test);
    row.model.name = test;
    row.model.family = name.rfind("bert", 0) == 0 ? "bert" : "gpt-dense";
    row.model.layers = whole<std::int64_t>(a, "num-layers");
    row.model.hidden = whole<std::int64_t>(a, "hidden-size");
    row.model.heads = whole<std::int64_t>(a, "num-attention-heads");
    row.model.seq_len = whole<std::int64_t>(a, "seq-length");
    row.microbatch = whole<std::int64_t>(a, "micro-batch-size");
    row.global_batch = whole<std::int64_t>(a, "global-batch-size");
    row.tp = whole<int>(a, "tensor-model-parallel-size");
    row.pp = whole<int>(a, "pipeline-model-parallel-size");
    row.cp = whole<int>(a, "context-parallel-size").value_or(1);
    const int per_stage = whole<int>(a, "num-layers-per-virtual-pipeline-stage").value_or(0);
    if (per_stage > 0 && row.model.layers && row.pp && *row.pp > 0) {
        row.vpp = static_cast<int>(*row.model.layers / (std::int64_t{*row.pp} * per_stage));
    }
    const double devices = static_cast<double>(row.tp.value_or(1)) * row.pp.value_or(1) * *row.cp;
    if (devices > kMaxClusterDevices) object.error("args", "more devices than a cluster has");
    row.gpus = devices > kMaxClusterDevices ? kMaxClusterDevices : std::max(8, static_cast<int>(devices));
    row.gpus_per_node = 8;
    row.zero_stage = a.boolean_or("use-distributed-optimizer", false) ? 1 : 0;
    row.overlap_grad_reduce = a.boolean_or("overlap-grad-reduce", false);
    row.overlap_param_gather = a.boolean_or("overlap-param-gather", false);
    row.sequence_parallel = a.boolean_or("sequence-parallel", false);
    row.precision = a.boolean_or("bf16", false) ? "bf16" : a.boolean_or("fp16", false) ? "fp16" : "fp32";
    row.recompute = a.string_or("recompute-granularity", "none");
    if (a.boolean_or("tp-comm-overlap", false)) row.async_tp = true;
    return row;
}

TruthRow single_row(const JsonObject& object, Errors& errors, std::size_t index) {
    TruthRow row;
    row.shape = TruthShape::SingleDevice;
    row.gpu = "H200";
    const std::string hardware = lower(object.string_or("hardware", "1x h200"));
    for (const char* gpu : {"b200", "h100", "a100", "h200"}) {
        if (contains(hardware, gpu)) row.gpu = gpu;
    }
    row.gpus = row.dp = row.tp = row.pp = 1;
    const bool flat = object.has("model");
    row.model.name = flat ? object.string("model") : object.string("name");
    row.id = std::to_string(index) + "-" + row.model.name;
    row.source = object.string_or("framework", "PyTorch");
    row.framework = flat ? "pytorch" : "transformers";
    row.precision = object.string_or("precision", "bf16_autocast");
    row.recompute = object.string_or("recompute", "none");
    row.compile = object.string_or("mode", "eager") == "compile";
    row.microbatch = whole<std::int64_t>(object, "micro_batch");
    row.microbatches = whole<std::int64_t>(object, "accumulation").value_or(1);
    if (row.microbatch) row.global_batch = *row.microbatch * *row.microbatches;
    row.model.seq_len = whole<std::int64_t>(object, "seq_len");
    row.step_time_s = object.number_or("step_s", 0, 0, kMost);
    row.memory_bytes = object.number_or("max_allocated", 0, 0, kMost);
    if (row.memory_bytes > 0) row.memory_kind = MemoryKind::Allocated;
    if (const Json* config = object.find("config")) {
        Json model =
            *config;  // these rows train on a cross entropy over logits, whatever class the file names
        if (model.is_object() && model.value("architectures", Json()).is_null())
            model["architectures"] = Json::array({"ForMaskedLM"});
        row.model.document = model.dump();
        const JsonObject c(*config, object.pointer("config"), errors);
        double most = 0;  // what the families call it
        for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob", "resid_pdrop",
                                "attn_pdrop", "embd_pdrop", "dropout", "attention_dropout"}) {
            most = std::max(most, c.number_or(key, 0, 0, 1));
        }
        row.dropout = most > 0;
        return row;
    }
    if (!flat) return row;
    row.model.family = whole<int>(object, "llama").value_or(0) != 0 ? "llama-dense" : "gpt-dense";
    row.model.layers = whole<std::int64_t>(object, "layers");
    row.model.hidden = whole<std::int64_t>(object, "hidden");
    row.model.heads = whole<std::int64_t>(object, "heads");
    row.model.kv_heads = whole<std::int64_t>(object, "kv_heads");
    row.model.ffn = whole<std::int64_t>(object, "ffn");
    row.model.vocab = whole<std::int64_t>(object, "vocab");
    return row;
}

}  // namespace

Result<std::vector<TruthRow>> read_truth_text(std::string_view text, const std::string& path) {
    auto json = parse_json(text, path);
    if (!json) return json.errors();
    if (!json->is_array()) {
        return Error{ErrorCode::Unreadable, "expected an array of measured rows", path, ""};
    }
    const std::string file = std::filesystem::path(path).stem().string();
    std::vector<TruthRow> rows;
    bool any = json->empty();
    for (std::size_t i = 0; i < json->size(); ++i) {
        const Json& item = (*json)[i];
        const std::string pointer = path + "#/" + std::to_string(i);
        Errors errors;
        const JsonObject object(item, pointer, errors);
        TruthRow row;
        row.id = "#" + std::to_string(i);
        bool known = item.is_object();
        if (known && object.has("test") && object.has("args")) {
            row = functional_row(object, errors);
        } else if (known && object.has("step_s")) {
            row = single_row(object, errors, i);
        } else if (known && object.has("hardware") && (object.has("id") || object.has("model"))) {
            row = main_row(object, errors, i);
        } else {
            known = false;
            errors = {Error{ErrorCode::Unreadable, "no shape of measured row that is known", pointer,
                            "id and hardware; test and args; or step_s"}};
        }
        any |= known;
        row.file = file;
        row.errors = std::move(errors);
        rows.push_back(std::move(row));
    }
    if (!any) return rows.front().errors;
    return rows;
}

Result<std::vector<TruthRow>> read_truth(const std::string& path) {
    auto text = read_text_file(path);
    if (!text) return text.errors();
    return read_truth_text(*text, path);
}

}  // namespace tw

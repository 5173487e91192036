// Rows of the main schema.
#include <fmt/format.h>

#include "sim/validate/row_fields_json.hpp"
#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_shapes_json.hpp"

namespace tw {
namespace {

// Seconds of an iteration: stated, or what the stated throughput comes to. 0 where the row says neither.
double measured_step(const JsonObject& object, const TruthRow& row) {
    const double stated = number_of(object, "iteration_time_s").value_or(0);
    const double samples = number_of(object, "samples_per_s").value_or(0);
    const double each = number_of(object, "tokens_per_s_per_gpu").value_or(0);
    const double tokens = number_of(object, "tokens_per_s").value_or(each * row.gpus.value_or(0));
    if (stated > 0 || row.one_layer || !row.global_batch) return stated;
    const auto batch = static_cast<double>(*row.global_batch);
    if (samples > 0) return batch / samples;
    if (tokens > 0 && row.model.seq_len) return batch * static_cast<double>(*row.model.seq_len) / tokens;
    return 0;
}

void read_model(const JsonObject& m, TruthModel& model) {
    model.name = words_of(m, "name");
    model.family = words_of(m, "family");
    model.layers = whole_of(m, "layers");
    model.hidden = whole_of(m, "hidden");
    model.heads = whole_of(m, "heads");
    model.kv_heads = whole_of(m, "kv_heads");
    model.ffn = whole_of(m, "ffn");
    model.vocab = whole_of(m, "vocab");
    model.seq_len = whole_of(m, "seq_len");
    model.experts = whole_of(m, "experts");
    model.experts_per_token = whole_of(m, "topk");
}

void read_hardware(const JsonObject& h, TruthRow& row) {
    row.gpu = words_of(h, "gpu");
    row.gpu_mem_gb = number_of(h, "gpu_mem_gb", 1e6).value_or(0);
    row.gpus_per_node = degree_of(h, "gpus_per_node");
    if (row.gpus_per_node && *row.gpus_per_node < 1) h.error("gpus_per_node", "a node has at least 1 GPU");
    row.intra_node = words_of(h, "intra_node");
    row.inter_node = words_of(h, "inter_node");
}

void read_degrees(const JsonObject& object, TruthRow& row) {
    row.gpus = degree_of(object, "gpus");
    row.dp = degree_of(object, "dp");
    row.tp = degree_of(object, "tp");
    row.pp = degree_of(object, "pp");
    row.vpp = degree_of(object, "vpp");
    row.cp = degree_of(object, "cp");
    row.ep = degree_of(object, "ep");
    row.microbatch = whole_of(object, "micro_batch");
    row.microbatches = whole_of(object, "num_microbatches");
    row.global_batch = whole_of(object, "global_batch");
}

// "ZeRO-1" says the stage as 1 does.
std::optional<int> stage_of_zero(const JsonObject& object) {
    const std::string text = lower(words_of(object, "zero_stage"));
    for (const std::string_view word : {"zero", "stage"}) {
        if (const auto stage = number_after(text, word)) return stage;
    }
    return degree_of(object, "zero_stage");
}

}  // namespace

TruthRow main_row(const JsonObject& object, Errors& errors, std::size_t index) {
    TruthRow row;
    row.id = words_of(object, "id");
    if (row.id.empty()) row.id = fmt::format("#{}", index);
    row.source = words_of(object, "source");
    row.status = status_of(object);
    const std::string unit = lower(words_of(object, "unit"));
    if (!unit.empty() && unit != "iteration" && unit != "step" && unit != "layer")
        object.error("unit", "unknown unit '" + unit + "'", "iteration or layer");
    row.one_layer = unit == "layer";
    if (const Json* model = object.find("model"))
        read_model(JsonObject(*model, object.pointer("model"), errors), row.model);
    if (const Json* hardware = object.find("hardware"))
        read_hardware(JsonObject(*hardware, object.pointer("hardware"), errors), row);
    row.precision = lower(words_of(object, "precision"));
    if (truth_of(object, "float8").value_or(false) && !says_any(row.precision, {"fp8", "float8"})) {
        row.assumed.emplace_back("float8: fp8");
        row.precision = "fp8";
    }
    row.framework = words_of(object, "framework");
    row.schedule = lower(words_of(object, "schedule"));
    row.recompute = lower(words_of(object, "recompute"));
    row.sharding = lower(words_of(object, "fsdp"));
    row.zero_stage = stage_of_zero(object);
    row.sequence_parallel = truth_of(object, "sequence_parallel");
    row.flash_attention = truth_of(object, "flash_attention");
    row.compile = truth_of(object, "compile").value_or(false);
    row.async_tp = truth_of(object, "async_tp").value_or(false);
    read_degrees(object, row);
    complete_degrees(row);
    row.step_time_s = measured_step(object, row);
    read_memory(object, row);
    return row;
}

}  // namespace tw

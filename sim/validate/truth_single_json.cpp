// Runs of one device.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/validate/row_fields_json.hpp"
#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_shapes_json.hpp"

namespace tw {
namespace {

// "1x H200 141GB, torch 2.11.0": the device as its maker writes it. Rows of the set that this shape was made
// for were all measured on one.
void read_device(const JsonObject& object, Errors& errors, TruthRow& row) {
    std::string text;
    const Json* hardware = object.find("hardware");
    if (hardware != nullptr && hardware->is_object()) {
        text = words_of(JsonObject(*hardware, object.pointer("hardware"), errors), "gpu");
    } else {
        text = words_of(object, "hardware");
    }
    text = lower(text.substr(0, text.find(',')));
    if (text.empty()) {
        row.assumed.emplace_back("hardware: 1x h200");
        text = "h200";
    }
    const auto count = number_before(text, "x");
    if (count && begins(text, std::to_string(*count))) {
        if (*count != 1) object.error("hardware", "no run of one device");
        text.erase(0, text.find('x') + 1);
        text.erase(0, text.find_first_not_of(' '));
    }
    row.gpu = text;
    row.gpus = row.dp = row.tp = row.pp = 1;
}

// "bf16_autocast", "bf16_params", "fp32"; a precision alone is that of autocast over fp32 parameters.
void read_precision(const JsonObject& object, TruthRow& row) {
    row.precision = lower(words_of(object, "precision"));
    std::replace_if(
        row.precision.begin(), row.precision.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
    if (row.precision.empty()) {
        row.precision = "bf16_autocast";
        row.assumed.emplace_back("precision: bf16_autocast");
    } else if (!says_any(row.precision, {"autocast", "amp", "mixed", "32", "bf16_params"})) {
        row.assumed.push_back(fmt::format("precision \"{}\": autocast over fp32 parameters", row.precision));
    }
}

// torch.compile by any of its modes' names.
void read_mode(const JsonObject& object, TruthRow& row) {
    const std::string mode = lower(words_of(object, "mode"));
    row.compile = says_any(mode, {"compil", "inductor", "autotune", "reduce-overhead"});
    const bool eager = mode.empty() || begins(mode, "eager") || mode == "none";
    if (!row.compile && !eager) row.assumed.push_back(fmt::format("mode \"{}\": eager", mode));
    if (row.compile && says_any(mode, {"autotune", "reduce-overhead", "graph"}))
        row.assumed.push_back(fmt::format("mode \"{}\": compile", mode));
}

void read_attention(const JsonObject& object, TruthRow& row) {
    const std::string attention = lower(words_of(object, "attention"));
    if (says_any(attention, {"eager", "math", "unfused", "naive"})) {
        row.flash_attention = false;
    } else if (!attention.empty() && !says_any(attention, {"sdpa", "scaled_dot_product", "flash"})) {
        row.assumed.push_back(fmt::format("attention \"{}\": scaled_dot_product_attention", attention));
    }
}

// What these rows say and the prediction takes as it is: listed where it is not what is taken.
void list_unread(const JsonObject& object, TruthRow& row) {
    struct Taken {
        std::string_view key;
        std::array<std::string_view, 3> values;
    };
    static constexpr std::array<Taken, 3> kTaken = {{
        {"image", {"224", "224x224", ""}},
        {"layout", {"channels_last", "nhwc", ""}},
        {"optimizer", {"adamw", "fused_adamw", "adamw_fused"}},
    }};
    for (const Taken& taken : kTaken) {
        const std::string value = lower(words_of(object, taken.key));
        const auto& known = taken.values;
        if (value.empty() || std::find(known.begin(), known.end(), value) != known.end()) continue;
        row.assumed.push_back(fmt::format("{} \"{}\": {}", taken.key, value, known.front()));
    }
}

// A configuration of Hugging Face's; these rows train on a cross entropy over logits, whatever class it
// names.
void read_config(const Json& config, const std::string& pointer, Errors& errors, TruthRow& row) {
    Json model = config;
    if (model.is_object() && model.value("architectures", Json()).is_null())
        model["architectures"] = Json::array({"ForMaskedLM"});
    row.model.document = model.dump();
    const JsonObject c(config, pointer, errors);
    double most = 0;  // what the families call it
    for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob", "resid_pdrop",
                            "attn_pdrop", "embd_pdrop", "dropout", "attention_dropout"}) {
        most = std::max(most, c.number_or(key, 0, 0, 1));
    }
    row.dropout = most > 0;
}

void read_flat_model(const JsonObject& object, TruthModel& model) {
    model.family = truth_of(object, "llama").value_or(false) ? "llama-dense" : "gpt-dense";
    model.layers = whole_of(object, "layers");
    model.hidden = whole_of(object, "hidden");
    model.heads = whole_of(object, "heads");
    model.kv_heads = whole_of(object, "kv_heads");
    model.ffn = whole_of(object, "ffn");
    model.vocab = whole_of(object, "vocab");
}

}  // namespace

TruthRow single_row(const JsonObject& object, Errors& errors, std::size_t index) {
    TruthRow row;
    row.shape = TruthShape::SingleDevice;
    read_device(object, errors, row);
    row.status = status_of(object);
    row.status_reason = words_of(object, "status_reason");
    const bool flat = object.has("model");
    row.model.name = words_of(object, flat ? "model" : "name");
    row.id = words_of(object, "id");
    if (row.id.empty()) row.id = fmt::format("{}-{}", index, row.model.name);
    row.source = words_of(object, "framework");
    if (row.source.empty()) row.source = "PyTorch";
    row.framework = flat ? "pytorch" : "transformers";
    read_precision(object, row);
    row.recompute = lower(words_of(object, "recompute"));
    if (row.recompute.empty()) row.recompute = "none";
    read_mode(object, row);
    read_attention(object, row);
    list_unread(object, row);
    row.microbatch = whole_of(object, "micro_batch");
    row.microbatches = whole_of(object, "accumulation").value_or(1);
    if (row.microbatch) row.global_batch = *row.microbatch * *row.microbatches;
    row.model.seq_len = whole_of(object, "seq_len");
    row.step_time_s = number_of(object, "step_s").value_or(0);
    row.memory_bytes = number_of(object, "max_allocated").value_or(0);
    if (row.memory_bytes > 0) row.memory_kind = MemoryKind::Allocated;
    if (const Json* config = object.find("config")) {
        read_config(*config, object.pointer("config"), errors, row);
    } else if (flat) {
        read_flat_model(object, row.model);
    }
    return row;
}

}  // namespace tw

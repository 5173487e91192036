#include <algorithm>

#include "base/si_format.hpp"
#include "cli/commands.hpp"
#include "models/load_model.hpp"

namespace tw::cli {
namespace {

struct ModelsOptions {
    std::string pattern;
};

Json model_to_json(const LayerGraph& graph) {
    return Json{{"name", graph.name},
                {"family", graph.family},
                {"parameters", graph.parameters()},
                {"active_parameters", graph.active_parameters()},
                {"layers", graph.blocks},
                {"hidden", graph.hidden},
                {"heads", graph.heads},
                {"kv_heads", graph.kv_heads},
                {"experts", graph.experts},
                {"vocab", graph.vocab},
                {"seq_len", graph.counts_tokens ? Json(graph.default_seq_len) : Json(nullptr)},
                {"counts_tokens", graph.counts_tokens}};
}

// "" for a quantity that this kind of model has not.
std::string count_or_blank(std::int64_t count) {
    return count > 0 ? format_count(count) : "-";
}

int list_models(const ModelsOptions& options, Console& console) {
    TextTable table({"Model", "Family", "Parameters", "Active", "Layers", "Hidden", "Heads", "KV heads",
                     "Experts", "Vocabulary", "Sequence"});
    Json json = document("models");
    json["models"] = Json::array();
    for (const std::string& name : model_names()) {
        if (name.find(options.pattern) == std::string::npos) continue;
        const auto model = load_model(name);
        if (!model) return console.fail(model.errors());
        const LayerGraph& graph = model->graph;
        Json row = model_to_json(graph);
        row["name"] = name;
        json["models"].push_back(std::move(row));
        const auto parameters = graph.parameters(), active = graph.active_parameters();
        table.add_row({TableCell(name, TextStyle::Bold), graph.family,
                       format_short_count(static_cast<double>(parameters)),
                       active == parameters ? "-" : format_short_count(static_cast<double>(active)),
                       count_or_blank(graph.blocks), count_or_blank(graph.hidden),
                       count_or_blank(graph.heads), count_or_blank(graph.kv_heads),
                       count_or_blank(graph.experts), count_or_blank(graph.vocab),
                       graph.counts_tokens ? format_count(graph.default_seq_len) : "images"});
    }
    if (table.rows() == 0) {
        return console.fail({Error{ErrorCode::Usage, "no model's name contains '" + options.pattern + "'",
                                   "models", "trainwright models lists all"}});
    }
    table.align(10, Align::Right);
    if (console.json) {
        console.out_json(json);
    } else {
        console.out_table(table);
    }
    return 0;
}

}  // namespace

void define_models(Command& command) {
    auto& options = command.keep<ModelsOptions>();
    command.positional("PATTERN", options.pattern, "only models whose name contains this", Need::Optional);
    command.details(
        "Every name is one that --model takes. --model also takes the path of a Hugging Face config.json, of "
        "a PipeDream "
        "profile (graph.txt), or of a trainwright/model document. Active: parameters that one token uses, "
        "where experts are "
        "routed. Sequence: the default of --seq-len.");
    command.example("models", "all of them");
    command.example("models llama3 --json", "some of them, as JSON");
    command.run([&options](Console& console) { return list_models(options, console); });
}

}  // namespace tw::cli

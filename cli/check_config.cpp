#include "cli/check_config.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "cli/common/load_plan.hpp"
#include "models/load_model.hpp"
#include "plan/plan_json.hpp"
#include "plan/rules/keys.hpp"
#include "sim/report/report_text.hpp"

namespace tw::cli {
namespace {

// The configuration with a model and a cluster, its own, named ones, or such that suit it.
struct Case {
    ImportedConfig config;
    PlanDocument document;                        // its plan is filled in last
    bool own_model = false, own_cluster = false;  // no stand-ins
};

std::string shown_path(const std::string& path) {
    return path == "-" ? "<stdin>" : path;
}

void append(Errors& all, const Errors& some, const std::string& context = {}) {
    for (Error error : some) {
        if (error.context.empty()) error.context = context;
        all.push_back(std::move(error));
    }
}

// Devices of no known kind: those of an H100 node (where products are in nvfp4, of a B200's), as many as
// there should be.
Cluster stand_in_cluster(const ImportedConfig& config) {
    const bool narrow = config.stated.compute == Precision::Nvfp4;
    Cluster cluster = *load_cluster(narrow ? "b200:8" : "h100:8");
    NodeGroup& group = cluster.groups.front();
    const std::int64_t devices = stand_in_devices(config);
    std::int64_t node = std::min<std::int64_t>(devices, config.stated.devices_per_node.value_or(8));
    while (devices % node != 0)
        --node;
    group.type.devices = static_cast<int>(node);
    group.nodes = static_cast<int>(devices / node);
    cluster.name = fmt::format("{} devices", devices);
    return cluster;
}

void take_model(const std::string& wanted, Case& made, Errors& errors, std::vector<std::string>& warnings) {
    PlanDocument& document = made.document;
    const ImportedConfig& config = made.config;
    const std::string name = !wanted.empty() ? wanted : config.model_name;
    Result<LoadedModel> loaded = Error{};
    made.own_model = !wanted.empty() || !config.model.is_null() || !name.empty();
    if (!made.own_model || (wanted.empty() && !config.model.is_null())) {
        document.model_document = made.own_model ? config.model : stand_in_model(config);
        loaded = load_model_text(document.model_document.dump(), made.own_model ? name : "stand-in");
    } else {
        const auto source = read_model_document(name);
        if (!source) return append(errors, source.errors(), "--model");
        document.model_document = *source;
        loaded = load_model(name);
    }
    if (!loaded) return append(errors, loaded.errors(), "the model's sizes");
    if (made.own_model) warnings.insert(warnings.end(), loaded->warnings.begin(), loaded->warnings.end());
    document.graph = std::move(loaded->graph);
    document.model_name = wanted.empty() || document.graph.name.empty() ? name : document.graph.name;
}

void take_cluster(const std::string& wanted, Case& made, Errors& errors, std::vector<std::string>& warnings) {
    made.own_cluster = !wanted.empty();
    if (!made.own_cluster) {
        made.document.cluster = stand_in_cluster(made.config);
        return;
    }
    auto cluster = load_cluster(wanted);
    if (!cluster) return append(errors, cluster.errors(), "--cluster");
    const auto stated = made.config.stated.devices();
    if (stated && *stated != cluster->devices()) {
        warnings.push_back(fmt::format("the file starts {} devices, --cluster has {}: it is checked on these",
                                       *stated, cluster->devices()));
    }
    made.document.cluster = std::move(*cluster);
}

// What is not known, and the option that says it.
std::vector<std::string> missing(const Case& made) {
    std::vector<std::string> all;
    if (!made.own_model) {
        all.push_back(fmt::format("--model MODEL: layers, heads, experts and memory are not checked ({})",
                                  made.config.model_missing));
    }
    if (!made.own_cluster)
        all.push_back("--cluster CLUSTER: memory and time are not known" +
                      std::string(made.config.stated.devices() ? "" : ", nor how many devices there are"));
    return all;
}

Json to_json(const Case& made, const ConfigReader& reader, std::string_view framework, const Errors& errors,
             const std::vector<std::string>& warnings, const SimulationReport* report) {
    Json json = document("check");
    json["document"] = reader.document;
    json["plan"] = stated_summary(made.config);
    json["framework"] = framework;
    json["settings"] = Json::array();
    for (const StatedSetting& setting : made.config.settings)
        json["settings"].push_back(
            {{"setting", setting.what}, {"value", setting.value}, {"key", setting.key}});
    json["legal"] = errors.empty();
    json["errors"] = errors_to_json(errors);
    json["warnings"] = warnings;
    json["missing"] = missing(made);
    if (report != nullptr) {
        json["step_time_s"] = report->step_time_s;
        json["peak_device_bytes"] = report->peak_device_bytes;
        json["device_bytes"] = report->memory.empty() ? 0.0 : report->memory.front().capacity_bytes;
        json["fits"] = report->fits;
    }
    return json;
}

void print_settings(const Case& made, const ConfigReader& reader, const std::string& path, Console& console) {
    console.out(path + ": " + std::string(reader.document) + "\n\n");
    TextTable table({"Setting", "Value", "Key"});
    for (const StatedSetting& setting : made.config.settings)
        table.add_row({setting.what, setting.value, setting.key});
    console.out_table(table);
    console.out("\n");
}

// In the framework's own words: "run.sh: --global-batch-size".
Errors in_file(Errors errors, const std::string& path) {
    for (Error& error : errors) {
        if (error.context.starts_with(path)) continue;
        error.context = path + (error.context.empty() ? "" : ": " + error.context);
    }
    return errors;
}

Status write_plan(const Case& made, const std::string& output, Console& console) {
    if (output.empty()) return ok();
    return console.write(output, plan_document_to_json(made.document).dump(2) + "\n");
}

}  // namespace

int check_config(const ConfigReader& reader, std::string_view text, const CheckConfigOptions& options,
                 Console& console) {
    const std::string path = shown_path(options.path);
    Result<ImportedConfig> config = reader.read(text, path);
    if (!config) return console.fail(config.errors());
    const Result<TargetFramework> target = options.framework.empty()
                                               ? Result<TargetFramework>(reader.framework)
                                               : parse_target_framework(options.framework);
    if (!target) return console.fail(target.errors());
    const std::string framework(to_string(*target));

    Case made{std::move(*config), {}, false, false};
    std::vector<std::string> warnings = made.config.warnings;
    Errors refused;
    take_model(options.model, made, refused, warnings);
    take_cluster(options.cluster, made, refused, warnings);
    if (!refused.empty()) return console.fail(refused);
    if (!options.output.empty() && !(made.own_model && made.own_cluster)) {
        return console.fail({{ErrorCode::Usage, "a plan document needs a model and a cluster", "--output",
                              made.own_model ? "--cluster" : "--model and --cluster"}});
    }

    Errors errors = made.config.contradictions;
    const auto plan = complete_plan(made.config, made.document.graph, made.document.cluster, errors);
    if (plan) {
        made.document.plan = *plan;
        for (const RecomputeModule module : kRecomputeModules) {
            if (!made.config.stated.recompute_modules.has(module) || plan->recompute_modules.has(module))
                continue;
            warnings.push_back(fmt::format("{}: the model has no {} that could run again",
                                           user_key(PlanKnob::RecomputeModules, reader.framework),
                                           to_string(module)));
        }
        PlanCheck check = check_plan(made.document.graph, made.document.cluster, *plan, *target);
        // Nothing can be wrong with a model that is not known.
        if (!made.own_model) std::erase_if(check.errors, [](const Error& e) { return e.context == "model"; });
        errors.insert(errors.end(), check.errors.begin(), check.errors.end());
        warnings.insert(warnings.end(), check.warnings.begin(), check.warnings.end());
    }
    errors = in_file(std::move(errors), path);

    std::optional<SimulationReport> report;
    if (errors.empty() && made.own_model && made.own_cluster) {
        auto environment =
            make_environment(made.document.graph, made.document.cluster, 0, executor_verdict());
        if (!environment) return console.fail(environment.errors());
        Result<SimulationReport> simulated = Simulator(*environment).simulate(made.document.plan);
        if (!simulated) return console.fail(in_file(simulated.errors(), path));
        report = std::move(*simulated);
        if (const Status written = write_plan(made, options.output, console); !written)
            return console.fail(written.errors());
    }
    if (options.output == "-" && errors.empty()) return 0;  // stdout holds one document
    if (console.json) {
        console.out_json(to_json(made, reader, framework, errors, warnings, report ? &*report : nullptr));
        return errors.empty() ? 0 : exit_code(errors);
    }
    print_settings(made, reader, path, console);
    for (const std::string& warning : warnings)
        console.warn(warning);
    if (!errors.empty()) return console.fail(errors);
    const std::string model = made.own_model ? made.document.model_name + " " : "";
    const StatedPlan& stated = made.config.stated;
    const bool devices_known = made.own_cluster || stated.devices() || stated.dp;
    console.out(model + (devices_known ? summary(made.document.plan) : stated_summary(made.config)) +
                ": legal for " + framework + "\n");
    if (report) {
        ReportTextOptions look;
        look.width = console.width();
        look.colour = console.out_colour();
        console.out("\n" + report_headline(*report, look) + memory_text(*report, look));
        if (!report->fits) console.warn("it does not fit in the memory of " + made.document.cluster.name);
    }
    for (const std::string& one : missing(made))
        console.note("to say more: " + one);
    return 0;
}

Result<DocumentSummary> describe_config(const ConfigReader& reader, std::string_view text,
                                        std::string_view path) {
    const Result<ImportedConfig> config = reader.read(text, path);
    if (!config) return config.errors();
    DocumentSummary summary;
    summary.kind = reader.document;
    summary.title = stated_summary(*config);
    summary.facts.emplace_back("framework", std::string(to_string(reader.framework)));
    for (const StatedSetting& setting : config->settings)
        summary.facts.emplace_back(setting.what, setting.value + " (" + setting.key + ")");
    summary.warnings = config->warnings;
    for (const Error& error : config->contradictions)
        summary.warnings.push_back(to_string(error));
    return summary;
}

}  // namespace tw::cli

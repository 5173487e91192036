#include <filesystem>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/common/load_plan.hpp"
#include "plan/frameworks/export/export_plan.hpp"

namespace tw::cli {
namespace {

struct ExportOptions {
    std::string plan, framework, output;
    bool flags = false;
};

std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const PlanExporter& exporter : plan_exporters())
        all.emplace_back(to_string(exporter.target));
    return all;
}

std::string flag_lines(const PlanExport& made) {
    std::string text;
    for (const auto& [flag, value] : made.flags)
        text.append(flag).append(value.empty() ? "" : " ").append(value).append("\n");
    return text;
}

Json export_to_json(const ExportOptions& options, const PlanDocument& plan, const PlanExport& made) {
    Json json = document("export");
    json["plan"] = summary(plan.plan);
    json["framework"] = options.framework;
    json["text"] = made.text;
    json["flags"] = Json::array();
    for (const auto& [flag, value] : made.flags)
        json["flags"].push_back({{"flag", flag}, {"value", value}});
    json["beside"] = Json::array();
    for (const ExportedFile& file : made.beside)
        json["beside"].push_back({{"name", file.name}, {"text", file.text}});
    json["remarks"] = made.remarks;
    return json;
}

int export_command(const ExportOptions& options, Console& console) {
    const Result<PlanDocument> plan = load_plan_document(options.plan);
    if (!plan) return console.fail(plan.errors());
    const Result<TargetFramework> target = parse_target_framework(options.framework);
    if (!target) return console.fail(target.errors());
    const bool to_stdout = options.output.empty() || options.output == "-";
    const std::filesystem::path path = options.output;
    const auto made = export_plan(*plan, *target, to_stdout ? "schedule" : path.stem().string());
    if (!made) return console.fail(in_document(made.errors(), options.plan));
    if (console.json && options.output.empty()) {
        console.out_json(export_to_json(options, *plan, *made));
        return 0;
    }
    if (to_stdout && !made->beside.empty()) {
        return console.fail({{ErrorCode::Usage,
                              fmt::format("schedule {} needs the file {} beside the configuration",
                                          plan->plan.schedule, made->beside.front().name),
                              "--output", "-o FILE writes both"}});
    }
    const std::string text = options.flags ? flag_lines(*made) : made->text;
    for (const std::string& remark : made->remarks) {
        if (!to_stdout || text.find(remark) == std::string::npos) console.note(remark);
    }
    if (to_stdout) {
        console.out(text);
        return 0;
    }
    if (const Status written = console.write(options.output, text); !written)
        return console.fail(written.errors());
    for (const ExportedFile& file : made->beside) {
        const std::string beside = (path.parent_path() / file.name).string();
        if (const Status written = console.write(beside, file.text); !written)
            return console.fail(written.errors());
    }
    if (console.json) console.out_json(export_to_json(options, *plan, *made));
    return 0;
}

}  // namespace

void define_export(Command& command) {
    auto& options = command.keep<ExportOptions>();
    command.positional("PLAN", options.plan, "a trainwright/plan document; - is stdin");
    std::string help = "whose arguments or configuration to write; needed:";
    for (const PlanExporter& exporter : plan_exporters())
        help += fmt::format(" {} ({}),", exporter.versions, exporter.writes);
    help.pop_back();
    command.word("--to", options.framework, names(), help);
    command.flag("--flags", options.flags, "torchtitan: flags of its command line in place of TOML");
    command.needs("--flags", "--to", "torchtitan");
    command.output("-o,--output", options.output,
                   "where it goes; stdout where not given. Files that it names are written beside it");
    command.details(
        "The plan is first checked by the framework's rules (check --for); what the framework cannot run is "
        "refused, with a legal neighbour. What the framework does otherwise than the plan, and what the plan "
        "does not know (data, learning rate), is said on stderr. plan --for searches such plans alone.");
    command.example("export plan.json --to megatron -o args.sh", "then: source args.sh");
    command.example("export plan.json --to torchtitan -o job.toml",
                    "and job.csv where the schedule is our own");
    command.run([&options](Console& console) {
        if (!options.framework.empty()) return export_command(options, console);
        std::string all;
        for (const std::string& name : names())
            all += (all.empty() ? "" : ", ") + name;
        return console.fail({{ErrorCode::Usage, "is needed", "--to", all}});
    });
}

}  // namespace tw::cli

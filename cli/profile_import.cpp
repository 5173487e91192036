#include "cli/profile_import.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <unistd.h>

#include "base/si_format.hpp"
#include "base/text_table.hpp"
#include "cli/common/interrupt.hpp"
#include "cli/common/wrap.hpp"
#include "models/hardware/cluster_json.hpp"
#include "models/hardware/profile_document_json.hpp"
#include "profiler/import/import_profile.hpp"

namespace tw::cli {
namespace {

Json findings_json(const std::vector<Finding>& findings) {
    Json list = Json::array();
    for (const Finding& finding : findings) {
        list.push_back({{"name", finding.name},
                        {"suspect", is_suspect(finding)},
                        {"message", finding.message},
                        {"line", finding.line > 0 ? Json(finding.line) : Json(nullptr)}});
    }
    return list;
}

Json import_json(const ImportResult& result, const std::string& output) {
    Json json = document("profile-import");
    json["profile"] = output.empty() ? Json(nullptr) : Json(output);
    json["name"] = result.document.profile.name;
    json["sources"] = Json::array();
    for (const ImportedSource& source : result.sources) {
        json["sources"].push_back({{"file", source.file},
                                   {"kind", source.kind},
                                   {"read", source.read},
                                   {"points", source.points},
                                   {"findings", findings_json(source.findings)}});
    }
    json["findings"] = findings_json(result.findings);
    json["taken"] = result.taken;
    json["assumed"] = result.assumed;
    json["absent"] = result.absent;
    return json;
}

void print_list(const std::string& title, const std::vector<std::string>& lines, std::string& out) {
    if (lines.empty()) return;
    out += "\n" + title + "\n";
    for (const std::string& line : lines)
        out += "  " + line + "\n";
}

// Findings on stderr, each name's advice once.
void print_findings(const ImportResult& result, Console& console) {
    std::set<std::string> names;
    const auto show = [&](const std::string& file, const Finding& finding) {
        console.warn((file.empty() ? "" : file + ": ") + to_string(finding));
        if (is_suspect(finding)) names.insert(finding.name);
    };
    for (const ImportedSource& source : result.sources) {
        for (const Finding& finding : source.findings)
            show(source.file, finding);
    }
    for (const Finding& finding : result.findings)
        show("", finding);
    for (const std::string& name : names) {
        const FindingKind& kind = finding_kind(name);
        console.note(fmt::format("{}: {}; {}", name, kind.meaning, kind.advice));
    }
}

void print_result(const ImportResult& result, const std::string& output, Console& console) {
    TextTable table({"File", "Kind", "Read", "Points", "Warnings"});
    table.align(3, Align::Right);
    table.align(4, Align::Right);
    for (const ImportedSource& source : result.sources) {
        const auto warnings = source.findings.size();
        table.add_row({source.file, source.kind, source.read,
                       source.points > 0 ? format_count(source.points) : std::string("-"),
                       warnings > 0 ? std::to_string(warnings) : std::string("-")});
    }
    console.out_table(table);
    std::string text;
    const std::vector<std::string> nothing = {
        "nothing that a profile holds: they were only compared with the base"};
    print_list("From the files", result.taken.empty() ? nothing : result.taken, text);
    print_list("From the base, not measured on this machine", result.assumed, text);
    print_list("Nobody measured", result.absent, text);
    if (!output.empty()) {
        const Cluster& cluster = *result.document.cluster;
        text += fmt::format("\n{} holds the profile and a cluster of {} x {} devices: --cluster {}:{}\n",
                            output, cluster.groups.front().nodes, cluster.groups.front().type.devices, output,
                            cluster.devices());
    }
    console.out(text);
}

}  // namespace

void define_import_flags(Command& command, ImportFlags& flags) {
    command.text("--device", flags.device, "NAME",
                 "import: device or node type for what the files do not say; else the one that they name");
    command.text("--name", flags.name, "NAME", "import: of the profile and its node");
}

int run_profile_import(const std::vector<std::string>& files, const ImportFlags& flags,
                       const std::string& output, Console& console) {
    if (files.empty())
        return console.fail(
            {{ErrorCode::Usage, "no file to import", "FILE",
              "trainwright profile import all_reduce.log topo.xml -o imported.profile.json"}});
    if (!flags.name.empty() && !is_hardware_name(flags.name))
        return console.fail(
            {{ErrorCode::Usage,
              fmt::format("a name consists of a-z, 0-9, '-', '_' and '.'; found '{}'", flags.name), "--name",
              ""}});
    const InterruptGuard interrupt;
    const bool terminal = console.err_is_terminal() && !console.json;
    bool shown = false;
    ImportOptions options;
    options.device = flags.device;
    options.name = flags.name;
    options.progress = [&](const std::string& file, std::int64_t read, std::int64_t size) {
        if (terminal && size > (std::int64_t{64} << 20)) {
            const std::string line = fmt::format("\r{}: {:3.0f} %", file,
                                                 100 * static_cast<double>(read) / static_cast<double>(size));
            shown = ::write(STDERR_FILENO, line.data(), line.size()) >= 0 || shown;
        }
        return !interrupt.flag().load();
    };
    const auto result = import_profile({files.begin(), files.end()}, options);
    if (shown && ::write(STDERR_FILENO, "\n", 1) < 0) return 1;
    if (!result) return console.fail(result.errors());
    Status written = ok();
    if (!output.empty()) written = console.write(output, profile_document_text(result->document));
    print_findings(*result, console);
    if (console.json) {
        console.out_json(import_json(*result, written ? output : std::string()));
    } else if (output != "-") {
        print_result(*result, written ? output : std::string(), console);
    }
    return written ? 0 : console.fail(written.errors());
}

}  // namespace tw::cli

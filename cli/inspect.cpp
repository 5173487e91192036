#include <algorithm>
#include <filesystem>

#include "cli/commands.hpp"
#include "models/formats/document.hpp"

namespace tw::cli {
namespace {

struct InspectOptions {
    std::vector<std::string> files;
};

Json summary_to_json(const std::string& file, const Result<DocumentSummary>& summary) {
    if (!summary) return Json{{"file", file}, {"kind", nullptr}, {"errors", errors_to_json(summary.errors())}};
    Json facts = Json::object();
    for (const auto& [name, value] : summary->facts) facts[name] = value;
    return Json{{"file", file},
                {"kind", summary->kind},
                {"title", summary->title},
                {"facts", std::move(facts)},
                {"warnings", summary->warnings}};
}

void print_one(const DocumentSummary& summary, Console& console) {
    console.out(styled(summary.kind, TextStyle::Bold, console.out_colour()) + ": " + summary.title + "\n\n");
    std::size_t width = 0;
    for (const auto& [name, value] : summary.facts) width = std::max(width, display_width(name));
    for (const auto& [name, value] : summary.facts) {
        console.out("  " + styled(pad_right(name, width), TextStyle::Dim, console.out_colour()) + "  " + value + "\n");
    }
    for (const std::string& warning : summary.warnings) console.warn(warning);
}

void add_row(TextTable& table, const std::string& file, const Result<DocumentSummary>& summary) {
    if (summary) {
        const std::size_t warnings = summary->warnings.size();
        table.add_row({file, summary->kind, summary->title, warnings == 0 ? std::string("-") : std::to_string(warnings)});
    } else {
        table.add_row({file, TableCell("refused", TextStyle::Red), summary.error().message, "-"});
    }
}

// Directories stand for the files below them, by name.
std::vector<std::string> files_below(const std::vector<std::string>& paths) {
    namespace fs = std::filesystem;
    std::vector<std::string> files;
    for (const std::string& path : paths) {
        std::error_code error;
        if (!fs::is_directory(path, error)) {
            files.push_back(path);
            continue;
        }
        std::vector<std::string> found;
        for (fs::recursive_directory_iterator at(path, error), end; at != end && !error; at.increment(error)) {
            if (at->is_regular_file(error)) found.push_back(at->path().string());
        }
        std::sort(found.begin(), found.end());
        files.insert(files.end(), found.begin(), found.end());
    }
    return files;
}

int inspect_files(const InspectOptions& options, Console& console) {
    Json json = document("inspection");
    json["files"] = Json::array();
    TextTable table({"File", "Kind", "What it is", "Warnings"});
    Errors errors;
    const std::vector<std::string> files = files_below(options.files);
    for (const std::string& file : files) {
        const Result<DocumentSummary> summary = inspect_document(file);
        json["files"].push_back(summary_to_json(file, summary));
        add_row(table, file, summary);
        if (!summary) errors.insert(errors.end(), summary.errors().begin(), summary.errors().end());
        if (summary && files.size() == 1 && !console.json) print_one(*summary, console);
    }
    if (console.json) {
        console.out_json(json);
    } else if (files.size() != 1) {
        console.out_table(table);
    }
    return errors.empty() ? 0 : console.fail(errors);
}

}  // namespace

void define_inspect(Command& command) {
    auto& options = command.keep<InspectOptions>();
    command.positionals("FILE", options.files, "documents of any known kind, or folders of them");
    command.details(
        "One file is shown with all that it says, several as a table. A file that is refused gets its reasons on stderr, and "
        "the exit code is 5.");
    command.example("inspect config.json", "a Hugging Face configuration");
    command.example("inspect logs/*.txt --json", "many files, as JSON");
    command.run([&options](Console& console) { return inspect_files(options, console); });
}

}  // namespace tw::cli

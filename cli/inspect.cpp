#include <algorithm>
#include <filesystem>

#include "cli/commands.hpp"
#include "cli/common/wrap.hpp"
#include "cli/own_documents.hpp"
#include "cli/run_documents_json.hpp"

namespace tw::cli {
namespace {

struct InspectOptions {
    std::vector<std::string> files;
};

Json summary_to_json(const std::string& file, const Result<DocumentSummary>& summary) {
    if (!summary)
        return Json{{"file", file}, {"kind", nullptr}, {"errors", errors_to_json(summary.errors())}};
    Json facts = Json::object();
    for (const auto& [name, value] : summary->facts)
        facts[name] = value;
    return Json{{"file", file},
                {"kind", summary->kind},
                {"title", summary->title},
                {"facts", std::move(facts)},
                {"warnings", summary->warnings}};
}

void print_one(const DocumentSummary& summary, Console& console) {
    console.out(styled(summary.kind, TextStyle::Bold, console.out_colour()) + ": " + summary.title + "\n\n");
    std::size_t width = 0;
    for (const auto& [name, value] : summary.facts)
        width = std::max(width, display_width(name));
    for (const auto& [name, value] : summary.facts) {
        console.out("  " + styled(pad_right(name, width), TextStyle::Dim, console.out_colour()) + "  " +
                    value + "\n");
    }
    for (const std::string& warning : summary.warnings)
        console.warn(warning);
}

// A table shows what stderr says in full.
std::string first_words(std::string_view message) {
    const std::vector<std::string> lines = wrapped_lines(message.substr(0, message.find('\n')), 70);
    return lines.size() > 1 ? lines.front() + " ..." : lines.front();
}

// The folder that all files are in, with its slash; "" where they share none.
std::string shared_folder(const std::vector<std::string>& files) {
    if (files.empty()) return "";
    std::string prefix = files.front();
    for (const std::string& file : files) {
        std::size_t same = 0;
        while (same < prefix.size() && same < file.size() && prefix[same] == file[same])
            ++same;
        prefix.resize(same);
    }
    const std::size_t slash = prefix.rfind('/');
    return slash == std::string::npos ? "" : prefix.substr(0, slash + 1);
}

void add_row(TextTable& table, const std::string& file, const Result<DocumentSummary>& summary) {
    if (summary) {
        const std::size_t warnings = summary->warnings.size();
        table.add_row({file, summary->kind, summary->title,
                       warnings == 0 ? std::string("-") : std::to_string(warnings)});
    } else {
        table.add_row(
            {file, TableCell("refused", TextStyle::Red), first_words(summary.error().message), "-"});
    }
}

// The files of a folder and of those below it; one with checkpoints is a document itself. What cannot be
// looked into is an error of its own.
void add_below(const std::filesystem::path& folder, std::vector<std::string>& files, Errors& errors) {
    namespace fs = std::filesystem;
    const auto unseen = [&](const fs::path& path, const std::error_code& why) {
        errors.push_back(
            {ErrorCode::Unreadable, "cannot be looked into: " + why.message(), path.string(), ""});
    };
    std::vector<fs::path> found;
    std::error_code failed;
    for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
        found.push_back(at->path());
    if (failed) unseen(folder, failed);
    for (const fs::path& path : found) {
        std::error_code ignored, untold;
        const fs::file_status own = fs::symlink_status(path, untold);
        if (own.type() == fs::file_type::none) {
            unseen(path, untold);
        } else if (is_checkpoint_folder(path) || fs::is_regular_file(path, ignored)) {
            files.push_back(path.string());
        } else if (fs::is_directory(own)) {
            add_below(path, files, errors);
        }
    }
}

// Folders stand for the files below them, by name.
std::vector<std::string> files_below(const std::vector<std::string>& paths, Errors& errors) {
    std::vector<std::string> files;
    for (const std::string& path : paths) {
        std::error_code error;
        if (!std::filesystem::is_directory(path, error) || is_checkpoint_folder(path)) {
            files.push_back(path);
        } else {
            std::vector<std::string> below;
            add_below(path, below, errors);
            std::sort(below.begin(), below.end());
            files.insert(files.end(), below.begin(), below.end());
        }
    }
    return files;
}

int inspect_files(const InspectOptions& options, Console& console) {
    Json json = document("inspection");
    json["files"] = Json::array();
    Errors errors;
    const std::vector<std::string> files = files_below(options.files, errors);
    const std::string folder = shared_folder(files);
    TextTable table({folder.empty() ? "File" : folder, "Kind", "What it is", "Warnings"});
    for (const std::string& file : files) {
        const Result<DocumentSummary> summary = describe_file(file);
        json["files"].push_back(summary_to_json(file, summary));
        add_row(table, file.substr(folder.size()), summary);
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
    command.positionals("FILE", options.files,
                        "documents of any known kind, weights, checkpoints, or folders of them");
    command.details(
        "One file is shown with all that it says, several as a table. A file that is refused gets its "
        "reasons on stderr, and "
        "the exit code is 5.");
    command.example("inspect config.json", "a Hugging Face configuration");
    command.example("inspect logs/*.txt --json", "many files, as JSON");
    command.run([&options](Console& console) { return inspect_files(options, console); });
}

}  // namespace tw::cli

// Launch files (real_exec/launch): batch scripts, mpirun scripts and Kubeflow's YAML.
#include <fmt/format.h>

#include "base/json.hpp"
#include "cli/run_documents_json.hpp"
#include "models/formats/text_lines.hpp"

namespace tw::cli {
namespace {

constexpr std::string_view kWrittenBy = " ranks. Written by trainwright launch.";

// "gpt2-tiny on cpu:2: tp1 pp2 dp1 mbs2 1f1b, 2": the comment that says so is the first or the second line.
std::string_view about_of(std::string_view text) {
    const std::size_t end = text.find(kWrittenBy);
    if (end == std::string_view::npos || end > 4096) return {};
    const std::size_t line = text.rfind('\n', end);
    const std::size_t begin = line == std::string_view::npos ? 0 : line + 1;
    if (!text.substr(begin).starts_with("# ")) return {};
    return text.substr(begin + 2, end - begin - 2);
}

void append_about(std::string_view about, DocumentSummary& summary) {
    const std::size_t comma = about.rfind(", "), colon = about.rfind(": ", comma), on = about.find(" on ");
    if (comma == std::string_view::npos || colon == std::string_view::npos || on >= colon) return;
    summary.facts.emplace_back("model", excerpt(about.substr(0, on)));
    summary.facts.emplace_back("cluster", excerpt(about.substr(on + 4, colon - on - 4)));
    summary.facts.emplace_back("plan", excerpt(about.substr(colon + 2, comma - colon - 2), 120));
    summary.facts.emplace_back("ranks", excerpt(about.substr(comma + 2)));
}

void append_directive(std::string_view line, DocumentSummary& summary) {
    if (line.starts_with("#SBATCH ")) {
        const std::string_view directive = trim(line.substr(8));
        const std::size_t equals = directive.find('=');
        summary.facts.emplace_back(
            excerpt(directive.substr(0, equals)),
            equals == std::string_view::npos ? "yes" : excerpt(directive.substr(equals + 1)));
    } else if (line.starts_with("slotsPerWorker: ") || line.starts_with("image: ") ||
               line.starts_with("replicas: ")) {
        const std::size_t at = line.find(": ");
        summary.facts.emplace_back(excerpt(line.substr(0, at)), excerpt(line.substr(at + 2)));
    }
}

// The command that starts the ranks, line by line: a script's goes on after a backslash, an MPIJob's is a
// list of quoted words.
class Command {
  public:
    explicit Command(bool listed) : listed_(listed) {}
    void take(std::string_view line) {
        if (listed_) {
            take_listed(line);
            return;
        }
        goes_on_ |= line.starts_with("srun ") || line.starts_with("exec mpirun");
        if (!goes_on_) return;
        goes_on_ = line.ends_with('\\');
        append(trim(goes_on_ ? line.substr(0, line.size() - 1) : line));
    }
    [[nodiscard]] const std::string& text() const { return text_; }

  private:
    void take_listed(std::string_view line) {
        if (line == "args:") {
            goes_on_ = true;
            text_ = "mpirun";
            return;
        }
        goes_on_ = goes_on_ && line.starts_with("- ");
        if (!goes_on_) return;
        const auto word = parse_json(line.substr(2), "");
        append(word && word->is_string() ? word->get<std::string>() : std::string(line.substr(2)));
    }
    void append(std::string_view words) {
        if (!text_.empty()) text_ += ' ';
        text_ += words;
    }

    bool listed_;
    bool goes_on_ = false;
    std::string text_;
};

}  // namespace

bool is_launch_file(std::string_view text, std::string_view) {
    return !about_of(text).empty();
}

Result<DocumentSummary> describe_launch_file(std::string_view text, std::string_view) {
    const std::string_view about = about_of(text);
    const bool job = text.find("\nkind: MPIJob\n") != std::string_view::npos;
    const bool slurm = text.find("\nsrun ") != std::string_view::npos;
    const std::string target = job ? "Kubeflow MPIJob" : slurm ? "Slurm batch script" : "mpirun script";
    DocumentSummary summary;
    summary.title = fmt::format("{}: {} ranks", target, excerpt(about, 160));
    summary.facts.emplace_back("target", target);
    append_about(about, summary);
    Command command(job);
    for (const std::string_view raw : split_lines(text)) {
        const std::string_view line = trim(raw);
        append_directive(line, summary);
        command.take(line);
    }
    summary.facts.emplace_back("command", excerpt(command.text(), 400));
    return summary;
}

}  // namespace tw::cli

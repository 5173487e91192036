#include "cli/run_documents_json.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/si_format.hpp"
#include "models/formats/document_kinds.hpp"
#include "models/formats/text_lines.hpp"
#include "models/hardware/sample_statistics.hpp"
#include "real_exec/checkpoint/checkpoint_json.hpp"

namespace tw::cli {
namespace {

using Described = Result<DocumentSummary>;

constexpr char kReport[] = "trainwright/run", kManifest[] = "trainwright/checkpoint",
               kPart[] = "trainwright/checkpoint-part";

// ---- steps: of a report, or of metrics.jsonl

double number_of(const Json& step, const char* key) {
    const auto found = step.find(key);
    return found != step.end() && found->is_number() ? found->get<double>() : 0;
}

class Steps {
  public:
    // False: it is no step.
    bool add(const Json& step) {
        if (!step.is_object() || !step.contains("step") || !step["step"].is_number_integer()) return false;
        const auto number = step["step"].get<std::int64_t>();
        if (!losses_.empty() && number <= last_) ++restarts_;
        if (losses_.empty()) first_ = number;
        last_ = number;
        losses_.push_back(number_of(step, "loss"));
        times_.push_back(number_of(step, "step_time_s"));
        rates_.push_back(number_of(step, "tokens_per_s"));
        waited_.push_back(number_of(step, "exposed_communication_s"));
        const auto skipped = step.find("skipped");
        skipped_ += skipped != step.end() && skipped->is_boolean() && skipped->get<bool>() ? 1 : 0;
        return true;
    }
    [[nodiscard]] std::size_t size() const { return losses_.size(); }
    [[nodiscard]] std::string title() const {
        if (losses_.empty()) return "no steps";
        return fmt::format("{} steps, loss {:.5f} to {:.5f}", format_count(static_cast<std::int64_t>(size())),
                           losses_.front(), losses_.back());
    }
    void append_to(DocumentSummary& summary) const {
        auto& facts = summary.facts;
        facts.emplace_back("steps", size() == 0 ? "none" : fmt::format("{} to {}", first_, last_));
        if (size() == 0) return;
        facts.emplace_back("loss",
                           fmt::format("{:.5f} to {:.5f}, least {:.5f}", losses_.front(), losses_.back(),
                                       *std::min_element(losses_.begin(), losses_.end())));
        facts.emplace_back("step time", format_duration(median_of(times_)) + ", median");
        facts.emplace_back("rate", format_rate(median_of(rates_), "tokens/s") + ", median");
        facts.emplace_back("waiting for others", format_duration(median_of(waited_)) + " of a step, median");
        if (restarts_ > 0) facts.emplace_back("restarts", fmt::format("{}: step numbers go back", restarts_));
        if (skipped_ > 0) facts.emplace_back("overflowed", fmt::format("{} steps updated nothing", skipped_));
    }

  private:
    std::vector<double> losses_, times_, rates_, waited_;
    std::int64_t first_ = 0, last_ = 0;
    int restarts_ = 0, skipped_ = 0;
};

std::string text_of(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Described describe_report(std::string_view text, std::string_view filename) {
    const auto json = parse_json(text, filename);
    if (!json) return json.errors();
    Errors errors;
    const JsonObject object(*json, "", errors);
    const Json& all = object.array("steps");
    const Json& ranks = object.array("ranks");
    if (!errors.empty()) return errors;
    Steps steps;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (!steps.add(all[i]))
            return Error{ErrorCode::Unreadable, "is no step: it has no number \"step\"",
                         fmt::format("/steps/{}", i), ""};
    }
    DocumentSummary summary;
    summary.title = fmt::format("{}, {}: {}", text_of(*json, "model"), text_of(*json, "plan"), steps.title());
    summary.facts = {{"model", text_of(*json, "model")},
                     {"plan", text_of(*json, "plan")},
                     {"backend", text_of(*json, "backend")}};
    steps.append_to(summary);
    double peak = 0;
    for (const Json& rank : ranks)
        peak = std::max(peak, rank.is_object() ? number_of(rank, "peak_allocated_bytes") : 0);
    summary.facts.emplace_back("ranks",
                               fmt::format("{}, at most {} allocated", ranks.size(), format_bytes(peak)));
    if (const auto notes = json->find("notes"); notes != json->end() && notes->is_array()) {
        for (const Json& note : *notes) {
            if (note.is_string()) summary.warnings.push_back(note.get<std::string>());
        }
    }
    return summary;
}

// One JSON object a line, each with the keys of a step.
bool is_metrics_lines(std::string_view text, std::string_view) {
    const std::string_view line = trim(text.substr(0, text.find('\n')));
    return line.starts_with("{\"step\":") && line.find("\"loss\":") != std::string_view::npos &&
           line.find("\"step_time_s\":") != std::string_view::npos;
}

Described describe_metrics_lines(std::string_view text, std::string_view filename) {
    Steps steps;
    DocumentSummary summary;
    const std::vector<std::string_view> lines = split_lines(text);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (trim(lines[i]).empty()) continue;
        const auto json = parse_json(lines[i], filename);
        if (json && steps.add(*json)) continue;
        // A run that is killed may be in the middle of a line.
        if (i + 1 == lines.size()) {
            summary.warnings.push_back(fmt::format("line {} is cut off", i + 1));
        } else {
            return unreadable_line(filename, i + 1, "is no step");
        }
    }
    summary.title = steps.title();
    steps.append_to(summary);
    return summary;
}

// ---- metrics.prom

bool is_prometheus(std::string_view text, std::string_view) {
    return text.starts_with("# HELP trainwright_");
}

Described describe_prometheus(std::string_view text, std::string_view filename) {
    DocumentSummary summary;
    const std::vector<std::string_view> lines = split_lines(text);
    std::string labels;
    std::vector<std::pair<std::string, std::string>> gauges;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const std::string_view line = trim(lines[i]);
        if (line.empty() || line.starts_with('#')) continue;
        const std::size_t open = line.find('{'), close = line.rfind('}');
        const bool labelled =
            open != std::string_view::npos && close != std::string_view::npos && open < close;
        const std::string_view name = line.substr(0, labelled ? open : line.find(' '));
        const std::string_view rest = trim(labelled ? line.substr(close + 1) : line.substr(name.size()));
        const bool known = rest == "NaN" || rest == "nan" || rest == "inf" || rest == "-inf";
        if (!known && !parse_number(rest))
            return unreadable_line(filename, i + 1, "is no metric: a name, labels and a number");
        if (labelled) labels = excerpt(line.substr(open + 1, close - open - 1), 120);
        gauges.emplace_back(excerpt(name), excerpt(rest));
    }
    const auto step = std::find_if(gauges.begin(), gauges.end(),
                                   [](const auto& gauge) { return gauge.first == "trainwright_step"; });
    summary.title = fmt::format("{} figures{}", gauges.size(),
                                step == gauges.end() ? "" : " after " + step->second + " steps");
    if (!labels.empty()) summary.facts.emplace_back("labels", labels);
    summary.facts.insert(summary.facts.end(), gauges.begin(), gauges.end());
    return summary;
}

// ---- rank-00000.log

// "2026-11-30T18:12:07Z ..."
bool starts_with_time(std::string_view line) {
    constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:ddZ ";
    if (line.size() < kForm.size()) return false;
    for (std::size_t i = 0; i < kForm.size(); ++i) {
        const bool digit = line[i] >= '0' && line[i] <= '9';
        if (kForm[i] == 'd' ? !digit : line[i] != kForm[i]) return false;
    }
    return true;
}

bool is_rank_log(std::string_view text, std::string_view) {
    return starts_with_time(text) && text.substr(21).starts_with("rank ");
}

Described describe_rank_log(std::string_view text, std::string_view) {
    std::string who, last;
    std::int64_t attempts = 0, steps = 0;
    for (const std::string_view line : split_lines(text)) {
        if (!starts_with_time(line)) continue;
        const std::string_view said = line.substr(21);
        if (said.find(", attempt ") != std::string_view::npos) {
            ++attempts;
            who = excerpt(said.substr(0, said.find(", attempt ")), 60);
        }
        steps += said.starts_with("step ") ? 1 : 0;
        last = excerpt(said, 200);
    }
    DocumentSummary summary;
    summary.title =
        fmt::format("{}: {} steps, {}", who, steps, last == "done" ? "done" : "not ended by itself");
    summary.facts = {{"rank", who},
                     {"starts", std::to_string(attempts)},
                     {"steps", std::to_string(steps)},
                     {"last line", last}};
    return summary;
}

// ---- checkpoints' own documents

Described describe_manifest(std::string_view text, std::string_view filename) {
    const auto manifest = manifest_from_text(text, filename);
    if (!manifest) return manifest.errors();
    double bytes = 0;
    for (const CheckpointManifest::Part& part : manifest->parts)
        bytes += static_cast<double>(part.file_bytes) + static_cast<double>(part.index_bytes);
    DocumentSummary summary;
    summary.title = fmt::format("{} after step {}, written by {} ranks", manifest->state.model,
                                manifest->state.step, manifest->parts.size());
    summary.facts = {{"model", manifest->state.model},
                     {"plan", manifest->state.plan},
                     {"steps done", format_count(manifest->state.step)},
                     {"ranks", std::to_string(manifest->parts.size())},
                     {"seed", std::to_string(manifest->state.seed)},
                     {"data", manifest->state.data},
                     {"size", format_bytes(bytes)},
                     {"checksum", "fits"}};
    return summary;
}

Described describe_part(std::string_view text, std::string_view filename) {
    const auto part = part_from_text(text, filename);
    if (!part) return part.errors();
    std::map<std::string, std::int64_t> kinds;
    for (const CheckpointPiece& piece : part->pieces)
        ++kinds[piece.kind];
    std::vector<std::string> counts;
    for (const auto& [kind, count] : kinds)
        counts.push_back(fmt::format("{} of kind {}", count, kind));
    DocumentSummary summary;
    summary.title = fmt::format("what rank {} holds after step {}: {} pieces", part->rank, part->step,
                                part->pieces.size());
    summary.facts = {{"rank", std::to_string(part->rank)},
                     {"steps done", format_count(part->step)},
                     {"pieces", fmt::format("{}", fmt::join(counts, ", "))},
                     {"size", format_bytes(static_cast<double>(part->file_bytes))},
                     {"checksum", "fits"}};
    return summary;
}

constexpr std::array kKinds = {
    DocumentKind{"trainwright run report", documents::has_schema<kReport>, describe_report},
    DocumentKind{"trainwright metrics", is_metrics_lines, describe_metrics_lines},
    DocumentKind{"trainwright metrics for Prometheus", is_prometheus, describe_prometheus},
    DocumentKind{"trainwright rank log", is_rank_log, describe_rank_log},
    DocumentKind{"trainwright checkpoint manifest", documents::has_schema<kManifest>, describe_manifest},
    DocumentKind{"trainwright checkpoint index", documents::has_schema<kPart>, describe_part},
    DocumentKind{"trainwright launch file", is_launch_file, describe_launch_file},
};

}  // namespace

std::span<const DocumentKind> run_documents() {
    return kKinds;
}

}  // namespace tw::cli

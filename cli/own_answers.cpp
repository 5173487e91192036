#include "cli/own_answers.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/si_format.hpp"
#include "models/formats/document_kinds.hpp"
#include "models/formats/trace_events.hpp"

namespace tw::cli {
namespace {

constexpr char kExplanation[] = "trainwright/explanation", kPlans[] = "trainwright/plans",
               kReport[] = "trainwright/report", kLayers[] = "trainwright/layers";

// Of plan/trace/chrome.cpp.
constexpr std::string_view kChromeHead = R"({"displayTimeUnit":"ms","otherData":{"title":)";

double number(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

std::string word(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t entries(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_array() ? static_cast<std::int64_t>(found->size()) : 0;
}

// "tp1 pp2 dp4 ...: step 611 ms" of a report.
std::string report_sentence(const Json& report) {
    const std::string plan = word(report, "summary");
    return fmt::format("{}{}step {}", plan, plan.empty() ? "" : ": ",
                       format_duration(number(report, "step_time_s")));
}

// Members of these names hold what they should where they are there.
Result<Json> read_answer(std::string_view text, std::string_view filename,
                         const std::vector<std::string_view>& lists = {},
                         const std::vector<std::string_view>& objects = {}) {
    auto json = parse_json(text, filename);
    if (!json) return json;
    if (!json->is_object()) return Error{ErrorCode::Unreadable, "expected an object", "", ""};
    Errors errors;
    const auto check = [&](const std::vector<std::string_view>& keys, bool list) {
        for (const std::string_view key : keys) {
            const auto found = json->find(key);
            if (found == json->end() || (list ? found->is_array() : found->is_object())) continue;
            errors.push_back({ErrorCode::Unreadable, list ? "expected a list" : "expected an object",
                              fmt::format("{}: /{}", filename, key), ""});
        }
    };
    check(lists, true);
    check(objects, false);
    if (!errors.empty()) return errors;
    return json;
}

Result<DocumentSummary> describe_report(std::string_view text, std::string_view filename) {
    const auto json = read_answer(text, filename);
    if (!json) return json.errors();
    DocumentSummary summary;
    summary.title = report_sentence(*json);
    summary.facts = {{"step time", format_duration(number(*json, "step_time_s"))},
                     {"MFU", format_percent(number(*json, "mfu"))},
                     {"bubble", format_percent(number(*json, "bubble_fraction"))}};
    if (const std::string convention = word(*json, "flop_convention"); !convention.empty())
        summary.facts.insert(summary.facts.begin() + 2, {"MFU counts", convention});
    return summary;
}

Result<DocumentSummary> describe_layers(std::string_view text, std::string_view filename) {
    const auto json = read_answer(text, filename, {"layers", "blocks"}, {"shape"});
    if (!json) return json.errors();
    DocumentSummary summary;
    summary.title = fmt::format("{}: {} kinds of layers, {} parameters", word(*json, "model"),
                                entries(*json, "layers"), format_short_count(number(*json, "parameters")));
    const auto layers = json->find("layers");
    for (std::size_t i = 0; layers != json->end() && i < std::min<std::size_t>(6, layers->size()); ++i) {
        const Json& layer = (*layers)[i];
        if (!layer.is_object()) continue;
        summary.facts.emplace_back(
            word(layer, "name"),
            fmt::format("{} parameters each", format_short_count(number(layer, "parameters"))));
    }
    return summary;
}

Result<DocumentSummary> describe_explanation(std::string_view text, std::string_view filename) {
    const auto json = read_answer(text, filename, {"changes", "hardware"}, {"report"});
    if (!json) return json.errors();
    const auto report = json->find("report");
    DocumentSummary summary;
    summary.title = report == json->end() ? "no report" : report_sentence(*report);
    summary.facts = {{"changes of the plan", format_count(entries(*json, "changes"))},
                     {"changes of the hardware", format_count(entries(*json, "hardware"))}};
    const auto changes = json->find("changes");
    for (std::size_t i = 0; changes != json->end() && i < std::min<std::size_t>(3, changes->size()); ++i) {
        const Json& change = (*changes)[i];
        if (!change.is_object()) continue;
        summary.facts.emplace_back(
            word(change, "change"),
            fmt::format("{}, {:+.1f} %", format_duration(number(change, "step_time_s")),
                        100 * number(change, "step_time_change")));
    }
    return summary;
}

Result<DocumentSummary> describe_plans(std::string_view text, std::string_view filename) {
    const auto json = read_answer(text, filename, {"plans"}, {"request"});
    if (!json) return json.errors();
    DocumentSummary summary;
    const auto request = json->find("request");
    const bool asked = request != json->end() && request->is_object();
    summary.title = fmt::format(
        "{} plans{}", entries(*json, "plans"),
        asked ? " for " + word(*request, "model") + " on " + word(*request, "cluster") : std::string());
    if (const auto plans = json->find("plans"); plans != json->end() && plans->is_array() && !plans->empty())
        summary.facts.emplace_back("best", report_sentence(plans->front()));
    return summary;
}

constexpr std::array kKinds = {
    DocumentKind{"trainwright report", documents::has_schema<kReport>, describe_report},
    DocumentKind{"trainwright explanation", documents::has_schema<kExplanation>, describe_explanation},
    DocumentKind{"trainwright plans", documents::has_schema<kPlans>, describe_plans},
    DocumentKind{"trainwright layers", documents::has_schema<kLayers>, describe_layers},
};

class ChromeVisitor final : public TraceVisitor {
  public:
    void on_event(const ForeignEvent& event) override {
        if (event.phase != 'X' || !event.timed) return;
        ++spans;
        ranks.emplace(event.pid);
        if (origin_ns < 0) origin_ns = event.start_ns;
        const std::int64_t start = event.start_since_ps(origin_ns);
        first = std::min(first, start);
        last = std::max(last, start + std::max<std::int64_t>(0, event.duration_ps));
    }
    void on_member(std::string_view key, std::string_view value) override {
        if (key != "otherData") return;
        if (const auto json = parse_json(value, ""); json && json->is_object()) {
            title = word(*json, "title");
            origin = word(*json, "origin");
        }
    }

    std::string title, origin;
    std::set<std::string> ranks;
    std::int64_t spans = 0, origin_ns = -1, first = 0, last = 0;
};

}  // namespace

std::span<const DocumentKind> own_answers() {
    return kKinds;
}

bool is_own_chrome_trace(const std::filesystem::path& path) {
    std::string head(kChromeHead.size(), '\0');
    std::ifstream file(path, std::ios::binary);
    return file.read(head.data(), static_cast<std::streamsize>(head.size())) && head == kChromeHead;
}

Result<DocumentSummary> describe_chrome_trace(const std::filesystem::path& path) {
    ChromeVisitor seen;
    const auto read = read_trace_events(path, seen);
    if (!read) return read.errors();
    DocumentSummary summary;
    summary.kind = "trainwright Chrome trace";
    summary.title = fmt::format("{} trace of {} ranks, {} events in {}", seen.origin, seen.ranks.size(),
                                format_count(seen.spans), format_sim_time(seen.last - seen.first));
    summary.facts = {{"title", seen.title},
                     {"origin", seen.origin},
                     {"ranks", std::to_string(seen.ranks.size())},
                     {"opens in", "ui.perfetto.dev"}};
    summary.warnings = read->warnings;
    return summary;
}

}  // namespace tw::cli

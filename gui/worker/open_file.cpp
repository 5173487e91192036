#include "gui/worker/open_file.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/json.hpp"
#include "gui/view/load_trace.hpp"
#include "models/formats/byte_stream.hpp"
#include "models/formats/document.hpp"
#include "models/formats/document_kinds.hpp"
#include "models/hardware/cluster_json.hpp"
#include "models/hardware/profile_document_json.hpp"
#include "models/load_model.hpp"
#include "plan/check_plan.hpp"
#include "plan/trace/trace_json.hpp"

namespace tw::gui {
namespace {

namespace fs = std::filesystem;

Opened failed(OpenedKind kind, Errors errors) {
    Opened out;
    out.kind = kind;
    out.errors = std::move(errors);
    return out;
}

// What a file begins with, decompressed; empty where it cannot be read.
std::string head_of(const std::string& path) {
    constexpr std::size_t kHead = std::size_t{64} << 10;
    auto stream = ByteStream::open(path);
    if (!stream) return {};
    while (stream->window().size() < kHead && stream->grow()) {
    }
    return std::string(stream->window().substr(0, kHead));
}

Opened open_plan(const std::string& path) {
    auto document = read_plan_document(path);
    if (!document) return failed(OpenedKind::Plan, document.errors());
    const ParallelPlan plan = document->plan;
    auto study = make_study(std::move(*document));
    if (!study) return failed(OpenedKind::Plan, study.errors());
    Opened out;
    out.kind = OpenedKind::Plan;
    PlanEntry entry;
    entry.origin = PlanOrigin::Opened;
    entry.name = fs::path(path).filename().string();
    entry.study = *study;
    entry.plan = plan;
    entry.errors = check_plan((*study)->document.graph, (*study)->document.cluster, plan).errors;
    if (entry.errors.empty()) {
        const auto evaluation = entry.study->simulator->evaluate(plan);
        if (evaluation) {
            entry.evaluation = *evaluation;
        } else {
            entry.errors = evaluation.errors();
        }
    }
    out.plan = std::move(entry);
    return out;
}

Opened open_own_trace(const std::string& path) {
    auto read = read_trace(path);
    if (!read) return failed(OpenedKind::Trace, read.errors());
    Opened out;
    out.kind = OpenedKind::Trace;
    out.trace = std::make_shared<const Trace>(align_clocks(std::move(*read)));
    out.trace_model = make_trace_model(out.trace);
    return out;
}

Opened open_foreign_trace(const std::string& path, const std::function<bool(double)>& progress) {
    const std::array<fs::path, 1> files = {fs::path(path)};
    auto model = load_trace_model(files, progress);
    if (!model) return failed(OpenedKind::Trace, model.errors());
    Opened out;
    out.kind = OpenedKind::Trace;
    out.trace_model = *model;
    return out;
}

}  // namespace

Opened open_file(const std::string& path, const std::function<bool(double share)>& progress) {
    std::error_code code;
    if (fs::is_directory(path, code))
        return failed(OpenedKind::Unknown,
                      {{ErrorCode::Unreadable, "is a folder", path, "files that are in it"}});
    const std::string head = head_of(path);
    const std::string schema = documents::schema_of(head);
    if (schema == "trainwright/plan") return open_plan(path);
    if (schema == "trainwright/trace") return open_own_trace(path);
    if (schema.empty() && looks_like_trace(head)) return open_foreign_trace(path, progress);

    auto text = read_document_text(path);
    if (!text) return failed(OpenedKind::Unknown, text.errors());
    return open_text(std::move(*text), path);
}

Opened open_traces(const std::vector<std::string>& paths, const std::function<bool(double share)>& progress) {
    const std::vector<fs::path> files(paths.begin(), paths.end());
    auto model = load_trace_model(files, progress);
    if (!model) return failed(OpenedKind::Trace, model.errors());
    Opened out;
    out.kind = OpenedKind::Trace;
    out.trace_model = *model;
    return out;
}

std::vector<std::vector<std::string>> opened_together(const std::vector<std::string>& paths) {
    struct Group {
        std::int64_t world = 0;  // 0: a file alone
        std::map<std::int64_t, std::string> ranks;
    };
    std::vector<Group> groups;
    for (const std::string& path : paths) {
        std::error_code code;
        TracedRank at{};  // of a world of 0: a file alone
        if (paths.size() > 1 && fs::is_regular_file(path, code)) at = traced_rank(head_of(path)).value_or(at);
        const auto same = std::ranges::find_if(groups, [&](const Group& group) {
            return at.world_size > 0 && group.world == at.world_size && !group.ranks.contains(at.rank);
        });
        if (same == groups.end()) {
            groups.push_back({at.world_size, {{at.rank, path}}});
        } else {
            same->ranks[at.rank] = path;
        }
    }
    std::vector<std::vector<std::string>> together;
    for (const Group& group : groups) {
        together.emplace_back();
        for (const auto& [rank, path] : group.ranks)
            together.back().push_back(path);
    }
    return together;
}

Opened open_text(std::string text, const std::string& path) {
    const std::string name = fs::path(path).filename().string();
    const std::string schema = documents::schema_of(text);
    Opened out;
    if (schema == "trainwright/session") {
        out.kind = OpenedKind::Session;
    } else if (schema == "trainwright/profile") {
        out.kind = OpenedKind::Profile;
        const auto json = parse_json(text, path);
        if (!json) return failed(out.kind, json.errors());
        auto profile = decode_profile_document(*json, path);
        if (!profile) return failed(out.kind, profile.errors());
        out.profile = std::make_shared<const ProfileDocument>(std::move(*profile));
    } else if (documents::is_cluster(text, name)) {
        out.kind = OpenedKind::Cluster;
        const auto json = parse_json(text, path);
        if (!json) return failed(out.kind, json.errors());
        const auto cluster = cluster_from_json(*json, "");
        if (!cluster) return failed(out.kind, cluster.errors());
    } else if (documents::is_model(text, name) || documents::is_layer_list(text, name) ||
               documents::is_hf_config(text, name) || documents::is_pipedream(text, name)) {
        out.kind = OpenedKind::Model;
        const auto model = load_model_text(text, path);
        if (!model) return failed(out.kind, model.errors());
    } else {
        auto summary = inspect_text(text, path);
        if (!summary) return failed(OpenedKind::Unknown, summary.errors());
        out.kind = OpenedKind::Import;
        out.summary = std::move(*summary);
    }
    out.text = std::move(text);
    return out;
}

}  // namespace tw::gui

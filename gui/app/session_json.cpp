#include "gui/app/session_json.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/json.hpp"
#include "models/hardware/cluster_json.hpp"
#include "plan/check_plan.hpp"
#include "plan/trace/trace_json.hpp"
#include "planner/infeasible.hpp"

namespace tw::gui {
namespace {

constexpr int kSessionVersion = 2;
constexpr const char* kOrigins[] = {"found", "kept", "opened", "infeasible"};

Json setup_to_json(const Setup& setup) {
    Json json = {{"model", setup.model},
                 {"cluster", setup.cluster},
                 {"global_batch", setup.global_batch},
                 {"seq_len", setup.seq_len},
                 {"fix", setup.fix},
                 {"precision", setup.precision},
                 {"optimizer", setup.optimizer},
                 {"objective", setup.objective},
                 {"framework", setup.framework},
                 {"headroom_percent", setup.headroom_percent},
                 {"top", setup.top}};
    if (!setup.model_text.empty()) json["model_text"] = setup.model_text;
    if (!setup.cluster_text.empty()) json["cluster_text"] = setup.cluster_text;
    return json;
}

Setup setup_from_json(const Json& json, const std::string& pointer, Errors& errors) {
    const JsonObject object(json, pointer, errors);
    Setup setup;
    setup.model = object.string_or("model", "");
    setup.model_text = object.string_or("model_text", "");
    setup.cluster = object.string_or("cluster", "");
    setup.cluster_text = object.string_or("cluster_text", "");
    setup.global_batch = object.integer_or("global_batch", 256, 1, std::int64_t{1} << 30);
    setup.seq_len = object.integer_or("seq_len", 0, 0, std::int64_t{1} << 30);
    setup.fix = object.string_or("fix", "");
    setup.precision = object.string_or("precision", "");
    setup.optimizer = object.string_or("optimizer", "adam");
    setup.objective = object.string_or("objective", "time");
    setup.framework = object.string_or("framework", "trainwright");
    setup.headroom_percent = object.number_or("headroom_percent", 0, 0, 90);
    setup.top = static_cast<int>(object.integer_or("top", 24, 1, 1000));
    object.finish();
    return setup;
}

// Positions of the distinct studies.
std::vector<StudyPtr> studies_of(const Session& session) {
    std::vector<StudyPtr> studies;
    for (const PlanEntry& entry : session.plans)
        if (std::ranges::find(studies, entry.study) == studies.end()) studies.push_back(entry.study);
    return studies;
}

Json study_to_json(const Study& study) {
    return {{"model", {{"name", study.document.model_name}, {"document", study.document.model_document}}},
            {"cluster", cluster_to_json(study.document.cluster)},
            {"headroom_percent", 100 * study.environment->memory_headroom}};
}

StudyPtr study_from_json(const Json& json, const std::string& pointer, Errors& errors) {
    const JsonObject object(json, pointer, errors);
    object.require("model");
    object.require("cluster");
    const double headroom = object.number_or("headroom_percent", 0, 0, 90);
    object.finish();
    const Json* model = object.find("model");
    const Json* cluster = object.find("cluster");
    if (model == nullptr || cluster == nullptr) return nullptr;
    const JsonObject named(*model, pointer + "/model", errors);
    PlanDocument document;
    document.model_name = named.string("name");
    named.require("document");
    named.finish();
    const Json* text = named.find("document");
    if (text == nullptr) return nullptr;
    document.model_document = *text;
    auto loaded = load_model_text(text->is_string() ? text->get<std::string>() : text->dump(),
                                  document.model_name + ".json");
    auto nodes = cluster_from_json(*cluster, pointer + "/cluster");
    if (!loaded) errors.insert(errors.end(), loaded.errors().begin(), loaded.errors().end());
    if (!nodes) errors.insert(errors.end(), nodes.errors().begin(), nodes.errors().end());
    if (!loaded || !nodes) return nullptr;
    document.graph = std::move(loaded->graph);
    document.cluster = std::move(*nodes);
    auto study = make_study(std::move(document), headroom);
    if (study) return *study;
    errors.insert(errors.end(), study.errors().begin(), study.errors().end());
    return nullptr;
}

std::optional<PlanEntry> entry_from_json(const Json& json, const std::string& pointer,
                                         const std::vector<StudyPtr>& studies, Errors& errors) {
    const JsonObject object(json, pointer, errors);
    const auto study = static_cast<std::size_t>(
        object.integer("study", 0, std::max<std::int64_t>(0, static_cast<std::int64_t>(studies.size()) - 1)));
    const std::string origin = object.string("origin");
    PlanEntry entry;
    entry.name = object.string_or("name", "");
    entry.tied = object.boolean_or("tied", false);
    entry.near_identical = static_cast<int>(object.integer_or("near_identical", 0, 0, 1 << 30));
    entry.front = object.boolean_or("front", false);
    object.require("plan");
    object.finish();
    const auto* known = std::ranges::find(kOrigins, origin);
    if (known == std::end(kOrigins))
        object.error("origin", "unknown '" + origin + "'", "found, kept, opened, infeasible");
    const Json* plan = object.find("plan");
    if (plan == nullptr || known == std::end(kOrigins) || study >= studies.size() || !studies[study])
        return {};
    entry.origin = static_cast<PlanOrigin>(known - std::begin(kOrigins));
    entry.study = studies[study];
    auto read = plan_from_json(*plan, entry.study->document.graph, pointer + "/plan");
    if (!read) {
        errors.insert(errors.end(), read.errors().begin(), read.errors().end());
        return {};
    }
    entry.plan = std::move(*read);
    entry.errors = check_plan(entry.study->document.graph, entry.study->document.cluster, entry.plan).errors;
    entry.evaluation.fits = false;
    if (!entry.errors.empty()) return entry;
    const auto evaluation = entry.study->simulator->evaluate(entry.plan);
    if (!evaluation) {
        entry.errors = evaluation.errors();
        return entry;
    }
    entry.evaluation = *evaluation;
    if (entry.origin == PlanOrigin::Infeasible && !evaluation->fits)
        entry.errors.push_back(
            {ErrorCode::Infeasible,
             needs_memory(evaluation->required_bytes, entry.study->environment->usable_memory()), "memory",
             ""});
    return entry;
}

void window_from_json(const Json& json, const std::string& pointer, Session& session, Errors& errors) {
    const JsonObject object(json, pointer, errors);
    session.layout_base64 = object.string_or("layout", "");
    session.theme = object.string_or("theme", "");
    if (const Json* timeline = object.find("timeline")) session.timeline = timeline->dump();
    object.finish();
}

}  // namespace

std::string session_to_text(const Session& session) {
    Json json = {{"schema", "trainwright/session"},
                 {"version", kSessionVersion},
                 {"setup", setup_to_json(session.setup)}};
    const std::vector<StudyPtr> studies = studies_of(session);
    json["studies"] = Json::array();
    for (const StudyPtr& study : studies)
        json["studies"].push_back(study_to_json(*study));
    json["plans"] = Json::array();
    for (const PlanEntry& entry : session.plans) {
        json["plans"].push_back(Json{{"study", std::ranges::find(studies, entry.study) - studies.begin()},
                                     {"origin", kOrigins[static_cast<std::size_t>(entry.origin)]},
                                     {"name", entry.name},
                                     {"tied", entry.tied},
                                     {"plan", plan_to_json(entry.plan)}});
        if (entry.near_identical > 0) json["plans"].back()["near_identical"] = entry.near_identical;
        if (entry.front) json["plans"].back()["front"] = true;
    }
    json["selected"] = session.selected;
    if (session.edited) json["edited"] = plan_to_json(*session.edited);
    json["pins"] = {session.pins[0], session.pins[1]};
    json["measured"] = Json::array();
    for (const SessionTrace& measured : session.measured) {
        Json one = {{"path", measured.path}};
        if (measured.trace) {
            std::ostringstream text;
            write_trace(*measured.trace, text);
            const auto trace = parse_json(text.str(), measured.path);
            if (trace) one["trace"] = *trace;
        }
        if (!measured.content.empty()) one["content"] = measured.content;
        json["measured"].push_back(std::move(one));
    }
    if (!session.files.empty()) json["files"] = Json::array();
    for (const SessionFile& file : session.files) {
        Json one = {{"path", file.path}};
        if (!file.text.empty()) one["text"] = file.text;
        json["files"].push_back(std::move(one));
    }
    Json& window = json["window"];
    window = {{"layout", session.layout_base64}, {"theme", session.theme}};
    if (!session.timeline.empty()) {
        const auto timeline = parse_json(session.timeline, "timeline");
        if (timeline) window["timeline"] = *timeline;
    }
    return json.dump(1) + "\n";
}

std::string session_to_text(Session& session, std::size_t most, std::vector<std::string>& named) {
    std::string text = session_to_text(session);
    if (text.size() <= most) return text;
    for (SessionTrace& measured : session.measured)
        if (std::exchange(measured.trace, nullptr)) named.push_back(measured.path);
    return named.empty() ? text : session_to_text(session);
}

Result<Session> session_from_text(std::string_view text, std::string_view name) {
    const auto json = parse_json(text, name);
    if (!json) return json.errors();
    Errors errors;
    const std::string at(name);
    const JsonObject object(*json, at, errors);
    // What another kind of document or a newer version has, nobody here can judge.
    if (const Json* version = object.find("version"); version != nullptr && version->is_number_unsigned() &&
                                                      version->get<std::uint64_t>() > kSessionVersion) {
        object.error("version",
                     fmt::format("{} is newer than {}, the newest that this program reads",
                                 version->get<std::uint64_t>(), kSessionVersion),
                     "open it with the trainwright-gui that wrote it");
        return errors;
    }
    read_schema(object, "session", kSessionVersion);
    if (!errors.empty()) return errors;
    Session session;
    if (const Json* setup = object.find("setup"))
        session.setup = setup_from_json(*setup, at + "/setup", errors);
    std::vector<StudyPtr> studies;
    for (const Json& study : object.array("studies"))
        studies.push_back(study_from_json(study, fmt::format("{}/studies/{}", at, studies.size()), errors));
    std::size_t index = 0;
    for (const Json& plan : object.array("plans")) {
        auto entry = entry_from_json(plan, fmt::format("{}/plans/{}", at, index++), studies, errors);
        if (!entry) continue;
        entry->id = static_cast<int>(session.plans.size()) + 1;
        session.plans.push_back(std::move(*entry));
    }
    const auto count = static_cast<std::int64_t>(session.plans.size());
    session.selected = static_cast<int>(object.integer_or("selected", 0, 0, count));
    if (const Json* edited = object.find("edited"); edited != nullptr && session.selected > 0) {
        const StudyPtr& study = session.plans[static_cast<std::size_t>(session.selected) - 1].study;
        auto plan = plan_from_json(*edited, study->document.graph, at + "/edited");
        if (plan) session.edited = std::move(*plan);
        if (!plan) errors.insert(errors.end(), plan.errors().begin(), plan.errors().end());
    }
    if (object.has("pins")) {
        const Json& pins = object.array("pins");
        for (std::size_t side = 0; side < std::min<std::size_t>(2, pins.size()); ++side)
            if (pins[side].is_number_integer() && pins[side].get<std::int64_t>() >= 0 &&
                pins[side].get<std::int64_t>() <= count)
                session.pins[side] = pins[side].get<int>();
    }
    if (object.has("measured"))
        for (const Json& one : object.array("measured")) {
            const JsonObject measured(one, fmt::format("{}/measured/{}", at, session.measured.size()),
                                      errors);
            SessionTrace trace;
            trace.path = measured.string("path");
            if (const Json* document = measured.find("trace")) {
                auto read = trace_from_json(*document);
                if (read) trace.trace = std::make_shared<const Trace>(std::move(*read));
                if (!read) errors.insert(errors.end(), read.errors().begin(), read.errors().end());
            }
            if (measured.has("content"))
                for (const Json& piece : measured.array("content")) {
                    if (piece.is_string()) {
                        trace.content.push_back(piece.get<std::string>());
                    } else {
                        measured.error("content", "has a piece that is no text");
                    }
                }
            measured.finish();
            session.measured.push_back(std::move(trace));
        }
    if (object.has("files"))
        for (const Json& one : object.array("files")) {
            const JsonObject file(one, fmt::format("{}/files/{}", at, session.files.size()), errors);
            session.files.push_back({file.string("path"), file.string_or("text", "")});
            file.finish();
        }
    if (const Json* window = object.find("window"))
        window_from_json(*window, at + "/window", session, errors);
    object.finish();
    if (!errors.empty()) return errors;
    return session;
}

}  // namespace tw::gui

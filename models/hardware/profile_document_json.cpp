#include "models/hardware/profile_document_json.hpp"

#include "base/document_kind.hpp"
#include "models/hardware/cluster_json.hpp"
#include "models/hardware/profile_json.hpp"

namespace tw {
namespace {

constexpr double kHuge = 1e30;
constexpr std::size_t kMostShapeNames = 16;

// Version 1 had no samples, environment or cluster: what it says, version 2 says in the same words.
Json migrate_1_to_2(Json document) {
    document["version"] = 2;
    return document;
}

SampleSeries read_series(const Json& value, const std::string& pointer, Errors& errors) {
    const JsonObject o(value, pointer, errors);
    SampleSeries series;
    series.benchmark = o.string("benchmark");
    series.variant = o.string_or("variant", "");
    series.unit = o.string("unit");
    series.calls = static_cast<int>(o.integer_or("calls", 1, 1, 1 << 30));
    if (const Json* shape = o.find("shape")) {
        const JsonObject s(*shape, o.pointer("shape"), errors);
        if (shape->is_object()) {
            if (shape->size() > kMostShapeNames)
                o.error("shape", "at most " + std::to_string(kMostShapeNames) + " numbers");
            for (const auto& [name, number] : shape->items())
                series.shape.emplace_back(name, s.number(name, -kHuge, kHuge));
        }
    }
    const Json& values = o.array("values");
    if (o.has("values") && values.empty()) o.error("values", "a series has at least one sample");
    for (const Json& sample : values) {
        if (!sample.is_number()) {
            o.error("values", "numbers only");
            break;
        }
        const double number = sample.get<double>();
        if (!(number >= 0 && number <= kHuge)) o.error("values", "samples lie in [0, 1e30]");
        series.values.push_back(number);
    }
    o.finish();
    return series;
}

Json series_json(const SampleSeries& series) {
    Json o;
    o["benchmark"] = series.benchmark;
    if (!series.variant.empty()) o["variant"] = series.variant;
    if (!series.shape.empty()) {
        o["shape"] = Json::object();
        for (const auto& [name, number] : series.shape)
            o["shape"][name] = number;
    }
    o["unit"] = series.unit;
    if (series.calls != 1) o["calls"] = series.calls;
    o["values"] = series.values;
    return o;
}

// The texts of an environment and their keys.
constexpr std::pair<const char*, std::string MeasuredEnvironment::*> kTexts[] = {
    {"tool", &MeasuredEnvironment::tool},           {"host", &MeasuredEnvironment::host},
    {"system", &MeasuredEnvironment::system},       {"processor", &MeasuredEnvironment::processor},
    {"compiler", &MeasuredEnvironment::compiler},   {"backend", &MeasuredEnvironment::backend},
    {"transport", &MeasuredEnvironment::transport}, {"noise_verdict", &MeasuredEnvironment::noise_verdict}};

MeasuredEnvironment read_environment(const Json& value, Errors& errors) {
    const JsonObject o(value, "/environment", errors);
    MeasuredEnvironment e;
    e.date = o.string("date");
    for (const auto& [key, member] : kTexts)
        e.*member = o.string_or(key, "");
    e.cores = static_cast<int>(o.integer_or("cores", 0, 0, 1 << 20));
    e.ranks = static_cast<int>(o.integer_or("ranks", 1, 1, 1 << 20));
    e.threads = static_cast<int>(o.integer_or("threads", 1, 1, 1 << 20));
    e.multiprocessors = static_cast<int>(o.integer_or("multiprocessors", 0, 0, 1 << 20));
    e.seconds = o.number_or("measured_for_s", 0, 0, kHuge);
    e.harness_overhead = o.number_or("harness_overhead", 0, 0, 1);
    e.noise = o.number_or("noise", 0, 0, kHuge);
    e.complete = o.boolean_or("complete", true);
    if (o.has("missing")) {
        for (const Json& one : o.array("missing")) {
            if (one.is_string()) {
                e.missing.push_back(one.get<std::string>());
            } else {
                o.error("missing", "texts only");
            }
        }
    }
    o.finish();
    return e;
}

Json environment_json(const MeasuredEnvironment& e) {
    Json o;
    o["date"] = e.date;
    for (const auto& [key, member] : kTexts) {
        if (!(e.*member).empty()) o[key] = e.*member;
    }
    if (e.cores > 0) o["cores"] = e.cores;
    o["ranks"] = e.ranks;
    o["threads"] = e.threads;
    if (e.multiprocessors > 0) o["multiprocessors"] = e.multiprocessors;
    o["measured_for_s"] = e.seconds;
    o["harness_overhead"] = e.harness_overhead;
    o["noise"] = e.noise;
    o["complete"] = e.complete;
    if (!e.missing.empty()) o["missing"] = e.missing;
    return o;
}

std::optional<Cluster> read_cluster(const JsonObject& o, Errors& errors) {
    const Json* value = o.find("cluster");
    if (value == nullptr) return std::nullopt;
    auto cluster = cluster_from_json(*value, "/cluster");
    if (!cluster) {
        errors.insert(errors.end(), cluster.errors().begin(), cluster.errors().end());
        return std::nullopt;
    }
    if (!cluster->profile.empty())
        o.error("cluster", "the cluster inside a profile is timed by that profile and names no other");
    return *cluster;
}

void read_samples(const JsonObject& o, ProfileDocument& result, Errors& errors) {
    if (const Json* value = o.find("environment")) result.environment = read_environment(*value, errors);
    if (!o.has("samples")) return;
    std::size_t index = 0;
    for (const Json& value : o.array("samples"))
        result.samples.push_back(read_series(value, "/samples/" + std::to_string(index++), errors));
}

// Interrupted before there was a curve.
bool is_unfitted(const Json& document) {
    const auto environment = document.find("environment"), gemm = document.find("gemm");
    return environment != document.end() && environment->is_object() &&
           environment->value("complete", Json(true)) == Json(false) && gemm != document.end() &&
           gemm->is_array() && gemm->empty();
}

}  // namespace

Result<ProfileDocument> decode_measured_samples(const Json& document, std::string_view name) {
    if (const Status kind = check_document_kind(document, "profile", name); !kind) return kind.errors();
    Errors errors;
    const JsonObject o(document, "", errors);
    (void)read_schema(o, "profile", kProfileVersion);
    ProfileDocument result;
    read_samples(o, result, errors);
    if (!errors.empty()) return errors;
    return result;
}

Result<ProfileDocument> decode_profile_document(const Json& document, std::string_view name) {
    if (const Status kind = check_document_kind(document, "profile", name); !kind) return kind.errors();
    Errors errors;
    const JsonObject head(document, "", errors);
    const int version = read_schema(head, "profile", kProfileVersion);
    const Json newest =
        errors.empty() && version == 1 ? migrate_1_to_2(document) : Json(nullptr);  // else read in place
    const JsonObject o(newest.is_null() ? document : newest, "", errors);
    if (document.is_object() && is_unfitted(document)) {
        return Error{ErrorCode::Unreadable, "was interrupted before anything could be fitted to its samples",
                     std::string(name) + ": /environment/complete", "the command that measured it goes on"};
    }
    ProfileDocument result;
    if (document.is_object()) {
        (void)o.has("schema");
        (void)o.has("version");
        result.profile = read_profile(o, errors);
        read_samples(o, result, errors);
        result.cluster = read_cluster(o, errors);
        o.finish();
    }
    for (Error& error : errors)
        error.context = std::string(name) + ": " + error.context;
    if (!errors.empty()) return errors;
    return result;
}

Result<HardwareProfile> decode_profile(const Json& document, std::string_view name) {
    auto whole = decode_profile_document(document, name);
    if (!whole) return whole.errors();
    return std::move(whole->profile);
}

Json encode_profile_document(const ProfileDocument& document) {
    Json o = encode_profile(document.profile);
    if (document.environment) o["environment"] = environment_json(*document.environment);
    if (document.cluster) o["cluster"] = cluster_to_json(*document.cluster);
    if (!document.samples.empty()) {
        o["samples"] = Json::array();
        for (const SampleSeries& series : document.samples)
            o["samples"].push_back(series_json(series));
    }
    return o;
}

std::string profile_document_text(const ProfileDocument& document) {
    const std::string indented =
        encode_profile_document(document).dump(1, ' ', false, Json::error_handler_t::replace);
    std::string text;
    std::size_t i = 0;
    while (i < indented.size()) {
        if (indented[i] == '[') {
            const std::size_t end = indented.find_first_of("]{\"", i + 1);
            if (end != std::string::npos && indented[end] == ']') {
                for (; i <= end; ++i) {
                    const char c = indented[i];
                    if (c == '\n' || c == ' ') continue;
                    text += c;
                    if (c == ',') text += ' ';
                }
                continue;
            }
        }
        text += indented[i++];
    }
    return text + "\n";
}

}  // namespace tw

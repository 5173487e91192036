#include "sim/scenario/scenario_json.hpp"

#include <filesystem>
#include <string>

#include "base/document_kind.hpp"
#include "base/nearest.hpp"
#include "models/hardware/cluster.hpp"

namespace tw {
namespace {

constexpr std::int64_t kMaxIndex = kMaxClusterDevices - 1;
constexpr double kMaxTimeFactor = 1e3, kMinRateFactor = 1e-3;
constexpr double kMaxDelay = 1e4, kMaxSigma = 2;

std::string entry_pointer(const JsonObject& object, std::string_view key, std::size_t index) {
    return object.pointer(key) + "/" + std::to_string(index);
}

// Visits the objects of an optional array.
template <class Visit>
void for_each_entry(const JsonObject& object, std::string_view key, Errors& errors, Visit&& visit) {
    if (!object.has(key)) return;
    const Json& entries = object.array(key);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const JsonObject entry(entries[i], entry_pointer(object, key, i), errors);
        if (!entries[i].is_object()) continue;  // recorded
        visit(entry);
        entry.finish();
    }
}

Scenario::Where where_from_json(const JsonObject& entry) {
    Scenario::Where where;
    const bool rank = entry.has("rank"), node = entry.has("node");
    if (rank == node) {
        entry.error(rank ? "node" : "rank", rank ? "a rank and a node: one of them says where"
                                                 : "required key is missing: a rank or a node says where");
    }
    if (rank) where.rank = static_cast<int>(entry.integer("rank", 0, kMaxIndex));
    if (node && !rank) where.node = static_cast<int>(entry.integer("node", 0, kMaxIndex));
    return where;
}

bool is_backward_phase(const JsonObject& entry) {
    const std::vector<std::string> names = {"forward", "backward"};
    const std::string name = entry.string_or("phase", "backward");
    if (name != names[0] && name != names[1])
        entry.error("phase", "unknown name '" + name + "'", unknown_name_hint(name, names));
    return name != names[0];
}

Json where_to_json(const Scenario::Where& where) {
    return where.rank >= 0 ? Json{{"rank", where.rank}} : Json{{"node", where.node}};
}

}  // namespace

Result<Scenario> scenario_from_json(const Json& json, std::string_view name) {
    Errors errors;
    const JsonObject object(json, "", errors);
    if (!json.is_object()) {
        errors.front().context = name;
        return errors;
    }
    if (const Status kind = check_document_kind(json, "scenario", name); !kind) return kind.errors();
    read_schema(object, "scenario", kScenarioVersion);
    Scenario scenario;
    for_each_entry(object, "slow_ranks", errors, [&](const JsonObject& entry) {
        const Scenario::Where where = where_from_json(entry);
        scenario.slow_ranks.push_back(
            {where, entry.number("time_factor", 1 / kMaxTimeFactor, kMaxTimeFactor)});
    });
    for_each_entry(object, "delays", errors, [&](const JsonObject& entry) {
        const Scenario::Where where = where_from_json(entry);
        const bool backward = is_backward_phase(entry);
        scenario.delays.push_back({where, backward, entry.number("seconds", 0, kMaxDelay)});
    });
    for_each_entry(object, "slow_nics", errors, [&](const JsonObject& entry) {
        Scenario::SlowNic slow;
        slow.node = static_cast<int>(entry.integer("node", 0, kMaxIndex));
        slow.nic = static_cast<int>(entry.integer_or("nic", -1, 0, kMaxIndex));
        slow.rate_factor = entry.number("rate_factor", kMinRateFactor, 1);
        scenario.slow_nics.push_back(slow);
    });
    for_each_entry(object, "dead_nics", errors, [&](const JsonObject& entry) {
        const int node = static_cast<int>(entry.integer("node", 0, kMaxIndex));
        scenario.dead_nics.push_back({node, static_cast<int>(entry.integer("nic", 0, kMaxIndex))});
    });
    if (const Json* value = object.find("jitter"); value != nullptr) {
        const JsonObject jitter(*value, object.pointer("jitter"), errors);
        if (value->is_object()) {
            scenario.jitter.seed = static_cast<std::uint64_t>(
                jitter.integer_or("seed", 1, 0, std::numeric_limits<std::int64_t>::max()));
            scenario.jitter.compute_sigma = jitter.number_or("compute_sigma", 0, 0, kMaxSigma);
            scenario.jitter.communication_sigma = jitter.number_or("communication_sigma", 0, 0, kMaxSigma);
            jitter.finish();
        }
    }
    scenario.steps =
        static_cast<int>(object.integer_or("steps", scenario.jitter.any() ? 10 : 1, 1, kMaxScenarioSteps));
    scenario.contention = object.boolean_or("contention", true);
    scenario.all_ranks = object.boolean_or("all_ranks", false);
    object.finish();
    if (errors.empty()) return scenario;
    for (Error& error : errors)
        error.context = std::string(name) + ": " + error.context;
    return errors;
}

Result<Scenario> read_scenario(std::string_view path) {
    const auto json = read_json_file(std::string(path));
    if (!json) return json.errors();
    return scenario_from_json(*json, path);
}

Json scenario_to_json(const Scenario& scenario) {
    Json json{{"schema", "trainwright/scenario"}, {"version", kScenarioVersion}};
    Json& slow_ranks = json["slow_ranks"] = Json::array();
    for (const Scenario::SlowRank& slow : scenario.slow_ranks) {
        slow_ranks.push_back(where_to_json(slow.where));
        slow_ranks.back()["time_factor"] = slow.time_factor;
    }
    Json& delays = json["delays"] = Json::array();
    for (const Scenario::Delay& delay : scenario.delays) {
        delays.push_back(where_to_json(delay.where));
        delays.back()["phase"] = delay.backward ? "backward" : "forward";
        delays.back()["seconds"] = delay.seconds;
    }
    Json& slow_nics = json["slow_nics"] = Json::array();
    for (const Scenario::SlowNic& slow : scenario.slow_nics) {
        slow_nics.push_back({{"node", slow.node}});
        if (slow.nic >= 0) slow_nics.back()["nic"] = slow.nic;
        slow_nics.back()["rate_factor"] = slow.rate_factor;
    }
    Json& dead_nics = json["dead_nics"] = Json::array();
    for (const Scenario::DeadNic& dead : scenario.dead_nics)
        dead_nics.push_back({{"node", dead.node}, {"nic", dead.nic}});
    json["jitter"] = {{"seed", scenario.jitter.seed},
                      {"compute_sigma", scenario.jitter.compute_sigma},
                      {"communication_sigma", scenario.jitter.communication_sigma}};
    json["steps"] = scenario.steps;
    json["contention"] = scenario.contention;
    json["all_ranks"] = scenario.all_ranks;
    return json;
}

Json scenario_result_to_json(const ScenarioResult& result) {
    Json json{{"schema", "trainwright/scenario-result"},
              {"version", 1},
              {"mean_step_s", result.mean_step_s},
              {"max_step_s", result.max_step_s},
              {"step_s", result.step_s},
              {"clean_step_s", result.clean_step_s},
              {"nominal_step_s", result.nominal_step_s},
              {"slowdown", result.slowdown},
              {"straggler", result.straggler >= 0 ? Json(result.straggler) : Json(nullptr)},
              {"straggler_delay_s", result.straggler_delay_s},
              {"symmetry", result.symmetry},
              {"programs", result.programs},
              {"events", result.events},
              {"slowed_share", result.slowed_share}};
    Json& ranks = json["ranks"] = Json::array();
    for (const ScenarioRank& rank : result.ranks) {
        ranks.push_back({{"rank", rank.rank},
                         {"pipeline_rank", rank.pipeline_rank},
                         {"alike", rank.alike},
                         {"busy_s", rank.busy_s},
                         {"idle_s", rank.idle_s},
                         {"wait_s", rank.wait_s},
                         {"excess_wait_s", rank.excess_wait_s},
                         {"excess_idle_s", rank.excess_idle_s}});
    }
    return json;
}

}  // namespace tw

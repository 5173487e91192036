#include "sim/report/report_json.hpp"

#include <string>

#include "plan/plan_json.hpp"

namespace tw {
namespace {

Json known(double value) {
    return value > 0 ? Json(value) : Json(nullptr);
}

Json breakdown_to_json(const TimeBreakdown& b) {
    return Json{{"forward_s", b.forward},
                {"backward_s", b.backward},
                {"recompute_s", b.recompute},
                {"optimizer_s", b.optimizer},
                {"exposed_tp_s", b.exposed_tp},
                {"exposed_dp_s", b.exposed_dp},
                {"exposed_pp_s", b.exposed_pp},
                {"exposed_cp_s", b.exposed_cp},
                {"exposed_ep_s", b.exposed_ep},
                {"exposed_offload_s", b.exposed_offload},
                {"slowed_s", b.slowed},
                {"stash_s", b.stash},
                {"host_s", b.host},
                {"bubble_s", b.bubble}};
}

Json rank_to_json(const RankReport& rank) {
    return Json{{"rank", rank.rank},
                {"busy_s", rank.busy_s},
                {"idle_s", rank.idle_s},
                {"bubble_fraction", rank.bubble_fraction},
                {"peak_in_flight", rank.peak_in_flight},
                {"weight_versions", rank.weight_versions},
                {"breakdown", breakdown_to_json(rank.breakdown)}};
}

Json addends_to_json(const std::vector<MemoryAddend>& addends) {
    Json json = Json::array();
    for (const MemoryAddend& addend : addends)
        json.push_back(Json{{"name", addend.name}, {"bytes", addend.bytes}, {"formula", addend.formula}});
    return json;
}

Json memory_to_json(const StageMemory& memory) {
    return Json{{"rank", memory.rank},
                {"peak_allocated_bytes", memory.peak_allocated_bytes},
                {"peak_reserved_bytes", memory.peak_reserved_bytes},
                {"device_bytes", memory.device_bytes},
                {"initialisation_peak_bytes", memory.initialisation_peak_bytes},
                {"capacity_bytes", memory.capacity_bytes},
                {"fits", memory.fits()},
                {"peak_instant", memory.peak_instant},
                {"required_bytes", memory.required_bytes},
                {"addends", addends_to_json(memory.addends)},
                {"beside", addends_to_json(memory.beside)}};
}

Json communication_to_json(const CommunicationReport& communication) {
    return Json{
        {"kind", communication.kind},           {"total_s", communication.total_s},
        {"exposed_s", communication.exposed_s}, {"hidden_s", communication.total_s - communication.exposed_s},
        {"bytes", communication.bytes},         {"algorithm", communication.algorithm}};
}

void add_members(Json& json, const SimulationReport& report) {
    json["plan"] = plan_to_json(report.plan);
    json["summary"] = summary(report.plan);
    json["step_time_s"] = report.step_time_s;
    json["step_time_sigma_s"] = report.step_time_sigma_s;
    json["makespan_s"] = report.makespan_s;
    json["boundary"] = std::string(to_string(report.boundary));
    json["tokens_per_s"] = report.tokens_per_s;
    json["samples_per_s"] = report.samples_per_s;
    json["mfu"] = report.mfu;
    json["hfu"] = report.hfu;
    json["flop_convention"] = report.flop_convention;
    json["model_flops"] = report.model_flops;
    json["hardware_flops"] = report.hardware_flops;
    json["bubble_fraction"] = report.bubble_fraction;
    json["peak_allocated_bytes"] = report.peak_allocated_bytes;
    json["peak_reserved_bytes"] = report.peak_reserved_bytes;
    json["peak_device_bytes"] = report.peak_device_bytes;
    json["fits"] = report.fits;
    if (report.vocabulary > 0) {
        json["vocabulary"] = report.vocabulary;
        json["padded_vocabulary"] = report.padded_vocabulary;
    }
    json["executable"] = report.not_executable.empty();
    json["not_executable"] = report.not_executable;
    json["energy_j"] = known(report.energy_j);
    json["usd_per_step"] = known(report.usd_per_step);
    json["per_rank"] = Json::array();
    for (const RankReport& rank : report.ranks)
        json["per_rank"].push_back(rank_to_json(rank));
    json["memory"] = Json::array();
    for (const StageMemory& memory : report.memory)
        json["memory"].push_back(memory_to_json(memory));
    json["communication"] = Json::array();
    for (const CommunicationReport& c : report.communication)
        json["communication"].push_back(communication_to_json(c));
    if (!report.gradient_sync.method.empty())
        json["gradient_sync"] = gradient_sync_to_json(report.gradient_sync);
    if (!report.critical_path.empty()) json["critical_path"] = report.critical_path;
    json["warnings"] = report.warnings;
}

}  // namespace

Json report_to_json(const SimulationReport& report) {
    Json json = Json::object();
    add_members(json, report);
    return json;
}

Json report_document_to_json(const SimulationReport& report) {
    Json json{{"schema", "trainwright/report"}, {"version", 1}};
    add_members(json, report);
    return json;
}

}  // namespace tw

#include "sim/validate/validate_json.hpp"

namespace tw {
namespace {

Json errors_to_json(const ErrorScore& s) {
    if (s.compared == 0)
        return {{"mape", nullptr}, {"median_ape", nullptr}, {"p90_ape", nullptr}, {"bias", nullptr}};
    return {{"mape", s.mape}, {"median_ape", s.median_ape}, {"p90_ape", s.p90_ape}, {"bias", s.bias}};
}

Json figure(double value) {
    return value > 0 ? Json(value) : Json(nullptr);
}

Json source_to_json(const SourceScore& s) {
    const bool time = s.time_blind.compared > 0;
    Json t = errors_to_json(s.time);
    t["mape_blind"] = time ? Json(s.time_blind.mape) : Json(nullptr);
    t["bias_blind"] = time ? Json(s.time_blind.bias) : Json(nullptr);
    t["kendall_tau"] = s.kendall_tau ? Json(*s.kendall_tau) : Json(nullptr);
    t["compared"] = s.time_blind.compared;
    t["sweeps"] = s.sweeps;
    t["coverage_80"] = time ? Json(s.coverage) : Json(nullptr);
    t["coverage_80_blind"] = time ? Json(s.coverage_blind) : Json(nullptr);
    Json m = errors_to_json(s.memory);
    m["compared"] = s.memory.compared;
    const Confusion& c = s.out_of_memory;
    return {{"file", s.file},
            {"rows", s.rows},
            {"compared", s.compared},
            {"time", std::move(t)},
            {"memory", std::move(m)},
            {"out_of_memory",
             {{"true_positive", c.true_positive},
              {"false_positive", c.false_positive},
              {"false_negative", c.false_negative},
              {"true_negative", c.true_negative}}}};
}

Json row_to_json(const ValidationRow& row) {
    const char* status = row.compared ? "compared" : "not_comparable";
    return {{"file", row.truth.file},
            {"id", row.truth.id},
            {"status", status},
            {"reason", row.compared ? Json(nullptr) : Json(row.reason)},
            {"predicted_step_time_s", row.compared ? figure(row.calibrated_step_time_s) : Json(nullptr)},
            {"predicted_step_time_blind_s", row.compared ? figure(row.blind.step_time_s) : Json(nullptr)},
            {"sigma_s", row.compared ? figure(row.calibrated_sigma_s) : Json(nullptr)},
            {"sigma_blind_s", row.compared ? figure(row.blind.sigma_s) : Json(nullptr)},
            {"measured_step_time_s", figure(row.truth.step_time_s)},
            {"predicted_memory_bytes", row.compared ? figure(row.blind.memory_bytes) : Json(nullptr)},
            {"measured_memory_bytes", figure(row.truth.memory_bytes)},
            {"predicted_out_of_memory", row.compared ? Json(!row.blind.fits) : Json(nullptr)},
            {"measured_out_of_memory", row.truth.status == TruthStatus::OutOfMemory},
            {"calibrates", row.calibrates},
            {"framework", row.compared ? Json(row.framework) : Json(nullptr)},
            {"plan", row.compared ? Json(row.plan) : Json(nullptr)},
            {"assumed", row.assumed}};
}

}  // namespace

Json validation_to_json(const ValidationReport& report) {
    Json json = {{"schema", "trainwright/validation"}, {"version", 1}};
    json["sources"] = Json::array();
    for (const SourceScore& s : report.sources)
        json["sources"].push_back(source_to_json(s));
    json["unread"] = Json::array();
    for (const Error& error : report.unread)
        json["unread"].push_back({{"file", error.context}, {"reason", error.message}});
    json["rows"] = Json::array();
    for (const ValidationRow& row : report.rows)
        json["rows"].push_back(row_to_json(row));
    json["calibrations"] = Json::array();
    for (const Calibration& c : report.calibrations) {
        json["calibrations"].push_back({{"file", c.file},
                                        {"framework", c.framework},
                                        {"gpu", c.gpu},
                                        {"dispatch_factor", c.dispatch_factor},
                                        {"dispatch_sigma", c.dispatch_sigma},
                                        {"rows", c.rows}});
    }
    return json;
}

}  // namespace tw

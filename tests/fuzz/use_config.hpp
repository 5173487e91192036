// A configuration that was read must also make a plan, or say why not: on the stand-ins that suit it, and by
// every framework's rules.
#pragma once

#include "models/load_model.hpp"
#include "plan/frameworks/import/import_config.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace tw::fuzz {

inline void use_config(TargetFramework framework, std::string_view text, const char* path) {
    (void)find_config_reader(text, path);
    const auto config = config_reader_of(framework)->read(text, path);
    require_value_or_refusal(config);
    if (!config) return;
    for (const StatedSetting& setting : config->settings)
        require(!setting.what.empty() && !setting.key.empty(), "a setting without its key");
    (void)stated_summary(*config);
    if (!config->model.is_null()) {
        const auto own =
            load_model_text(config->model.dump(-1, ' ', false, Json::error_handler_t::replace), path);
        require_value_or_refusal(own);
    }
    const auto model = load_model_text(stand_in_model(*config).dump(), "stand-in");
    require(model.has_value(), "a stand-in that is no model", model ? "" : to_string(model.errors()));
    Cluster cluster = *load_cluster("h100:8");
    cluster.groups.front().nodes = static_cast<int>(stand_in_devices(*config) / 8 + 1);
    Errors errors;
    const auto plan = complete_plan(*config, model->graph, cluster, errors);
    require(plan.has_value() || !errors.empty(), "no plan and no reason");
    if (!errors.empty()) require_refusal(errors);
    if (plan && plan->stage_count() <= 256) (void)check_plan(model->graph, cluster, *plan, framework);
}

}  // namespace tw::fuzz

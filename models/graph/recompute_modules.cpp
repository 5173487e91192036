#include "models/graph/recompute_modules.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.hpp"

namespace tw {

std::string_view to_string(RecomputeModule module) {
    switch (module) {
        case RecomputeModule::CoreAttention:
            return "core_attn";
        case RecomputeModule::ExpertActivation:
            return "moe_act";
        case RecomputeModule::Norm:
            return "layernorm";
        case RecomputeModule::LatentUpProjection:
            return "mla_up_proj";
        case RecomputeModule::Mlp:
            return "mlp";
        case RecomputeModule::Experts:
            return "moe";
        case RecomputeModule::SharedExperts:
            return "shared_experts";
    }
    TW_CHECK_MSG(false, "unknown recompute module");
}

std::vector<std::string> names_of(RecomputeModules modules) {
    std::vector<std::string> names;
    for (const RecomputeModule module : kRecomputeModules) {
        if (modules.has(module)) names.emplace_back(to_string(module));
    }
    return names;
}

std::string to_string(RecomputeModules modules) {
    return fmt::format("{}", fmt::join(names_of(modules), "+"));
}

Result<RecomputeModule> recompute_module_named(std::string_view name) {
    std::vector<std::string> names;
    for (const RecomputeModule module : kRecomputeModules) {
        if (to_string(module) == name) return module;
        names.emplace_back(to_string(module));
    }
    return Error{ErrorCode::Usage, fmt::format("unknown module '{}'", name), "",
                 unknown_name_hint(name, names)};
}

Result<RecomputeModules> recompute_modules_named(std::string_view names, char separator) {
    RecomputeModules modules;
    for (std::size_t begin = 0; begin <= names.size();) {
        const std::size_t end = std::min(names.find(separator, begin), names.size());
        const auto module = recompute_module_named(names.substr(begin, end - begin));
        if (!module) return module.error();
        modules.add(*module);
        begin = end + 1;
    }
    return modules;
}

}  // namespace tw

#include "profiler/fit/missing_parts.hpp"

#include <algorithm>

namespace tw {

std::vector<std::string> missing_parts(const HardwareProfile& p, std::string_view source) {
    std::vector<std::string> missing;
    const auto need = [&](bool there, const char* what) {
        if (!there) missing.emplace_back(what);
    };
    need(p.attention.size() == 2, "attention: too few shapes");
    need(p.memory_fit.source == source, "copies: too few sizes");
    need(!p.convolution.empty(), "convolution: too few shapes");
    need(!p.host.empty(), "host: no dispatch was timed");
    need(!p.collectives.empty(), "collectives: no two ranks measured together");
    need(std::any_of(p.interference.begin(), p.interference.end(),
                     [](const InterferenceEntry& e) { return e.beside == "ranks"; }),
         "interference: no two ranks computed together");
    return missing;
}

}  // namespace tw

#include "plan/collective_choice.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/nearest.hpp"

namespace tw {
namespace {

template <std::size_t N>
void check(std::string_view what, std::string_view name, const std::array<std::string_view, N>& legal,
           Errors& errors) {
    if (name.empty() || std::find(legal.begin(), legal.end(), name) != legal.end()) return;
    errors.push_back({ErrorCode::Unreadable, "unknown " + std::string(what) + " '" + std::string(name) + "'",
                      "", unknown_name_hint(name, std::vector<std::string>(legal.begin(), legal.end()))});
}

}  // namespace

Result<CollectiveChoice> parse_collective_choice(std::string_view text) {
    CollectiveChoice choice;
    const std::size_t slash = text.find('/');
    choice.algorithm = text.substr(0, slash);
    if (slash != std::string_view::npos) choice.protocol = text.substr(slash + 1);
    Errors errors;
    check("collective algorithm", choice.algorithm, kCollectiveAlgorithmNames, errors);
    check("protocol", choice.protocol, kCollectiveProtocolNames, errors);
    if (choice.algorithm.empty() && choice.protocol.empty()) {
        errors.push_back({ErrorCode::Unreadable, "neither an algorithm nor a protocol", "",
                          "an algorithm, a protocol or both: ring, /simple, ring/simple"});
    }
    if (!errors.empty()) return errors;
    return choice;
}

}  // namespace tw

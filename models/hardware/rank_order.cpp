#include "models/hardware/rank_order.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace tw {

int MeshDegrees::degree(Axis axis) const {
    switch (axis) {
        case Axis::Tp:
            return tp;
        case Axis::Cp:
            return cp;
        case Axis::Ep:
            return ep;
        case Axis::Etp:
            return etp;
        case Axis::Dp:
            return dp;
        case Axis::Edp:
            return static_cast<int>(edp());
        case Axis::Pp:
            return pp;
    }
    return 1;
}

Result<RankOrder> parse_rank_order(std::string_view text) {
    static constexpr std::array<std::pair<std::string_view, Axis>, 5> kNames = {
        {{"tp", Axis::Tp}, {"cp", Axis::Cp}, {"ep", Axis::Ep}, {"dp", Axis::Dp}, {"pp", Axis::Pp}}};
    const auto refuse = [&](const std::string& message) {
        return Error{ErrorCode::Usage, message, "rank order '" + std::string(text) + "'",
                     "axes innermost first, for example tp-cp-ep-dp-pp"};
    };
    std::vector<Axis> axes;
    axes.reserve(kNames.size());
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find('-', begin), text.size());
        const std::string_view name = text.substr(begin, end - begin);
        const auto* known =
            std::find_if(kNames.begin(), kNames.end(), [&](const auto& n) { return n.first == name; });
        if (known == kNames.end()) return refuse("unknown axis '" + std::string(name) + "'");
        if (std::find(axes.begin(), axes.end(), known->second) != axes.end()) {
            return refuse("axis '" + std::string(name) + "' is named twice");
        }
        axes.push_back(known->second);
        begin = end + 1;
    }
    const auto find = [&](Axis axis) { return std::find(axes.begin(), axes.end(), axis); };
    for (const auto& [name, axis] : {kNames[0], kNames[3], kNames[4]}) {
        if (find(axis) == axes.end()) return refuse("axis '" + std::string(name) + "' is missing");
    }
    if (find(Axis::Cp) == axes.end()) axes.insert(find(Axis::Tp) + 1, Axis::Cp);
    if (find(Axis::Ep) == axes.end()) axes.insert(find(Axis::Dp), Axis::Ep);
    RankOrder order;
    std::copy(axes.begin(), axes.end(), order.axes.begin());
    return order;
}

std::string to_string(const RankOrder& order) {
    std::string text;
    for (const Axis axis : order.axes) {
        if (!text.empty()) text += '-';
        text += to_string(axis);
    }
    return text;
}

}  // namespace tw

// nnScaler's communication profiles (microsoft/nnscaler, resources/profile/<device>/comm/intra_<n>.json):
// {"all gather": [[sizes], [seconds]], ...}. Sizes are MB of 2^20 bytes
// (nnscaler/profiler/benchmark_comm.py): of the whole tensor that the ranks gather or reduce; of all ranks'
// tensors together for all to all, where nccl-tests counts one rank's. Groups larger than a node are saved
// under the same kind of name.
#include <algorithm>

#include "models/formats/foreign_hardware.hpp"
#include "models/formats/foreign_json.hpp"
#include "models/formats/json_slice.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

constexpr int kSurelyOneNode = 8;

std::optional<CollectiveKind> kind_of(std::string_view name) {
    if (name == "all gather") return CollectiveKind::AllGather;
    if (name == "all reduce") return CollectiveKind::AllReduce;
    if (name == "reduce scatter") return CollectiveKind::ReduceScatter;
    if (name == "all to all") return CollectiveKind::AllToAll;
    return std::nullopt;
}

// "intra_8.json": the name alone tells the group's size.
int ranks_in(std::string_view name) {
    const auto at = name.rfind("intra_");
    if (at == std::string_view::npos) return 0;
    std::string_view digits = name.substr(at + 6);
    digits = digits.substr(0, digits.find('.'));
    const auto value = parse_integer(digits);
    return value && *value >= 2 && *value < 1 << 20 ? static_cast<int>(*value) : 0;
}

}  // namespace

bool is_nnscaler_comm(std::string_view text) {
    const std::string_view head = trim(text);
    if (!head.starts_with('{')) return false;
    json_slice::Members members(head);
    return members.next() && kind_of(members.key()).has_value() && members.value().starts_with('[');
}

Result<ForeignHardware> read_nnscaler_comm(std::string_view text, std::string_view name) {
    const auto json = foreign_object(text, name);
    if (!json) return json.errors();
    ForeignHardware hardware;
    hardware.about = "microsoft/nnscaler, nnscaler/resources/profile";
    const int ranks = ranks_in(name);
    std::size_t points = 0;
    for (const auto& item : json->items()) {
        const auto kind = kind_of(item.key());
        const Json& lists = item.value();
        const bool table = lists.is_array() && lists.size() == 2 && lists[0].is_array() &&
                           lists[1].is_array() && lists[0].size() == lists[1].size();
        if (!kind || !table) {
            hardware.findings.push_back(
                {"numbers-missing", quote(item.key()) + " is no pair of sizes and times"});
            continue;
        }
        ForeignSeries series;
        series.kind = *kind;
        series.group_size = ranks;
        series.nodes = ranks > kSurelyOneNode ? 0 : 1;
        for (std::size_t i = 0; i < lists[0].size(); ++i) {
            const Json& size = lists[0][i];
            const Json& time = lists[1][i];
            if (!size.is_number() || !time.is_number()) continue;
            const double share = *kind == CollectiveKind::AllToAll && ranks > 0 ? 1.0 / ranks : 1.0;
            const double bytes = size.get<double>() * 1048576 * share, seconds = time.get<double>();
            if (bytes > 0 && bytes < 1e15 && seconds > 0 && seconds < 1e6)
                series.points.push_back({bytes, seconds});
        }
        std::sort(series.points.begin(), series.points.end(),
                  [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
        points += series.points.size();
        hardware.series.push_back(std::move(series));
    }
    if (points == 0)
        return Error{ErrorCode::Unreadable, "no time in an nnScaler profile", std::string(name), ""};
    if (ranks == 0) {
        hardware.findings.push_back({"numbers-missing",
                                     "the file's name does not say among how many ranks "
                                     "(intra_8.json): the times are not used"});
    }
    if (ranks > kSurelyOneNode) {
        hardware.findings.push_back(
            {"hosts-unknown", "nnScaler saves groups of several nodes like those of one; " +
                                  std::to_string(ranks) + " ranks may be either"});
    }
    hardware.title = std::to_string(hardware.series.size()) + " collectives" +
                     (ranks > 0 ? " among " + std::to_string(ranks) + " ranks" : "") + ", " +
                     std::to_string(points) + " times";
    return hardware;
}

}  // namespace tw

#include "plan/fix_spec.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/nearest.hpp"
#include "models/hardware/cluster.hpp"
#include "plan/schedule/generator.hpp"

namespace tw {
namespace {

struct IntKey {
    std::string_view name;
    IntChoice PlanConstraints::*choice;
    std::int64_t low, high;
};

constexpr std::int64_t kMaxMicrobatch = std::int64_t{1} << 20;
constexpr std::array kIntKeys = {
    IntKey{"dp", &PlanConstraints::dp, 1, kMaxClusterDevices},
    IntKey{"tp", &PlanConstraints::tp, 1, kMaxClusterDevices},
    IntKey{"pp", &PlanConstraints::pp, 1, kMaxClusterDevices},
    IntKey{"vpp", &PlanConstraints::vpp, 1, kMaxClusterDevices},
    IntKey{"cp", &PlanConstraints::cp, 1, kMaxClusterDevices},
    IntKey{"ep", &PlanConstraints::ep, 1, kMaxClusterDevices},
    IntKey{"mbs", &PlanConstraints::mbs, 1, kMaxMicrobatch},
    IntKey{"zero", &PlanConstraints::zero, 0, 3},
};
constexpr std::array kRecomputeModes = {RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Full};

std::vector<std::string> key_names() {
    return {"dp", "tp", "sp", "pp", "vpp", "cp", "ep", "mbs", "zero", "recompute", "schedule"};
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    std::size_t begin = 0;
    while (true) {
        const std::size_t end = text.find(separator, begin);
        std::string_view part = text.substr(begin, end == std::string_view::npos ? end : end - begin);
        while (part.starts_with(' '))
            part.remove_prefix(1);
        while (part.ends_with(' '))
            part.remove_suffix(1);
        parts.push_back(part);
        if (end == std::string_view::npos) return parts;
        begin = end + 1;
    }
}

class FixParser {
  public:
    Result<PlanConstraints> parse(std::string_view spec) {
        if (split(spec, ',') != std::vector<std::string_view>{""}) {
            for (const std::string_view item : split(spec, ','))
                parse_item(item);
        }
        if (!errors_.empty()) return errors_;
        return constraints_;
    }

  private:
    void error(std::string message, std::string hint) {
        errors_.push_back({ErrorCode::Usage, std::move(message), "--fix", std::move(hint)});
    }

    void parse_item(std::string_view item) {
        const std::size_t equals = item.find('=');
        if (equals == std::string_view::npos) {
            error(fmt::format("'{}' is not of the form key=value", item),
                  "for example tp=8,mbs=1..4,recompute=none|full");
            return;
        }
        const std::string_view key = split(item.substr(0, equals), '=').front();
        const std::vector<std::string_view> choices = split(item.substr(equals + 1), '|');
        if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) {
            error(fmt::format("'{}' is given twice", key), fmt::format("{}={}|...", key, choices.front()));
            return;
        }
        seen_.emplace_back(key);
        for (const IntKey& row : kIntKeys) {
            if (row.name == key) return parse_integers(row, choices);
        }
        if (key == "sp") return parse_sp(choices);
        if (key == "recompute") return parse_recompute(choices);
        if (key == "schedule") return parse_schedule(choices);
        error(fmt::format("unknown key '{}'", key), unknown_name_hint(key, key_names()));
    }

    void parse_integers(const IntKey& key, const std::vector<std::string_view>& choices) {
        for (const std::string_view choice : choices) {
            const std::size_t dots = choice.find("..");
            const auto low = integer(key, choice.substr(0, dots));
            const auto high = dots == std::string_view::npos ? low : integer(key, choice.substr(dots + 2));
            if (!low || !high) continue;
            if (*low > *high) {
                error(fmt::format("{}={} is an empty range", key.name, choice),
                      fmt::format("{}={}..{}", key.name, *high, *low));
                continue;
            }
            (constraints_.*key.choice).ranges.push_back({*low, *high});
        }
    }

    std::optional<std::int64_t> integer(const IntKey& key, std::string_view text) {
        std::int64_t value = 0;
        const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (code == std::errc{} && end == text.data() + text.size() && value >= key.low && value <= key.high)
            return value;
        error(fmt::format("{}: '{}' is not an integer from {} to {}", key.name, text, key.low, key.high),
              fmt::format("{0}={1}, {0}={1}..{2} or {0}={1}|{2}", key.name, key.low, key.low + 1));
        return std::nullopt;
    }

    void parse_sp(const std::vector<std::string_view>& choices) {
        for (const std::string_view choice : choices) {
            if (choice != "on" && choice != "off") {
                error(fmt::format("sp: unknown value '{}'", choice),
                      unknown_name_hint(choice, {"on", "off"}));
                continue;
            }
            const std::int64_t value = choice == "on" ? 1 : 0;
            constraints_.sp.ranges.push_back({value, value});
        }
    }

    void parse_recompute(const std::vector<std::string_view>& choices) {
        for (const std::string_view choice : choices) {
            const auto mode = std::find_if(kRecomputeModes.begin(), kRecomputeModes.end(),
                                           [&](RecomputeMode m) { return to_string(m) == choice; });
            if (mode != kRecomputeModes.end()) {
                constraints_.recompute.words.push_back(*mode);
            } else {
                error(fmt::format("recompute: unknown value '{}'", choice),
                      unknown_name_hint(choice, {"none", "selective", "full"}));
            }
        }
    }

    void parse_schedule(const std::vector<std::string_view>& choices) {
        for (const std::string_view choice : choices) {
            const auto generator = find_schedule(choice);
            if (generator) {
                constraints_.schedule.words.emplace_back(choice);
            } else {
                error(generator.error().message, generator.error().hint);
            }
        }
    }

    PlanConstraints constraints_;
    std::vector<std::string> seen_;
    Errors errors_;
};

}  // namespace

bool IntChoice::allows(std::int64_t value) const {
    return ranges.empty() || std::any_of(ranges.begin(), ranges.end(), [value](const Range& range) {
               return value >= range.low && value <= range.high;
           });
}

bool PlanConstraints::allows(const ParallelPlan& plan) const {
    const bool stages = std::all_of(plan.stages.begin(), plan.stages.end(), [this](const StageSpec& stage) {
        return recompute.allows(stage.recompute);
    });
    return dp.allows(plan.mesh.dp) && tp.allows(plan.mesh.tp) && pp.allows(plan.mesh.pp) &&
           cp.allows(plan.mesh.cp) && ep.allows(plan.mesh.ep) && vpp.allows(plan.virtual_stages) &&
           mbs.allows(plan.microbatch) && zero.allows(plan.zero_stage) &&
           sp.allows(plan.sequence_parallel ? 1 : 0) && stages &&
           (!plan.stages.empty() || recompute.allows(plan.recompute)) && schedule.allows(plan.schedule);
}

Result<PlanConstraints> parse_fix(std::string_view spec) {
    return FixParser().parse(spec);
}

std::string to_string(const PlanConstraints& constraints) {
    std::string text;
    const auto item = [&text](std::string_view key, const std::vector<std::string>& choices) {
        if (choices.empty()) return;
        text += fmt::format("{}{}=", text.empty() ? "" : ",", key);
        for (std::size_t i = 0; i < choices.size(); ++i)
            text += fmt::format("{}{}", i > 0 ? "|" : "", choices[i]);
    };
    std::vector<std::string> choices;
    for (const IntKey& key : kIntKeys) {
        choices.clear();
        for (const IntChoice::Range& range : (constraints.*key.choice).ranges) {
            choices.push_back(range.low == range.high ? fmt::format("{}", range.low)
                                                      : fmt::format("{}..{}", range.low, range.high));
        }
        item(key.name, choices);
    }
    choices.clear();
    for (const IntChoice::Range& range : constraints.sp.ranges)
        choices.emplace_back(range.low == 1 ? "on" : "off");
    item("sp", choices);
    choices.clear();
    for (const RecomputeMode mode : constraints.recompute.words)
        choices.emplace_back(to_string(mode));
    item("recompute", choices);
    item("schedule", constraints.schedule.words);
    return text;
}

}  // namespace tw

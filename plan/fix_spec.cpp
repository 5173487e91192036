#include "plan/fix_spec.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
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
    std::string_view written = {};  // with what stands before it; empty: name and "="
};

constexpr std::int64_t kMaxMicrobatch = std::int64_t{1} << 20;
constexpr std::array kIntKeys = {
    IntKey{"dp", &PlanConstraints::dp, 1, kMaxClusterDevices},
    IntKey{"tp", &PlanConstraints::tp, 1, kMaxClusterDevices},
    IntKey{"pp", &PlanConstraints::pp, 1, kMaxClusterDevices},
    IntKey{"vpp", &PlanConstraints::vpp, 1, kMaxClusterDevices},
    IntKey{"cp", &PlanConstraints::cp, 1, kMaxClusterDevices},
    IntKey{"ep", &PlanConstraints::ep, 1, kMaxClusterDevices},
    IntKey{"etp", &PlanConstraints::etp, 1, kMaxClusterDevices},
    IntKey{"mbs", &PlanConstraints::mbs, 1, kMaxMicrobatch},
};
constexpr IntKey kZero{"zero", &PlanConstraints::zero, 0, 3};
// What is written behind a choice: "zero=2/8", "recompute=full:2"; `all` is the number that stands for the
// word.
constexpr IntKey kShard{"zero", &PlanConstraints::zero_shard, 1, kMaxClusterDevices, "zero=1/"};
constexpr IntKey kBlocks{"recompute=full", &PlanConstraints::full_blocks, 0, kMaxClusterDevices,
                         "recompute=full:"};
constexpr std::int64_t kAllShards = 0, kAllBlocks = -1;
constexpr std::string_view kModules = "modules:";

std::vector<std::string> key_names() {
    return {"dp", "tp", "sp", "pp", "vpp", "cp", "ep", "etp", "mbs", "zero", "recompute", "schedule"};
}

std::vector<std::string> recompute_names() {
    std::vector<std::string> names;
    for (const RecomputeMode mode : kRecomputeModes)
        names.emplace_back(to_string(mode));
    return names;
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

bool is_number(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Words of labels that no key stands for.
struct Unfixable {
    std::string_view word, why, instead;
};
const Unfixable* unfixable(std::string_view word) {
    static constexpr std::array kWords = {
        Unfixable{"offload", "no search moves optimizer states to host memory",
                  "; \"offload_optimizer\": 1 in a plan document does it"},
        Unfixable{"recompute-mixed", "every stage of a search's plans recomputes alike",
                  "; recompute=none|full fixes one of them for all stages"}};
    const auto found =
        std::find_if(kWords.begin(), kWords.end(), [&](const Unfixable& u) { return u.word == word; });
    return found == kWords.end() ? nullptr : &*found;
}

// A plan's label as a spec; the text itself where it is none. What the label leaves out has its plain value.
std::string spec_of_label(std::string_view text) {
    if (text.find('=') != std::string_view::npos) return std::string(text);
    const std::vector<std::string_view> words = split(text, ' ');
    const bool labelled = words.front().starts_with("tp") && is_number(words.front().substr(2));
    if (!labelled || text.find(',') != std::string_view::npos) return std::string(text);
    std::map<std::string, std::string, std::less<>> values = {
        {"sp", "off"}, {"cp", "1"}, {"ep", "1"}, {"vpp", "1"}, {"zero", "0"}, {"recompute", "none"}};
    for (const std::string_view word : words) {
        const std::string_view key = word.substr(0, word.find_first_of("0123456789"));
        const std::string_view rest = word.substr(key.size());
        const auto named = [&](std::string_view name) { return key == name && is_number(rest); };
        if (word == "sp") {
            values["sp"] = "on";
        } else if (key == "zero" && !rest.empty()) {
            values["zero"] = rest.find('/') == std::string_view::npos ? fmt::format("{}/all", rest) : rest;
        } else if (std::any_of(kIntKeys.begin(), kIntKeys.end(),
                               [&](const IntKey& k) { return named(k.name); })) {
            values[std::string(key)] = rest;
        } else if (word == "full" || word.starts_with("full:")) {
            values["recompute"] = word == "full" ? "full:all" : word;
        } else if (word == to_string(RecomputeMode::Selective) ||
                   word == to_string(RecomputeMode::SelectiveOps) || word.starts_with(kModules)) {
            values["recompute"] = word;
        } else if (!word.empty()) {
            values["schedule"] = word;
        }
    }
    if (values["ep"] != "1") values.emplace("etp", "1");
    std::string spec;
    for (const auto& [key, value] : values)
        spec += fmt::format("{}{}={}", spec.empty() ? "" : ",", key, value);
    return spec;
}

class FixParser {
  public:
    Result<PlanConstraints> parse(std::string_view spec) {
        if (spec.empty()) return constraints_;
        for (const std::string_view item : split(spec, ','))
            parse_item(item);
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
        const auto before = std::find_if(seen_.begin(), seen_.end(), [&](const std::string& seen) {
            return seen.starts_with(std::string(key) + "=");
        });
        if (before != seen_.end()) {
            error(fmt::format("'{}' is given twice", key),
                  fmt::format("{}|{}", *before, item.substr(equals + 1)));
            return;
        }
        seen_.emplace_back(item);
        for (const IntKey& row : kIntKeys) {
            if (row.name == key) return parse_integers(row, choices);
        }
        if (key == "sp") return parse_sp(choices);
        if (key == "zero") return parse_zero(choices);
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

    // What an alternative repeats: "recompute=full:1|full:2".
    static std::string_view after_bar(const IntKey& key) {
        return key.written.empty() ? "" : key.written.substr(key.written.find('=') + 1);
    }

    std::optional<std::int64_t> integer(const IntKey& key, std::string_view text) {
        std::int64_t value = 0;
        const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (code == std::errc{} && end == text.data() + text.size() && value >= key.low && value <= key.high)
            return value;
        error(fmt::format("{}: '{}' is not an integer from {} to {}", key.name, text, key.low, key.high),
              fmt::format("{0}{1}, {0}{1}..{2} or {0}{1}|{3}{2}",
                          key.written.empty() ? fmt::format("{}=", key.name) : std::string(key.written),
                          key.low, key.low + 1, after_bar(key)));
        return std::nullopt;
    }

    // The range behind a choice, where there is one: of what follows `mark`.
    std::string_view read_behind(const IntKey& key, std::string_view choice, char mark, std::int64_t all,
                                 bool& plain) {
        const std::size_t at = choice.find(mark);
        if (at == std::string_view::npos) {
            plain = true;
        } else if (const std::string_view behind = choice.substr(at + 1); behind == "all") {
            (constraints_.*key.choice).ranges.push_back({all, all});
        } else {
            parse_integers(key, {behind});
        }
        return choice.substr(0, at);
    }

    void parse_zero(const std::vector<std::string_view>& choices) {
        bool plain = false;
        for (const std::string_view choice : choices) {
            if (choice.starts_with("0/") && choice != "0/all") {
                error(fmt::format("zero={}: ZeRO 0 shards nothing, so that it has no groups", choice),
                      fmt::format("zero=0 or zero=1{}", choice.substr(1)));
                continue;
            }
            // Stage 0 has no groups, so that it says nothing of those of the others.
            bool no_groups = false;
            parse_integers(kZero, {read_behind(kShard, choice, '/', kAllShards, no_groups)});
            plain = plain || (no_groups && choice != "0");
        }
        if (plain) constraints_.zero_shard.ranges.clear();  // a stage over any groups
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
        bool plain = false;
        for (const std::string_view written : choices) {
            const bool full = written.starts_with("full:");
            const bool modules = written.starts_with(kModules);
            if (modules && !read_modules(written.substr(kModules.size()))) continue;
            const std::string_view choice =
                full ? read_behind(kBlocks, written, ':', kAllBlocks, plain)
                     : written.substr(0, modules ? kModules.size() - 1 : written.npos);
            plain = plain || written == "full";
            const auto mode = std::find_if(kRecomputeModes.begin(), kRecomputeModes.end(),
                                           [&](RecomputeMode m) { return to_string(m) == choice; });
            if (mode != kRecomputeModes.end()) {
                constraints_.recompute.words.push_back(*mode);
            } else {
                error(fmt::format("recompute: unknown value '{}'", choice),
                      unknown_name_hint(choice, recompute_names()));
            }
        }
        if (plain) constraints_.full_blocks.ranges.clear();
        auto& words = constraints_.recompute.words;  // "full:1|full:3" is full once
        for (auto at = words.begin(); at != words.end();) {
            at = std::find(words.begin(), at, *at) != at ? words.erase(at) : at + 1;
        }
    }

    // One list, so that every plan of a search is costed for it.
    bool read_modules(std::string_view names) {
        const auto modules = recompute_modules_named(names);
        if (!modules) {
            error(fmt::format("recompute=modules: {}", modules.error().message), modules.error().hint);
            return false;
        }
        if (constraints_.modules.any() && constraints_.modules != *modules) {
            error(fmt::format("recompute: two lists of modules, {} and {}", to_string(constraints_.modules),
                              to_string(*modules)),
                  "a search for each");
            return false;
        }
        constraints_.modules = *modules;
        return true;
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
    std::vector<std::string> seen_;  // items
    Errors errors_;
};

}  // namespace

bool IntChoice::allows(std::int64_t value) const {
    return ranges.empty() || std::any_of(ranges.begin(), ranges.end(), [value](const Range& range) {
               return value >= range.low && value <= range.high;
           });
}

std::vector<int> IntChoice::some(int otherwise) const {
    if (ranges.empty()) return {otherwise};
    std::vector<int> values;
    for (const Range& range : ranges) {
        values.push_back(static_cast<int>(range.low));
        for (std::int64_t power = 1; power < range.high; power *= 2) {
            if (power > range.low) values.push_back(static_cast<int>(power));
        }
        if (range.high > range.low) values.push_back(static_cast<int>(range.high));
    }
    return values;
}

bool PlanConstraints::allows(const ParallelPlan& plan) const {
    const bool stages = std::all_of(plan.stages.begin(), plan.stages.end(), [this](const StageSpec& stage) {
        return recompute.allows(stage.recompute) &&
               (stage.recompute != RecomputeMode::Full || full_blocks.allows(stage.recompute_layers));
    });
    const bool others =
        modules.any() && recomputes_by(plan, RecomputeMode::Modules) && plan.recompute_modules != modules;
    return dp.allows(plan.mesh.dp) && tp.allows(plan.mesh.tp) && pp.allows(plan.mesh.pp) &&
           cp.allows(plan.mesh.cp) && ep.allows(plan.mesh.ep) && etp.allows(plan.mesh.etp) &&
           vpp.allows(plan.virtual_stages) && mbs.allows(plan.microbatch) && zero.allows(plan.zero_stage) &&
           (plan.zero_stage == 0 || zero_shard.allows(plan.zero_shard)) &&
           sp.allows(plan.sequence_parallel ? 1 : 0) && stages && !others &&
           (!plan.stages.empty() || recompute.allows(plan.recompute)) && schedule.allows(plan.schedule);
}

Result<PlanConstraints> parse_fix(std::string_view spec) {
    if (const std::size_t split_of = spec.find(", layers "); split_of != std::string_view::npos) {
        return Error{
            ErrorCode::Usage, "a label's split of layers cannot be fixed", "--fix",
            fmt::format("leave '{}' out: the search splits layers by their times", spec.substr(split_of))};
    }
    const std::string read = spec_of_label(spec);
    if (read != spec) {
        for (const std::string_view word : split(spec, ' ')) {
            if (const Unfixable* found = unfixable(word); found != nullptr)
                return Error{ErrorCode::Usage,
                             fmt::format("a label's '{}' cannot be fixed: {}", word, found->why), "--fix",
                             fmt::format("leave '{}' out{}", word, found->instead)};
        }
    }
    return FixParser().parse(read);
}

std::string to_string(const PlanConstraints& constraints) {
    std::string text;
    const auto item = [&text](std::string_view key, const std::vector<std::string>& choices) {
        if (choices.empty()) return;
        text += fmt::format("{}{}=", text.empty() ? "" : ",", key);
        for (std::size_t i = 0; i < choices.size(); ++i)
            text += fmt::format("{}{}", i > 0 ? "|" : "", choices[i]);
    };
    const auto texts = [](const IntChoice& choice, std::int64_t all) {
        std::vector<std::string> choices;
        for (const IntChoice::Range& range : choice.ranges) {
            choices.push_back(range.low == all && all <= 0 ? "all"
                              : range.low == range.high    ? fmt::format("{}", range.low)
                                                           : fmt::format("{}..{}", range.low, range.high));
        }
        return choices;
    };
    // Every choice with everything that may stand behind one.
    const auto with_behind = [](const std::vector<std::string>& choices, char mark,
                                const std::vector<std::string>& behind) {
        std::vector<std::string> all;
        for (const std::string& choice : choices) {
            if (behind.empty() || choice == "0") {  // ZeRO 0 has no groups
                all.push_back(choice);
                continue;
            }
            for (const std::string& one : behind)
                all.push_back(choice + mark + one);
        }
        return all;
    };
    constexpr std::int64_t kNoWord = 1;
    for (const IntKey& key : kIntKeys)
        item(key.name, texts(constraints.*key.choice, kNoWord));
    item("zero",
         with_behind(texts(constraints.zero, kNoWord), '/', texts(constraints.zero_shard, kAllShards)));
    std::vector<std::string> choices;
    choices.clear();
    for (const IntChoice::Range& range : constraints.sp.ranges)
        choices.emplace_back(range.low == 1 ? "on" : "off");
    item("sp", choices);
    choices.clear();
    for (const RecomputeMode mode : constraints.recompute.words) {
        const std::vector<std::string> name = {recompute_text(mode, -1, constraints.modules)};
        const bool full = mode == RecomputeMode::Full;
        const auto all = with_behind(
            name, ':', full ? texts(constraints.full_blocks, kAllBlocks) : std::vector<std::string>{});
        choices.insert(choices.end(), all.begin(), all.end());
    }
    item("recompute", choices);
    item("schedule", constraints.schedule.words);
    return text;
}

}  // namespace tw

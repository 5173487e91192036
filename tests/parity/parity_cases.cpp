#include "tests/parity/parity_cases.hpp"

#include <array>
#include <set>

#include <fmt/format.h>

#include "base/prng.hpp"

namespace tw::parity {
namespace {

using testing::Family;
using testing::RunSetup;

struct Layout {
    const char* name;
    DeviceMesh mesh;
};

struct Zero {
    int stage = 0, shard = 0;  // shard: ranks that a state spans (HSDP); 0: all
};
constexpr std::array kZeros = {Zero{0, 0}, Zero{1, 0}, Zero{2, 0}, Zero{3, 0},
                               Zero{1, 2}, Zero{2, 2}, Zero{3, 2}};

const std::array kLayouts = {
    Layout{"1 rank", {}},
    Layout{"dp2", {.dp = 2}},
    Layout{"pp2", {.pp = 2}},
    Layout{"tp2", {.tp = 2}},
    Layout{"dp2 ep2", {.dp = 2, .ep = 2}},
    Layout{"dp4", {.dp = 4}},
    Layout{"pp4", {.pp = 4}},
    Layout{"tp4", {.tp = 4}},
    Layout{"dp2 pp2", {.dp = 2, .pp = 2}},
    Layout{"dp2 tp2", {.dp = 2, .tp = 2}},
    Layout{"pp2 tp2", {.pp = 2, .tp = 2}},
    Layout{"dp2 pp2 ep2", {.dp = 2, .pp = 2, .ep = 2}},
};
constexpr std::array kRecompute = {RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Full};
constexpr std::array kFamilies = {Family::Gpt, Family::Llama, Family::Moe, Family::Dropping};

// The schedules with flushes: what the others train is another algorithm.
std::vector<const ScheduleGenerator*> flushing_schedules() {
    std::vector<const ScheduleGenerator*> found;
    for (const ScheduleGenerator* one : schedule_generators()) {
        if (one->info().boundary != StepBoundary::None) found.push_back(one);
    }
    return found;
}

constexpr std::size_t kFactors = 7;
using Levels = std::array<std::size_t, kFactors>;

Case case_of(const Levels& levels, const std::vector<const ScheduleGenerator*>& schedules) {
    Case one;
    const Layout& layout = kLayouts[levels[0]];
    one.layout = layout.name;
    RunSetup& s = one.setup;
    s.mesh = layout.mesh;
    const GeneratorInfo info = schedules[levels[1]]->info();
    s.schedule = std::string(info.name);
    s.zero = kZeros[levels[2]].stage;
    s.zero_shard = kZeros[levels[2]].shard;
    s.recompute = kRecompute[levels[3]];
    s.sequence_parallel = levels[4] == 1;
    s.tied = levels[5] == 1;
    s.family = kFamilies[levels[6]];
    s.virtual_stages = 1;
    return one;
}

bool legal(const RunSetup& setup) {
    const PlanDocument document = testing::document_of(setup);
    if (!unsupported_by_executor(document.graph, document.plan).empty()) return false;
    return check_plan(document.graph, document.cluster, document.plan).errors.empty();
}

// The virtual stages with which a schedule is legal: one, or two where it needs them.
bool make_legal(Case& one) {
    // What nothing is sharded over, or what has no ranks to act on, is no case of its own.
    const RunSetup& s = one.setup;
    if (s.zero > 0 && s.mesh.dp == 1) return false;
    if (s.zero_shard > 0 && s.mesh.dp <= s.zero_shard) return false;
    if (s.sequence_parallel && s.mesh.tp == 1) return false;
    if (s.mesh.ep > 1 && s.family != Family::Moe && s.family != Family::Dropping) return false;
    for (const int virtual_stages : {1, 2}) {
        one.setup.virtual_stages = virtual_stages;
        if (legal(one.setup)) return true;
    }
    return false;
}

using Pair = std::array<std::size_t, 4>;  // factor, level, factor, level

std::vector<Pair> pairs_of(const Levels& levels) {
    std::vector<Pair> pairs;
    for (std::size_t a = 0; a < kFactors; ++a) {
        for (std::size_t b = a + 1; b < kFactors; ++b)
            pairs.push_back({a, levels[a], b, levels[b]});
    }
    return pairs;
}

}  // namespace

RunSetup alone(const RunSetup& setup) {
    RunSetup one = setup;
    one.mesh = {};
    one.schedule = "1f1b";
    one.virtual_stages = 1;
    one.zero = one.zero_shard = 0;
    one.recompute = RecomputeMode::None;
    one.sequence_parallel = false;
    return one;
}

std::string_view model_of(const Case& one) {
    constexpr std::array<std::string_view, 4> names = {"gpt", "llama", "moe", "moe, dropping"};
    return names[static_cast<std::size_t>(one.setup.family)];
}

std::string zero_of(const Case& one) {
    const RunSetup& s = one.setup;
    return s.zero_shard > 0 ? fmt::format("{} over {}", s.zero, s.zero_shard) : std::to_string(s.zero);
}

std::string describe(const Case& one) {
    const RunSetup& s = one.setup;
    return fmt::format("{}, {}, ZeRO {}, recompute {}, {}{}, {}", one.layout, s.schedule, zero_of(one),
                       to_string(s.recompute), s.sequence_parallel ? "sequence parallel, " : "",
                       s.tied ? "tied" : "untied", model_of(one));
}

Cover covering_cases(std::size_t at_least) {
    const auto schedules = flushing_schedules();
    const Levels sizes = {kLayouts.size(), schedules.size(), kZeros.size(), kRecompute.size(), 2, 2,
                          kFamilies.size()};
    Cover cover;
    std::vector<std::pair<Levels, Case>> candidates;
    std::set<Pair> open;
    Levels levels{};
    for (bool more = true; more;) {
        Case one = case_of(levels, schedules);
        if (make_legal(one)) {
            candidates.emplace_back(levels, one);
            const std::vector<Pair> pairs = pairs_of(levels);
            open.insert(pairs.begin(), pairs.end());
        }
        more = false;
        for (std::size_t f = 0; f < kFactors && !more; ++f) {
            more = ++levels[f] < sizes[f];
            if (!more) levels[f] = 0;
        }
    }
    cover.legal = candidates.size();
    cover.pairs = open.size();
    std::uint64_t draw = 0;
    while (!open.empty()) {
        // Ties go to a number drawn for each candidate: neighbours in the list resemble each other.
        std::size_t best = 0;
        std::pair<std::size_t, std::uint64_t> best_score{0, 0};
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            std::size_t covered = 0;
            for (const Pair& pair : pairs_of(candidates[i].first))
                covered += open.count(pair);
            const std::pair score{covered, counter_random(11, draw, i)};
            if (score > best_score) {
                best_score = score;
                best = i;
            }
        }
        ++draw;
        for (const Pair& pair : pairs_of(candidates[best].first))
            open.erase(pair);
        cover.cases.push_back(candidates[best].second);
    }
    while (cover.cases.size() < at_least) {
        cover.cases.push_back(candidates[counter_random(12, draw, 0) % candidates.size()].second);
        ++draw;
    }
    return cover;
}

}  // namespace tw::parity

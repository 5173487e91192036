#include "sim/scenario/durations.hpp"

#include <algorithm>
#include <cmath>

#include "base/prng.hpp"

namespace tw {
namespace {

// Ranks that an entry names, or an error.
std::vector<int> ranks_of(const Scenario::Where& where, const Cluster& cluster, int world, Errors& errors) {
    const auto refuse = [&](const std::string& what, int index, int count) {
        errors.push_back({ErrorCode::Usage,
                          what + " " + std::to_string(index) + " is not there, the plan uses 0 to " +
                              std::to_string(count - 1),
                          "scenario", ""});
        return std::vector<int>{};
    };
    if (where.rank >= 0)
        return where.rank < world ? std::vector{where.rank} : refuse("rank", where.rank, world);
    const int nodes = cluster.node_of(world - 1) + 1;
    if (where.node < 0 || where.node >= nodes) return refuse("node", where.node, nodes);
    std::vector<int> ranks;
    for (int r = 0; r < world; ++r)
        if (cluster.node_of(r) == where.node) ranks.push_back(r);
    return ranks;
}

bool is_kernel(Opcode op) {
    return is_compute(op) || op == Opcode::OptimizerStep || op == Opcode::StashWeights;
}

SimTime scaled(SimTime duration, double factor) {
    return factor == 1 ? duration : std::llround(static_cast<double>(duration) * factor);
}

}  // namespace

RankConditions::RankConditions(const Cluster& cluster, int world, const Scenario& scenario, Errors& errors)
    : time_factor(static_cast<std::size_t>(world), 1),
      forward_delay(time_factor.size(), 0),
      backward_delay(time_factor.size(), 0) {
    for (const Scenario::SlowRank& slow : scenario.slow_ranks) {
        for (const int r : ranks_of(slow.where, cluster, world, errors))
            time_factor[static_cast<std::size_t>(r)] *= slow.time_factor;
    }
    for (const Scenario::Delay& delay : scenario.delays) {
        for (const int r : ranks_of(delay.where, cluster, world, errors))
            (delay.backward ? backward_delay : forward_delay)[static_cast<std::size_t>(r)] +=
                to_sim_time(Seconds(delay.seconds));
    }
}

bool RankConditions::healthy() const {
    const auto zero = [](SimTime t) { return t == 0; };
    return std::all_of(time_factor.begin(), time_factor.end(), [](double f) { return f == 1; }) &&
           std::all_of(forward_delay.begin(), forward_delay.end(), zero) &&
           std::all_of(backward_delay.begin(), backward_delay.end(), zero);
}

ScenarioDurations::ScenarioDurations(const Schedule& schedule, const CompiledSchedule& compiled,
                                     const CostTable& table, const Expansion& expansion,
                                     const RankConditions& conditions, const Scenario& scenario)
    : schedule_(schedule),
      compiled_(compiled),
      table_(table),
      expansion_(expansion),
      conditions_(conditions),
      scenario_(scenario),
      member_count_(expansion.every_member() ? 1 : expansion.members()) {
    find_delays();
}

void ScenarioDurations::find_delays() {
    const CompiledSchedule& c = compiled_;
    const auto members = static_cast<std::size_t>(member_count_);
    for (int r = 0; r < c.ranks; ++r) {
        const RankProgram& program = schedule_.programs[static_cast<std::size_t>(r % c.pipeline_ranks)];
        for (std::size_t k = 0; k < members; ++k) {
            const auto rank = static_cast<std::size_t>(expansion_.member_of(r, static_cast<int>(k)));
            for (const bool backward : {false, true}) {
                const SimTime delay =
                    (backward ? conditions_.backward_delay : conditions_.forward_delay)[rank];
                if (delay == 0) continue;
                std::vector<char> done(static_cast<std::size_t>(c.steps), 0);
                for (std::uint32_t i = 0; i < program.instructions.size(); ++i) {
                    const Instruction& in = program.instructions[i];
                    const bool both = in.opcode == Opcode::OverlapForwardBackward;
                    if (!both && !(backward ? is_backward(in.opcode) : in.opcode == Opcode::Forward))
                        continue;
                    char& now = done[static_cast<std::size_t>(in.microbatch / c.microbatches)];
                    if (now != 0) continue;
                    now = 1;
                    const std::uint32_t begin = c.program_begin[static_cast<std::size_t>(r)];
                    delays_.push_back({c.end_node[begin + i] - c.lane_count,
                                       static_cast<std::uint32_t>(static_cast<std::size_t>(r) * members + k),
                                       delay});
                }
            }
        }
    }
    std::stable_sort(delays_.begin(), delays_.end(),
                     [](const DelayedNode& a, const DelayedNode& b) { return a.node < b.node; });
}

// Log-normal with mean 1: exp(s z - s^2 / 2), s^2 = ln(1 + sigma^2), z standard normal by Box-Muller.
double ScenarioDurations::jitter(double sigma, int step, int rank, std::uint32_t slot_class,
                                 std::uint32_t nth) const {
    if (sigma <= 0) return 1;
    const std::uint64_t stream = (static_cast<std::uint64_t>(step) << 32U) + static_cast<std::uint64_t>(rank);
    const std::uint64_t counter = 2 * ((static_cast<std::uint64_t>(slot_class) << 32U) + nth);
    const auto uniform = [&](std::uint64_t k) {
        return static_cast<double>(counter_random(scenario_.jitter.seed, stream, counter + k) >> 11U) *
               0x1.0p-53;
    };
    const double z = std::sqrt(-2.0 * std::log(1.0 - uniform(0))) * std::cos(6.283185307179586 * uniform(1));
    const double variance = std::log1p(sigma * sigma);
    return std::exp(std::sqrt(variance) * z - variance / 2);
}

void ScenarioDurations::fill(int step, std::vector<SimTime>& durations, MemberTimes& times) const {
    const CompiledSchedule& c = compiled_;
    const auto stride = static_cast<std::uint32_t>(c.classes + 1);
    const auto members = static_cast<std::uint32_t>(member_count_);
    std::vector<std::uint32_t> seen(table_.duration.size(), 0);  // of a slot so far: the n-th of its class
    durations.assign(c.nodes(), 0);
    times.busy.resize(static_cast<std::size_t>(c.ranks) * members, 0);
    times.lockstep.resize(times.busy.size(), 0);
    std::vector<SimTime> own;
    std::vector<std::size_t> index;
    for (std::size_t i = 0; i < c.nodes(); ++i) {
        const std::uint32_t slot = c.slot[i];
        if (slot == 0) continue;
        const SimTime base = table_.duration[slot];
        const std::uint32_t program = slot / stride, duration_class = slot % stride - 1;
        const std::uint32_t nth = seen[slot]++;
        const Opcode op = schedule_.duration_classes[duration_class].opcode;
        const int r = static_cast<int>(program);
        if (!is_kernel(op)) {
            durations[i] = scaled(base, jitter(scenario_.jitter.communication_sigma, step,
                                               expansion_.rank_of(r), duration_class, nth));
            continue;
        }
        // Everyone who runs this node: the members of a program, or the programs of a run that compute
        // together.
        own.clear();
        index.clear();
        const bool joint = expansion_.every_member() && is_compute(op);
        const int count = joint ? expansion_.members() : member_count_;
        for (int k = 0; k < count; ++k) {
            const int rank = expansion_.member_of(r, k);
            index.push_back(joint
                                ? static_cast<std::size_t>(r + k * c.pipeline_ranks)
                                : static_cast<std::size_t>(program) * members + static_cast<std::size_t>(k));
            own.push_back(
                scaled(base, conditions_.time_factor[static_cast<std::size_t>(rank)] *
                                 jitter(scenario_.jitter.compute_sigma, step, rank, duration_class, nth)));
        }
        auto delayed = std::lower_bound(delays_.begin(), delays_.end(), i,
                                        [](const DelayedNode& d, std::size_t node) { return d.node < node; });
        for (; delayed != delays_.end() && delayed->node == i; ++delayed) {
            const auto at = std::find(index.begin(), index.end(), delayed->member);
            TW_CHECK(at != index.end());
            own[static_cast<std::size_t>(at - index.begin())] += delayed->delay;
        }
        durations[i] = *std::max_element(own.begin(), own.end());
        for (std::size_t k = 0; k < own.size(); ++k) {
            times.busy[index[k]] += own[k];
            times.lockstep[index[k]] += durations[i] - own[k];
        }
    }
}

}  // namespace tw

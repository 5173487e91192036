#include "sim/validate/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

namespace tw {
namespace {

// Rows that stand or fall together: a subset that splits them would leak.
std::string group_of(const ValidationRow& row) {
    const TruthRow& t = row.truth;
    return fmt::format("{:05}|{:06}|{}|{}|{}|{}|{}", t.model.layers.value_or(0), t.model.hidden.value_or(0),
                       t.tp.value_or(1), t.pp.value_or(1), t.microbatch.value_or(0), t.recompute,
                       t.precision);
}

// Factors tried: a quarter to 16 times, steps of 12 %.
constexpr int kSteps = 38;
double factor_at(int step) {
    return 0.25 * std::pow(1.12, step);
}

double step_time(const ValidationRow& row, double factor) {
    auto c = make_case(row.truth);
    if (!c) return row.blind.step_time_s;
    auto p = predict(*c, row.truth, {factor});
    return p ? p->step_time_s : row.blind.step_time_s;
}

// Launch-bound: a host twice as slow must show by a fifth. Elsewhere the factor could only stand in for
// other errors.
bool depends_on_host(const ValidationRow& row) {
    return step_time(row, 2) > 1.2 * row.blind.step_time_s;
}

double stated_sigma(const HardwareProfile& profile) {
    for (const HostEntry& entry : profile.host) {
        if (entry.mode == "eager") return entry.fit.sigma;
    }
    return 0;
}

}  // namespace

double factor_sigma(double stated, std::span<const double> errors) {
    const double squares = std::inner_product(errors.begin(), errors.end(), errors.begin(), stated * stated);
    return std::sqrt(squares / static_cast<double>(errors.size()));
}

std::vector<Calibration> calibrate_hosts(std::vector<ValidationRow>& rows) {
    std::map<std::string, std::vector<std::size_t>> kinds;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const ValidationRow& row = rows[i];
        if (row.has_time() && !row.truth.one_layer)
            kinds[row.truth.file + "|" + row.framework + "|" + row.truth.gpu].push_back(i);
    }
    std::vector<Calibration> result;
    for (const auto& [kind, members] : kinds) {
        // One row cannot both calibrate and be scored.
        if (members.size() < 4) continue;
        // Groups of launch-bound rows alone, where these are a quarter of the rows or more.
        std::map<std::string, std::vector<std::size_t>> groups;
        std::set<std::string> other;
        std::size_t bound = 0;
        for (const std::size_t i : members) {
            groups[group_of(rows[i])].push_back(i);
            if (depends_on_host(rows[i])) {
                ++bound;
            } else {
                other.insert(group_of(rows[i]));
            }
        }
        for (const std::string& key : other)
            groups.erase(key);
        if (4 * bound < members.size() || groups.empty()) continue;
        // Groups evenly spaced over the sorted keys until the subset holds 5 % of the rows.
        const std::size_t wanted = std::max<std::size_t>(1, members.size() / 20);
        std::vector<const std::vector<std::size_t>*> ordered;
        for (const auto& [key, group] : groups)
            ordered.push_back(&group);
        std::size_t eligible = 0;
        for (const auto* group : ordered)
            eligible += group->size();
        const std::size_t chosen =
            std::clamp<std::size_t>(wanted * ordered.size() / eligible, 1, ordered.size());
        const std::size_t stride = ordered.size() / chosen;
        std::vector<std::size_t> subset;
        for (std::size_t g = stride / 2; g < ordered.size() && subset.size() < wanted; g += stride)
            subset.insert(subset.end(), ordered[g]->begin(), ordered[g]->end());

        Calibration c{rows[members.front()].truth.file,
                      rows[members.front()].framework,
                      rows[members.front()].truth.gpu,
                      1,
                      0,
                      {}};
        double best = 0;
        for (int step = 0; step < kSteps; ++step) {
            double error = 0;
            for (const std::size_t i : subset)
                error += std::abs(std::log(step_time(rows[i], factor_at(step)) / rows[i].truth.step_time_s));
            if (step == 0 || error < best) best = error, c.dispatch_factor = factor_at(step);
        }
        std::vector<double> errors;
        for (const std::size_t i : subset)
            errors.push_back(std::log(step_time(rows[i], c.dispatch_factor) / rows[i].truth.step_time_s));
        const auto first = make_case(rows[subset.front()].truth);
        c.dispatch_sigma = factor_sigma(first ? stated_sigma(first->profile) : 0, errors);
        for (const std::size_t i : subset) {
            rows[i].calibrates = true;
            c.rows.push_back(rows[i].truth.id);
        }
        for (const std::size_t i : members) {
            auto one = make_case(rows[i].truth);
            if (!one) continue;
            if (auto p = predict(*one, rows[i].truth, {c.dispatch_factor, c.dispatch_sigma})) {
                rows[i].calibrated_step_time_s = p->step_time_s;
                rows[i].calibrated_sigma_s = p->sigma_s;
            }
        }
        result.push_back(std::move(c));
    }
    return result;
}

}  // namespace tw

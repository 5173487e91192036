#include "sim/validate/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

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

using Indices = std::vector<std::size_t>;

// Rows of one source, framework and GPU.
struct Kind {
    Indices members;
    std::vector<Indices> groups;  // those of launch-bound rows alone, by their keys
};

// The share of n rows that may calibrate.
std::size_t twentieth(std::size_t n) {
    return std::max<std::size_t>(1, n / 20);
}

std::map<std::string, Indices> rows_by_kind(const std::vector<ValidationRow>& rows) {
    std::map<std::string, Indices> kinds;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const ValidationRow& row = rows[i];
        if (row.has_time() && !row.truth.one_layer)
            kinds[row.truth.file + "|" + row.framework + "|" + row.truth.gpu].push_back(i);
    }
    return kinds;
}

// Nothing where fewer than a quarter of the rows are launch-bound, or no group is so as a whole; one row
// cannot both calibrate and be scored.
std::optional<Kind> calibrated_kind(const std::vector<ValidationRow>& rows, const Indices& members) {
    if (members.size() < 4) return std::nullopt;
    std::map<std::string, Indices> groups;
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
    if (4 * bound < members.size() || groups.empty()) return std::nullopt;
    Kind kind{members, {}};
    for (auto& [key, group] : groups)
        kind.groups.push_back(std::move(group));
    return kind;
}

// Groups evenly spaced over the sorted keys, as many as fit in `wanted` rows whole; else one row of the
// middle one.
Indices subset_of(const Kind& kind, std::size_t wanted) {
    std::size_t eligible = 0;
    for (const Indices& group : kind.groups)
        eligible += group.size();
    const std::size_t chosen =
        std::clamp<std::size_t>(wanted * kind.groups.size() / eligible, 1, kind.groups.size());
    const std::size_t stride = kind.groups.size() / chosen;
    Indices subset;
    for (std::size_t g = stride / 2; g < kind.groups.size() && subset.size() < wanted; g += stride) {
        const Indices& group = kind.groups[g];
        if (subset.size() + group.size() <= wanted) subset.insert(subset.end(), group.begin(), group.end());
    }
    if (subset.empty()) subset.push_back(kind.groups[stride / 2].front());
    return subset;
}

// Of each source at most a twentieth of its rows with a time, or one: kinds of more rows come first.
std::vector<std::pair<Kind, Indices>> declared_subsets(const std::vector<ValidationRow>& rows) {
    std::map<std::string, std::size_t> left;
    for (const ValidationRow& row : rows)
        left[row.truth.file] += row.has_time() ? 1 : 0;
    for (auto& [file, count] : left)
        count = twentieth(count);
    std::vector<Kind> kinds;
    for (const auto& [key, members] : rows_by_kind(rows)) {
        if (auto kind = calibrated_kind(rows, members)) kinds.push_back(std::move(*kind));
    }
    std::stable_sort(kinds.begin(), kinds.end(),
                     [](const Kind& a, const Kind& b) { return a.members.size() > b.members.size(); });
    std::vector<std::pair<Kind, Indices>> subsets;
    for (Kind& kind : kinds) {
        std::size_t& budget = left[rows[kind.members.front()].truth.file];
        if (budget == 0) continue;
        Indices subset = subset_of(kind, std::min(budget, twentieth(kind.members.size())));
        budget -= subset.size();
        subsets.emplace_back(std::move(kind), std::move(subset));
    }
    return subsets;
}

double fitted_factor(const std::vector<ValidationRow>& rows, const Indices& subset) {
    double best = 0, factor = 1;
    for (int step = 0; step < kSteps; ++step) {
        double error = 0;
        for (const std::size_t i : subset)
            error += std::abs(std::log(step_time(rows[i], factor_at(step)) / rows[i].truth.step_time_s));
        if (step == 0 || error < best) best = error, factor = factor_at(step);
    }
    return factor;
}

double fitted_sigma(const std::vector<ValidationRow>& rows, const Indices& subset, double factor) {
    std::vector<double> errors;
    for (const std::size_t i : subset)
        errors.push_back(std::log(step_time(rows[i], factor) / rows[i].truth.step_time_s));
    const auto first = make_case(rows[subset.front()].truth);
    return factor_sigma(first ? stated_sigma(first->profile) : 0, errors);
}

void apply(const Calibration& c, const Indices& members, std::vector<ValidationRow>& rows) {
    for (const std::size_t i : members) {
        auto one = make_case(rows[i].truth);
        if (!one) continue;
        if (auto p = predict(*one, rows[i].truth, {c.dispatch_factor, c.dispatch_sigma})) {
            rows[i].calibrated_step_time_s = p->step_time_s;
            rows[i].calibrated_sigma_s = p->sigma_s;
        }
    }
}

}  // namespace

double factor_sigma(double stated, std::span<const double> errors) {
    const double squares = std::inner_product(errors.begin(), errors.end(), errors.begin(), stated * stated);
    return std::sqrt(squares / static_cast<double>(errors.size()));
}

std::vector<Calibration> calibrate_hosts(std::vector<ValidationRow>& rows) {
    std::vector<Calibration> result;
    for (const auto& [kind, subset] : declared_subsets(rows)) {
        const ValidationRow& first = rows[kind.members.front()];
        Calibration c{first.truth.file, first.framework, first.truth.gpu, 1, 0, {}};
        c.dispatch_factor = fitted_factor(rows, subset);
        c.dispatch_sigma = fitted_sigma(rows, subset, c.dispatch_factor);
        for (const std::size_t i : subset) {
            rows[i].calibrates = true;
            c.rows.push_back(rows[i].truth.id);
        }
        apply(c, kind.members, rows);
        result.push_back(std::move(c));
    }
    std::stable_sort(result.begin(), result.end(), [](const Calibration& a, const Calibration& b) {
        return std::tie(a.file, a.framework, a.gpu) < std::tie(b.file, b.framework, b.gpu);
    });
    return result;
}

}  // namespace tw

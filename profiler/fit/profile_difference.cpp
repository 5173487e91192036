#include "profiler/fit/profile_difference.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "models/hardware/sample_statistics.hpp"
#include "profiler/fit/fit_measured.hpp"

namespace tw {
namespace {

using Verdict = PartDifference::Verdict;
using Key = std::pair<std::string, std::string>;

double distance(double ratio) {
    return std::abs(std::log(ratio));
}

// Models' names are no kinds of their own; a crowd's two variants are.
Key key_of(const SampleSeries& s) {
    const bool named = s.benchmark == "host" || s.benchmark == "training_step";
    return {s.benchmark, named ? std::string() : s.variant};
}

std::string shape_text(const SampleSeries& s) {
    std::string text;
    for (const auto& [name, value] : s.shape)
        text += fmt::format("{}{}={:g}", text.empty() ? "" : " ", name, value);
    return text.empty() ? s.variant : text;
}

// The samples of both, as one list: points of the first, then those that the second alone has.
struct Point {
    const SampleSeries* first = nullptr;
    const SampleSeries* second = nullptr;
    [[nodiscard]] const SampleSeries& any() const { return first != nullptr ? *first : *second; }
};

std::vector<Point> joined(const ProfileDocument& first, const ProfileDocument& second) {
    std::vector<Point> points;
    std::multimap<Key, std::size_t> index;
    for (const SampleSeries& s : first.samples) {
        index.emplace(Key(s.benchmark, s.variant), points.size());
        points.push_back({&s, nullptr});
    }
    for (const SampleSeries& s : second.samples) {
        const auto [begin, end] = index.equal_range(Key(s.benchmark, s.variant));
        const auto same =
            std::find_if(begin, end, [&](const auto& at) { return points[at.second].first->same_point(s); });
        if (same != end) {
            points[same->second].second = &s;
        } else {
            points.push_back({nullptr, &s});
        }
    }
    return points;
}

class Collected {
  public:
    Collected(const Key& key, const ProfileDocument& first, const ProfileDocument& second, double tolerance)
        : first_(first), second_(second), limit_(std::log1p(tolerance)) {
        out_.part = key.first;
        out_.variant = key.second;
    }

    void add(const Point& point) {
        has_first_ |= point.first != nullptr;
        has_second_ |= point.second != nullptr;
        if (point.first != nullptr && point.second != nullptr) {
            const double a = median_of(point.first->values), b = median_of(point.second->values);
            if (a > 0 && b > 0) {
                measured_.push_back(b / a);
                noises_.push_back(
                    std::hypot(relative_width(point.first->values), relative_width(point.second->values)));
            }
        }
        const double a = predicted_seconds(first_.profile, point.any());
        const double b = predicted_seconds(second_.profile, point.any());
        if (a <= 0 || b <= 0) return;
        predicted_.push_back(b / a);
        if (distance(b / a) <= limit_) ++out_.within;
        if (out_.farthest > 0 && distance(b / a) <= distance(out_.farthest)) return;
        out_.farthest = b / a;
        out_.farthest_at = shape_text(point.any());
    }

    PartDifference finish() {
        out_.shared = measured_.size();
        out_.measured = median_of(measured_);
        out_.noise = median_of(noises_);
        out_.predicted_at = predicted_.size();
        out_.predicted = median_of(predicted_);
        out_.verdict = verdict();
        return std::move(out_);
    }

  private:
    [[nodiscard]] Verdict verdict() const {
        if (out_.ratio() <= 0) return has_first_ ? Verdict::OnlyFirst : Verdict::OnlySecond;
        if (distance(out_.ratio()) <= limit_) return Verdict::Agrees;
        if (out_.measured <= 0 || distance(out_.measured) <= limit_) return Verdict::Fit;
        return std::abs(out_.measured - 1) <= out_.noise ? Verdict::Noise : Verdict::Machine;
    }

    const ProfileDocument& first_;
    const ProfileDocument& second_;
    double limit_;
    PartDifference out_;
    bool has_first_ = false, has_second_ = false;
    std::vector<double> measured_, noises_, predicted_;
};

// Single figures of the entries, which no curve stands for.
std::vector<std::pair<Key, double>> figures(const HardwareProfile& p, bool whole) {
    std::vector<std::pair<Key, double>> list;
    for (const HostEntry& e : p.host)
        list.emplace_back(Key("host", e.mode), e.seconds_per_dispatch);
    for (const InterferenceEntry& e : p.interference) {
        list.emplace_back(Key("beside " + e.beside, "products"), e.products);
        list.emplace_back(Key("beside " + e.beside, "attention"), e.attention);
        list.emplace_back(Key("beside " + e.beside, "memory"), e.memory);
    }
    if (p.memory_outside_bytes > 0) list.emplace_back(Key("memory outside", ""), p.memory_outside_bytes);
    if (!whole) return list;
    // Without samples the parameters that a datasheet would have.
    for (const GemmEntry& e : p.gemm)
        list.emplace_back(Key("product", to_string(e.precision)), 1 / e.curve.rate);
    for (const GemmFormEntry& e : p.gemm_forms) {
        std::string name(to_string(e.form));
        if (e.precision) name += " " + std::string(to_string(*e.precision));
        list.emplace_back(Key("product form", name), e.factor);
    }
    for (const AttentionEntry& e : p.attention)
        list.emplace_back(
            Key("attention", fmt::format("{} {}", to_string(e.kernel), e.backward ? "backward" : "forward")),
            1 / e.curve.rate);
    if (p.memory.bandwidth > 0) list.emplace_back(Key("memory", "copy"), 1 / p.memory.bandwidth);
    for (const MemoryEntry& e : p.memory_ops)
        list.emplace_back(
            Key("memory", fmt::format("{}{}", to_string(e.kind), e.backward ? " backward" : "")),
            1 / (e.efficiency * std::max(1.0, p.memory.bandwidth)));
    for (const CollectiveEntry& e : p.collectives)
        list.emplace_back(Key("collective", fmt::format("{} of {}{}", to_string(e.kind), e.group_size,
                                                        e.nodes > 1 ? fmt::format(" on {}", e.nodes) : "")),
                          1 / e.curve.lines.back().rate);
    return list;
}

void add_figures(const ProfileDocument& first, const ProfileDocument& second, double tolerance,
                 std::vector<PartDifference>& parts) {
    const bool whole = first.samples.empty() || second.samples.empty();
    const auto a = figures(first.profile, whole);
    auto b = figures(second.profile, whole);
    const auto part = [](const Key& key, Verdict verdict, double ratio) {
        PartDifference p;
        p.part = key.first;
        p.variant = key.second;
        p.verdict = verdict;
        p.predicted = p.farthest = ratio;
        p.predicted_at = ratio > 0 ? 1 : 0;
        p.within = verdict == Verdict::Agrees ? 1 : 0;
        return p;
    };
    for (const auto& figure : a) {
        const Key& key = figure.first;
        const auto same = std::find_if(b.begin(), b.end(), [&](const auto& e) { return e.first == key; });
        if (same == b.end()) {
            parts.push_back(part(key, Verdict::OnlyFirst, 0));
            continue;
        }
        const double ratio = figure.second > 0 ? same->second / figure.second : 0;
        const bool agrees = ratio > 0 && distance(ratio) <= std::log1p(tolerance);
        parts.push_back(part(key, agrees ? Verdict::Agrees : Verdict::Fit, ratio));
        b.erase(same);
    }
    for (const auto& [key, value] : b)
        parts.push_back(part(key, Verdict::OnlySecond, 0));
}

void compare_environments(const ProfileDocument& first, const ProfileDocument& second,
                          std::vector<ProfileDifference::Line>& lines) {
    if (!first.environment || !second.environment) return;
    const MeasuredEnvironment &a = *first.environment, &b = *second.environment;
    const auto differ = [&](const char* what, const std::string& x, const std::string& y) {
        if (x != y) lines.push_back({what, x, y});
    };
    lines.push_back({"measured", a.date, b.date});
    const auto noise = [](const MeasuredEnvironment& e) {
        return e.noise_verdict.empty() ? std::string("noise unknown") : e.noise_verdict;
    };
    lines.push_back({"noise", noise(a), noise(b)});
    differ("host", a.host, b.host);
    differ("processor", a.processor, b.processor);
    differ("system", a.system, b.system);
    differ("compiler", a.compiler, b.compiler);
    differ("tool", a.tool, b.tool);
    differ("backend", a.backend, b.backend);
    differ("transport", a.transport, b.transport);
    differ("cores", std::to_string(a.cores), std::to_string(b.cores));
    differ("ranks", std::to_string(a.ranks), std::to_string(b.ranks));
    differ("threads", std::to_string(a.threads), std::to_string(b.threads));
    const auto end = [](const MeasuredEnvironment& e) {
        return std::string(e.complete ? "to the end" : "interrupted, or out of budget");
    };
    differ("measured until", end(a), end(b));
}

}  // namespace

std::size_t ProfileDifference::agreeing() const {
    return static_cast<std::size_t>(std::count_if(
        parts.begin(), parts.end(), [](const auto& p) { return p.verdict == Verdict::Agrees; }));
}

ProfileDifference profile_difference(const ProfileDocument& first, const ProfileDocument& second,
                                     double tolerance) {
    ProfileDifference out;
    compare_environments(first, second, out.environment);
    std::vector<Key> order;
    std::map<Key, std::vector<Point>> groups;
    for (const Point& point : joined(first, second)) {
        const Key key = key_of(point.any());
        std::vector<Point>& group = groups[key];
        if (group.empty()) order.push_back(key);
        group.push_back(point);
    }
    for (const Key& key : order) {
        Collected part(key, first, second, tolerance);
        for (const Point& point : groups[key])
            part.add(point);
        out.parts.push_back(part.finish());
    }
    add_figures(first, second, tolerance, out.parts);
    return out;
}

std::string explain(const PartDifference& p) {
    const auto percent = [](double ratio) { return fmt::format("{:+.1f} %", 100 * (ratio - 1)); };
    switch (p.verdict) {
        case Verdict::Agrees:
            return "";
        case Verdict::Machine:
            return fmt::format("the machine: samples moved by {}, more than their noise of {:.1f} %",
                               percent(p.measured), 100 * p.noise);
        case Verdict::Noise:
            return fmt::format("noise: samples moved by {}, but are known to {:.1f} % only",
                               percent(p.measured), 100 * p.noise);
        case Verdict::Fit:
            return p.measured > 0 ? fmt::format("the fit: samples moved by {} only", percent(p.measured))
                                  : std::string("its figure; no sample of both says it");
        case Verdict::OnlyFirst:
            return "in the first alone";
        case Verdict::OnlySecond:
            return "in the second alone";
    }
    return "";
}

}  // namespace tw

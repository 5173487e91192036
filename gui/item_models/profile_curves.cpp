#include "gui/item_models/profile_curves.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/si_format.hpp"

namespace tw::gui {
namespace {

constexpr int kPoints = 60;

double seconds_of(const HardwareProfile& profile, auto body) {
    Op op;
    op.body = body;
    return kernel_time(profile, op).seconds;
}

void sample_curve(ProfileLine& line, double low, double high, auto rate) {
    for (int i = 0; i <= kPoints; ++i) {
        const double x = low * std::pow(high / low, static_cast<double>(i) / kPoints);
        line.x.push_back(x);
        line.y.push_back(rate(x));
    }
}

ProfileLine line_of(std::string name, const FitRecord& fit) {
    ProfileLine line;
    line.name = std::move(name);
    line.source = fit.scaled_from.empty() ? fit.source : "scaled from " + fit.scaled_from + ": " + fit.source;
    line.scaled = !fit.scaled_from.empty();
    line.sigma = fit.sigma;
    return line;
}

ProfileChart products(const HardwareProfile& profile) {
    ProfileChart chart{"Matrix products", "(m n k)^(1/3)", "FLOP/s", {}};
    for (const GemmEntry& entry : profile.gemm) {
        ProfileLine line = line_of(std::string(to_string(entry.precision)), entry.fit);
        sample_curve(line, 64, 16384, [&](double x) {
            Gemm gemm;
            gemm.m = gemm.n = gemm.k = std::max<std::int64_t>(1, static_cast<std::int64_t>(x / 64)) * 64;
            gemm.precision = entry.precision;
            return 2 * std::pow(static_cast<double>(gemm.m), 3) / seconds_of(profile, gemm);
        });
        chart.lines.push_back(std::move(line));
    }
    return chart;
}

ProfileChart attention(const HardwareProfile& profile) {
    ProfileChart chart{"Attention", "sequence length (causal, 16384 tokens, 32 heads of 128)", "FLOP/s", {}};
    for (const AttentionEntry& entry : profile.attention) {
        ProfileLine line =
            line_of(fmt::format("{} {}", to_string(entry.kernel), entry.backward ? "backward" : "forward"),
                    entry.fit);
        sample_curve(line, 256, 16384, [&](double x) {
            Attention a;
            a.seq_q = a.seq_kv = static_cast<std::int64_t>(x);
            a.batch = std::max<std::int64_t>(1, 16384 / a.seq_q);
            a.heads = a.kv_heads = 32;
            a.head_dim_qk = a.head_dim_v = 128;
            a.kernel = entry.kernel;
            a.backward = entry.backward;
            Op op;
            op.body = a;
            return op_flops(op).value / kernel_time(profile, op).seconds;
        });
        chart.lines.push_back(std::move(line));
    }
    return chart;
}

ProfileChart memory(const HardwareProfile& profile) {
    ProfileChart chart{"Memory-bound kernels", "bytes read and written", "B/s", {}};
    const auto add = [&](MemoryOpKind kind, const FitRecord& fit) {
        ProfileLine line = line_of(std::string(to_string(kind)), fit);
        sample_curve(line, 1e5, 4e9, [&](double x) {
            MemoryOp op;
            op.kind = kind;
            op.bytes = x;
            return x / seconds_of(profile, op);
        });
        chart.lines.push_back(std::move(line));
    };
    add(MemoryOpKind::Copy, profile.memory_fit);
    for (const MemoryEntry& entry : profile.memory_ops)
        if (!entry.backward && entry.kind != MemoryOpKind::Copy && chart.lines.size() < 7)
            add(entry.kind, entry.fit);
    return chart;
}

ProfileChart collectives(const HardwareProfile& profile) {
    ProfileChart chart{"Collectives in a node", "bytes", "B/s", {}};
    int largest = 0;
    for (const CollectiveEntry& entry : profile.collectives)
        largest = std::max(largest, entry.group_size);
    for (const CollectiveEntry& entry : profile.collectives) {
        if (entry.group_size != largest && entry.kind != CollectiveKind::SendRecv) continue;
        ProfileLine line =
            line_of(fmt::format("{} of {}", to_string(entry.kind), entry.group_size), entry.fit);
        const double low = std::max(1.0, entry.bytes.low);
        sample_curve(line, low, std::max(entry.bytes.high, 2 * low),
                     [&](double x) { return x / collective_seconds(entry.curve, x); });
        chart.lines.push_back(std::move(line));
    }
    return chart;
}

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

std::optional<Precision> precision_in(std::string_view variant) {
    for (const Precision p : {Precision::Fp32, Precision::Tf32, Precision::Fp16, Precision::Bf16,
                              Precision::Fp8, Precision::Nvfp4})
        if (variant.starts_with(to_string(p))) return p;
    return std::nullopt;
}

// Where a sample belongs: chart, line, x, work done (of the rate), predicted seconds (0: none).
struct Place {
    std::string chart, line;
    double x = 0, work = 0, predicted_s = 0;
};

Place place_product(const HardwareProfile& profile, const SampleSeries& s) {
    Gemm gemm;
    gemm.m = static_cast<std::int64_t>(s.at("m"));
    gemm.n = static_cast<std::int64_t>(s.at("n"));
    gemm.k = static_cast<std::int64_t>(s.at("k"));
    gemm.batch = static_cast<std::int64_t>(s.at("batch", 1));
    const auto precision = precision_in(s.variant);
    gemm.precision = precision.value_or(Precision::Fp32);
    if (s.variant.ends_with("input_grad")) gemm.form = GemmForm::InputGrad;
    if (s.variant.ends_with("weight_grad")) gemm.form = GemmForm::WeightGrad;
    if (gemm.m < 1 || gemm.n < 1 || gemm.k < 1) return {};
    const double mnk = s.at("m") * s.at("n") * s.at("k");
    const bool known = std::ranges::any_of(
        profile.gemm, [&](const GemmEntry& entry) { return entry.precision == gemm.precision; });
    return {"Matrix products", precision ? std::string(to_string(*precision)) : s.variant, std::cbrt(mnk),
            2 * mnk * static_cast<double>(gemm.batch), known ? seconds_of(profile, gemm) : 0};
}

Place place_collective(const HardwareProfile& profile, const SampleSeries& s) {
    const int group = static_cast<int>(s.at("group"));
    Place place{"Collectives in a node", fmt::format("{} of {}", s.variant, group), s.at("bytes"),
                s.at("bytes"), 0};
    for (const CollectiveEntry& entry : profile.collectives)
        if (to_string(entry.kind) == s.variant && entry.group_size == group)
            place.predicted_s = collective_seconds(entry.curve, place.x);
    return place;
}

Place place_sample(const HardwareProfile& profile, const SampleSeries& s) {
    if (s.unit != "s") return {};
    if (s.benchmark == "gemm" || s.benchmark == "batched_gemm") return place_product(profile, s);
    if (s.benchmark == "collective") return place_collective(profile, s);
    // Element-wise kernels by their elements; their bytes are the profiler's business.
    const double size = s.at("rows") > 0  ? s.at("rows") * s.at("width", 1)
                        : s.shape.empty() ? 0
                                          : s.shape.front().second;
    if (size <= 0) return {};
    return {"Other benchmarks", s.benchmark + (s.variant.empty() ? "" : " " + s.variant), size, size, 0};
}

void add_sample(std::vector<ProfileChart>& charts, const Place& place, const SampleSeries& s) {
    const double measured = median(s.values);
    if (place.chart.empty() || measured <= 0) return;
    auto chart = std::ranges::find(charts, place.chart, &ProfileChart::title);
    if (chart == charts.end()) chart = charts.insert(charts.end(), {place.chart, "elements", "/s", {}});
    auto line = std::ranges::find(chart->lines, place.line, &ProfileLine::name);
    if (line == chart->lines.end()) {
        chart->lines.emplace_back();
        line = chart->lines.end() - 1;
        line->name = place.line;
    }
    std::string text = s.benchmark + (s.variant.empty() ? "" : " " + s.variant) + ":";
    for (const auto& [name, value] : s.shape)
        text += fmt::format(" {} {}", name, format_short_count(value, 6));
    text += fmt::format("\n{} ({} samples)", format_duration(measured), s.values.size());
    if (place.predicted_s > 0) text += ", predicted " + format_duration(place.predicted_s);
    line->sample_x.push_back(place.x);
    line->sample_y.push_back(place.work / measured);
    line->residual.push_back(place.predicted_s > 0 ? std::log(measured / place.predicted_s)
                                                   : std::numeric_limits<double>::quiet_NaN());
    line->sample_text.push_back(std::move(text));
}

}  // namespace

bool ProfileChart::has_samples() const {
    return std::ranges::any_of(lines, [](const ProfileLine& line) { return !line.sample_x.empty(); });
}

ProfileChart log_chart(const std::vector<NcclTestsLog>& logs) {
    ProfileChart chart{"bus bandwidth", "size, bytes", "B/s", {}};
    for (const NcclTestsLog& log : logs) {
        std::string name;
        for (const CollectiveKind kind : log.operations)
            name += (name.empty() ? "" : " or ") + std::string(to_string(kind));
        if (name.empty()) name = "unknown operation";
        if (log.ranks > 0) name += fmt::format(" of {}", log.ranks);
        const auto add = [&](const char* place, auto timing_of) {
            ProfileLine line;
            line.name = fmt::format("{}, {}", name, place);
            line.source = "as the log prints it";
            for (const NcclTestsRow& row : log.rows) {
                const NcclTestsTiming* timing = timing_of(row);
                if (timing == nullptr || row.size.value <= 0 || timing->busbw.value <= 0) continue;
                line.x.push_back(static_cast<double>(row.size.value));
                line.y.push_back(timing->busbw.value);
            }
            if (!line.x.empty()) chart.lines.push_back(std::move(line));
        };
        add("out of place", [](const NcclTestsRow& row) { return &row.out_of_place; });
        add("in place", [](const NcclTestsRow& row) { return row.in_place ? &*row.in_place : nullptr; });
    }
    return chart;
}

std::vector<ProfileChart> profile_charts(const ProfileDocument& document) {
    const HardwareProfile& profile = document.profile;
    std::vector<ProfileChart> charts = {products(profile), attention(profile), memory(profile),
                                        collectives(profile)};
    for (const SampleSeries& series : document.samples)
        add_sample(charts, place_sample(profile, series), series);
    return charts;
}

}  // namespace tw::gui

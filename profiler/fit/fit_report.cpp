#include "profiler/fit/fit_report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "models/hardware/cluster.hpp"
#include "models/hardware/profile_document_json.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

std::string percent(const FitRecord& record) {
    if (record.held_out == 0) return "–";
    return fmt::format("{:.1f} / {:.1f}", record.median * 100, record.p90 * 100);
}

std::string origin(const FitRecord& record) {
    return record.scaled_from.empty() ? record.source
                                      : "scaled from " + record.scaled_from + ": " + record.source;
}

// A device that was never measured itself: everything in its profile is a sibling's.
bool derived(const HardwareProfile& profile) {
    return !profile.gemm.front().fit.scaled_from.empty();
}

template <class Row>
void each_product(const std::vector<ProfileFit>& profiles, const Row& row) {
    for (const ProfileFit& fit : profiles) {
        for (const GemmFit& one : fit.gemm)
            row(fit.profile.name, one);
    }
}

// What only tables of thousands of shapes tell.
void gemm_details(std::string& text, const std::vector<ProfileFit>& profiles) {
    text +=
        "\nWith the benchmark's weights, up to five in turn, taken as near where they fit the cache. Split "
        "from: m n k below which no product is split along k. One row: "
        "vector, "
        "its step and split. Factors of the tiles' rates:";
    for (const GemmTile tile : kGemmTileSizes)
        text += fmt::format(" {}×{}", tile.m, tile.n);
    text +=
        ".\n\n| device | precision | step ns | epilogue µs | vector µs | step ns | split µs | split from | "
        "cache MB | "
        "gain | "
        "fade | factors |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    each_product(profiles, [&](const std::string& device, const GemmFit& one) {
        const GemmCurve& c = one.entry.curve;
        if (c.vector_step_s <= 0) return;
        std::string factors;
        for (const double factor : c.factors)
            factors += fmt::format("{}{:.2f}", factors.empty() ? "" : " ", factor);
        const auto where = [](bool there, double value) {
            return there ? fmt::format("{:.3g}", value) : std::string("–");
        };
        const bool cache = c.cache_bytes > 0;
        text +=
            fmt::format("| {} | {} | {:.3g} | {:.3g} | {:.3g} | {:.3g} | {:.3g} | {} | {} | {} | {} | {} |\n",
                        device, to_string(one.entry.precision), c.step_s * 1e9, c.epilogue_s * 1e6,
                        c.vector_s * 1e6, c.vector_step_s * 1e9, c.vector_split_s * 1e6,
                        where(c.least_split > 0, c.least_split), where(cache, c.cache_bytes / 1e6),
                        where(cache, c.cache_gain), where(cache, c.cache_fade), factors);
    });
}

void gemm_table(std::string& text, const std::vector<ProfileFit>& profiles) {
    text +=
        "## Matrix products\n\nWhole (n, k) pairs held out, 20 %. Big: m ≥ 512, n and k ≥ 256. Median / p90, "
        "%.\n\n"
        "| device | precision | points | held out | curve, all | curve, big | with grid, all | with grid, "
        "big |\n"
        "|---|---|---|---|---|---|---|---|\n";
    each_product(profiles, [&](const std::string& device, const GemmFit& one) {
        const FitRecord& record = one.entry.fit;
        text +=
            fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", device, to_string(one.entry.precision),
                        record.points, record.held_out, percent(one.curve_only), percent(one.curve_only_big),
                        one.entry.residual.empty() ? "–" : percent(record),
                        one.entry.residual.empty() ? "–" : percent(one.with_grid_big));
    });
    text +=
        "\n| device | precision | launch µs | rate TFLOP/s | overhead | prologue µs | bandwidth TB/s | split "
        "µs | blend | "
        "throttle | slack | unaligned | scalar |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    each_product(profiles, [&](const std::string& device, const GemmFit& one) {
        const GemmCurve& c = one.entry.curve;
        text += fmt::format("| {} | {} | {:.3g} | {:.4g}", device, to_string(one.entry.precision),
                            c.launch_s * 1e6, c.rate / 1e12);
        for (const double value : {c.overhead, c.prologue_s * 1e6, c.bandwidth / 1e12, c.split_s * 1e6,
                                   c.blend, c.throttle, c.slack, c.unaligned, c.scalar})
            text += fmt::format(" | {:.3g}", value);
        text += " |\n";
    });
    gemm_details(text, profiles);
}

void attention_table(std::string& text, const std::vector<ProfileFit>& profiles) {
    text +=
        "\n## Fused attention\n\nTables: whole (sequence, heads) pairs held out, 20 %; rows of one H200: "
        "five-fold. "
        "Rate: FLOP/s of visited scores at head dimension 128.\n\n"
        "| device | kernel | direction | points | median / p90, % | TFLOP/s | origin "
        "|\n|---|---|---|---|---|---|---|\n";
    for (const ProfileFit& fit : profiles) {
        for (const AttentionEntry& entry : fit.profile.attention) {
            if (derived(fit.profile)) continue;
            text += fmt::format(
                "| {} | {} | {} | {} | {} | {:.0f} | {} |\n", fit.profile.name, to_string(entry.kernel),
                entry.backward ? "backward" : "forward", entry.fit.points, percent(entry.fit),
                entry.curve.rate * 128 / (128 + entry.curve.narrow) / 1e12, origin(entry.fit));
        }
    }
}

void memory_table(std::string& text, const std::vector<ProfileFit>& profiles) {
    text +=
        "\n## Memory-bound kernels\n\n| device | copy TB/s | cache TB/s | cache MB | latency µs | median / "
        "p90, % | origin |\n"
        "|---|---|---|---|---|---|---|\n";
    for (const ProfileFit& fit : profiles) {
        const MemoryCurve& c = fit.profile.memory;
        text += fmt::format("| {} | {:.3g} | {:.3g} | {:.3g} | {:.3g} | {} | {} |\n", fit.profile.name,
                            c.bandwidth / 1e12, c.l2_bandwidth / 1e12, c.l2_bytes / 1e6, c.latency_s * 1e6,
                            percent(fit.profile.memory_fit), origin(fit.profile.memory_fit));
    }
    text +=
        "\nClasses, as measured on the H200 and carried to the others (efficiency of the copy bandwidth, on "
        "ideal traffic; "
        "five-fold):\n\n| class | direction | efficiency | points | median / p90, % | origin "
        "|\n|---|---|---|---|---|---|\n";
    for (const ProfileFit& fit : profiles) {
        if (fit.profile.name != "h200") continue;
        for (const MemoryEntry& entry : fit.profile.memory_ops) {
            text += fmt::format("| {} | {} | {:.2f} | {} | {} | {} |\n", to_string(entry.kind),
                                entry.backward ? "backward" : "forward", entry.efficiency, entry.fit.points,
                                percent(entry.fit), origin(entry.fit));
        }
    }
}

// Standard deviation of the logarithms, in per cent.
double log_spread(const std::vector<double>& values) {
    double sum = 0, squares = 0;
    for (const double value : values)
        sum += std::log(value);
    const double count = static_cast<double>(values.size());
    for (const double value : values)
        squares += std::pow(std::log(value) - sum / count, 2);
    return 100 * std::sqrt(squares / std::max(1.0, count - 1));
}

// What a figure scaled by datasheet is worth: measured rates as shares of the datasheets', over the devices
// that were measured.
void siblings_table(std::string& text, const std::vector<ProfileFit>& profiles) {
    text +=
        "\n## How far siblings lie apart\n\nMeasured rate over the datasheet's: 16-bit products in tiles of "
        "256 x 128, fused attention forward at head dimension 128 by kernel, copies. A figure scaled from a "
        "sibling carries the spread as uncertainty (`scale_profile.hpp`).\n\n| device | products | attention "
        "| "
        "copy |\n|---|---|---|---|\n";
    std::vector<double> products, attentions, copies;
    for (const ProfileFit& fit : profiles) {
        const auto device = load_device(fit.profile.name);
        if (!device || derived(fit.profile) || device->architecture == "cpu") continue;
        const GemmEntry& gemm = fit.profile.gemm.front();
        products.push_back(tile_rate(gemm.curve) / (1 + gemm.curve.throttle) /
                           device->peak(gemm.precision).value);
        std::string attention, copy = "–";
        for (const AttentionEntry& entry : fit.profile.attention) {
            if (entry.backward || !entry.fit.scaled_from.empty()) continue;
            const double share =
                entry.curve.rate * 128 / (128 + entry.curve.narrow) / device->peak(Precision::Bf16).value;
            attentions.push_back(share);
            attention +=
                fmt::format("{}{} {:.2f}", attention.empty() ? "" : ", ", to_string(entry.kernel), share);
        }
        const std::string& source = fit.profile.memory_fit.source;
        if (fit.profile.memory_fit.scaled_from.empty() || source.find("triad") != std::string::npos) {
            copies.push_back(fit.profile.memory.bandwidth / device->memory_bandwidth.value);
            copy = fmt::format("{:.2f}", copies.back());
        }
        text += fmt::format("| {} | {:.2f} | {} | {} |\n", fit.profile.name, products.back(),
                            attention.empty() ? "–" : attention, copy);
    }
    text += fmt::format("| spread, % | {:.0f} | {:.0f} | {:.0f} |\n", log_spread(products),
                        log_spread(attentions), log_spread(copies));
}

void other_tables(std::string& text, const std::vector<ProfileFit>& profiles) {
    text += "\n## GEMM forms\n\n| device | form | factor | origin |\n|---|---|---|---|\n";
    for (const ProfileFit& fit : profiles) {
        for (const GemmFormEntry& entry : fit.profile.gemm_forms) {
            const std::string& name = fit.profile.name;
            if (name != "h200" && name != "h100" && name != "b200") continue;  // all others as H100 or B200
            text += fmt::format("| {} | {} | {:.3f} | {} |\n", fit.profile.name, to_string(entry.form),
                                entry.factor, origin(entry.fit));
        }
    }
    text += "\n## Sustained load\n\n| device | slow-down of compute | points | origin |\n|---|---|---|---|\n";
    for (const ProfileFit& fit : profiles) {
        const SustainedEntry& entry = fit.profile.sustained;
        if (entry.slowdown > 1) {
            text += fmt::format("| {} | {:.3f} | {} | {} |\n", fit.profile.name, entry.slowdown,
                                entry.fit.points, origin(entry.fit));
        }
    }
    text +=
        "\n## Convolutions (implicit GEMM; every fifth layer held out)\n\n"
        "| device | precision | forward | input grad | weight grad | Winograd gain | median / p90, % |\n"
        "|---|---|---|---|---|---|---|\n";
    for (const ProfileFit& fit : profiles) {
        if (fit.profile.name != "v100-32") continue;
        for (const ConvolutionEntry& entry : fit.profile.convolution) {
            const ConvolutionCurve& c = entry.curve;
            text += fmt::format("| {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {} |\n", fit.profile.name,
                                to_string(entry.precision), c.forward, c.input_grad, c.weight_grad,
                                c.winograd, percent(entry.fit));
        }
    }
    text +=
        "\n## Collectives inside a node\n\nEvery other size predicted from the rest, both ways round. Each "
        "line is α µs / "
        "GB/s of the size column.\n\n| device | kind | devices | lines | points | median / p90, % "
        "|\n|---|---|---|---|---|---|\n";
    std::vector<double> medians;
    for (const ProfileFit& fit : profiles) {
        for (const CollectiveEntry& entry : fit.profile.collectives) {
            if (derived(fit.profile)) continue;
            std::string lines;
            for (const AlphaBeta& line : entry.curve.lines) {
                lines += fmt::format("{}{:.1f} / {:.1f}", lines.empty() ? "" : ", ", line.alpha_s * 1e6,
                                     line.rate / 1e9);
            }
            if (entry.fit.held_out > 0) medians.push_back(entry.fit.median);
            text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", fit.profile.name, to_string(entry.kind),
                                entry.group_size, lines, entry.fit.points, percent(entry.fit));
        }
    }
    text += fmt::format("\nMedian over the series of their median error: {:.1f} %.\n",
                        quantile(medians, 0.5) * 100);
}

}  // namespace

std::string fit_report(const std::vector<ProfileFit>& profiles) {
    std::string text =
        "# How well the shipped profiles fit\n\nWritten by `scripts/fit_profiles`. Errors are |log(measured "
        "/ predicted)| in "
        "percent on points that the fit never saw. \"Scaled\" entries have no measurement on the device: a "
        "sibling's, by the "
        "ratio of the datasheets, with a wider uncertainty.\n\n";
    gemm_table(text, profiles);
    attention_table(text, profiles);
    memory_table(text, profiles);
    other_tables(text, profiles);
    siblings_table(text, profiles);
    text += "\n## Devices scaled from a sibling\n\n";
    for (const ProfileFit& fit : profiles) {
        if (derived(fit.profile)) {
            text +=
                fmt::format("- {}: from {}\n", fit.profile.name, fit.profile.gemm.front().fit.scaled_from);
        }
    }
    return text;
}

std::string profile_text(const HardwareProfile& profile) {
    ProfileDocument document;
    document.profile = profile;
    return profile_document_text(document);
}

}  // namespace tw

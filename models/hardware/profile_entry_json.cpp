#include "models/hardware/profile_entry_json.hpp"

#include <algorithm>
#include <cmath>

namespace tw {

FitRecord read_fit(const JsonObject& o) {
    FitRecord fit;
    fit.source = o.string("source");
    fit.scaled_from = o.string_or("scaled_from", "");
    fit.sigma = o.number("sigma", 0, 10);
    // Documents from before the key: all of what comes from a sibling.
    fit.shared = o.number_or("shared_sigma", fit.scaled_from.empty() ? 0 : fit.sigma, 0, 10);
    fit.median = o.number_or("held_out_median", 0, 0, 100);
    fit.p90 = o.number_or("held_out_p90", 0, 0, 100);
    fit.points = o.integer_or("points", 0, 0, std::int64_t{1} << 40);
    fit.held_out = o.integer_or("held_out_points", 0, 0, std::int64_t{1} << 40);
    return fit;
}

void write_fit(Json& o, const FitRecord& fit) {
    o["source"] = fit.source;
    if (!fit.scaled_from.empty()) o["scaled_from"] = fit.scaled_from;
    o["sigma"] = fit.sigma;
    if (fit.shared > 0 || !fit.scaled_from.empty()) o["shared_sigma"] = fit.shared;
    if (fit.points > 0) o["points"] = fit.points;
    if (fit.held_out > 0) {
        o["held_out_points"] = fit.held_out;
        o["held_out_median"] = fit.median;
        o["held_out_p90"] = fit.p90;
    }
}

std::vector<double> read_numbers(const JsonObject& o, std::string_view key, std::size_t most) {
    std::vector<double> numbers;
    const Json& array = o.array(key);
    if (array.size() > most) o.error(key, "at most " + std::to_string(most) + " numbers");
    for (const Json& element : array) {
        if (!element.is_number()) {
            o.error(key, "numbers only");
            return {};
        }
        numbers.push_back(element.get<double>());
    }
    return numbers;
}

Range read_range(const JsonObject& o, std::string_view key) {
    const std::vector<double> ends = read_numbers(o, key, 2);
    if (ends.size() != 2 || !(ends[0] <= ends[1])) {
        o.error(key, "a range is [low, high] with low <= high");
        return {};
    }
    return {ends[0], ends[1]};
}

Json range_json(const Range& range) {
    return Json::array({range.low, range.high});
}

namespace {

void check_knots(const JsonObject& o, std::string_view key, const std::vector<double>& knots) {
    if (knots.size() < 2) o.error(key, "at least two knots");
    for (std::size_t i = 1; i < knots.size(); ++i) {
        if (!(knots[i - 1] < knots[i])) o.error(key, "knots ascend");
    }
}

HostGemmPath read_path(const JsonObject& o, const std::string& way) {
    return {amount(o, way + "_call_s"), amount(o, way + "_step_s"), amount(o, way + "_left_s"),
            amount(o, way + "_right_s"), amount(o, way + "_output_s")};
}

void write_path(Json& o, const std::string& way, const HostGemmPath& path) {
    o[way + "_call_s"] = path.call_s;
    o[way + "_step_s"] = path.step_s;
    o[way + "_left_s"] = path.left_s;
    o[way + "_right_s"] = path.right_s;
    o[way + "_output_s"] = path.output_s;
}

void read_strides(const JsonObject& o, std::string_view key, std::array<double, kStrideClasses>& strides) {
    const std::vector<double> numbers = read_numbers(o, key, kStrideClasses);
    const auto sound = [](double seconds) { return seconds >= 0 && seconds <= 1; };
    if (numbers.size() != kStrideClasses || !std::all_of(numbers.begin(), numbers.end(), sound))
        return o.error(key, "seconds for rows that are multiples of 1, 2 and 4 KiB apart");
    std::copy(numbers.begin(), numbers.end(), strides.begin());
}

}  // namespace

ResidualGrid read_grid(const Json& value, const std::string& pointer, Errors& errors) {
    const JsonObject o(value, pointer, errors);
    ResidualGrid grid;
    grid.m = read_numbers(o, "log2_m", 32);
    grid.n = read_numbers(o, "log2_n", 32);
    grid.k = read_numbers(o, "log2_k", 32);
    grid.values = read_numbers(o, "log_residual", 200);
    check_knots(o, "log2_m", grid.m);
    check_knots(o, "log2_n", grid.n);
    check_knots(o, "log2_k", grid.k);
    if (grid.values.size() != grid.m.size() * grid.n.size() * grid.k.size()) {
        o.error("log_residual",
                "one value a grid point: " + std::to_string(grid.m.size() * grid.n.size() * grid.k.size()) +
                    " expected, " + std::to_string(grid.values.size()) + " found");
    }
    // In log time: a factor of seven either way is no residual of a fit any more.
    constexpr double kMostResidual = 2;
    if (std::any_of(grid.values.begin(), grid.values.end(),
                    [](double log_time) { return std::abs(log_time) > kMostResidual; }))
        o.error("log_residual", "a residual of more than 2 in log time", "-2 to 2");
    o.finish();
    return grid;
}

Json grid_json(const ResidualGrid& grid) {
    return {{"log2_m", grid.m}, {"log2_n", grid.n}, {"log2_k", grid.k}, {"log_residual", grid.values}};
}

HostGemmEntry read_host_gemm(const JsonObject& o, Errors& errors) {
    HostGemmEntry entry;
    entry.precision = read_enum(o, "precision", kPrecisions);
    entry.form = read_enum(o, "form", kForms);
    entry.curve.direct = read_path(o, "direct");
    entry.curve.packed = read_path(o, "packed");
    entry.curve.packed_from = amount(o, "packed_from");
    read_strides(o, "left_stride_s", entry.curve.left_stride_s);
    read_strides(o, "right_stride_s", entry.curve.right_stride_s);
    entry.m = read_range(o, "m");
    entry.n = read_range(o, "n");
    entry.k = read_range(o, "k");
    entry.fit = read_fit(o);
    if (const Json* grid = o.find("residual_grid"))
        entry.residual = read_grid(*grid, o.pointer("residual_grid"), errors);
    return entry;
}

Json host_gemm_json(const HostGemmEntry& entry) {
    Json o;
    o["precision"] = to_string(entry.precision);
    o["form"] = to_string(entry.form);
    write_path(o, "direct", entry.curve.direct);
    write_path(o, "packed", entry.curve.packed);
    o["packed_from"] = entry.curve.packed_from;
    o["left_stride_s"] = entry.curve.left_stride_s;
    o["right_stride_s"] = entry.curve.right_stride_s;
    o["m"] = range_json(entry.m);
    o["n"] = range_json(entry.n);
    o["k"] = range_json(entry.k);
    write_fit(o, entry.fit);
    if (!entry.residual.empty()) o["residual_grid"] = grid_json(entry.residual);
    return o;
}

}  // namespace tw

#include "profiler/fit/residual_grid.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "profiler/fit/solve.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

struct Term {
    std::size_t index;
    double weight;
};
using Row = std::array<Term, 8>;

void locate(const std::vector<double>& knots, double x, std::size_t& left, double& weight) {
    x = std::clamp(x, knots.front(), knots.back());
    left = 0;
    while (left + 2 < knots.size() && x > knots[left + 1])
        ++left;
    weight = (x - knots[left]) / (knots[left + 1] - knots[left]);
}

Row basis(const GridKnots& knots, const GemmShape& shape) {
    std::array<std::size_t, 3> left{};
    std::array<double, 3> weight{};
    locate(knots.m, std::log2(static_cast<double>(shape.m * shape.batch)), left[0], weight[0]);
    locate(knots.n, std::log2(static_cast<double>(shape.n)), left[1], weight[1]);
    locate(knots.k, std::log2(static_cast<double>(shape.k)), left[2], weight[2]);
    Row row{};
    for (unsigned corner = 0; corner < 8; ++corner) {
        const unsigned a = (corner >> 2) & 1U, b = (corner >> 1) & 1U, c = corner & 1U;
        row[corner].index = ((left[0] + a) * knots.n.size() + left[1] + b) * knots.k.size() + left[2] + c;
        row[corner].weight = (a != 0 ? weight[0] : 1 - weight[0]) * (b != 0 ? weight[1] : 1 - weight[1]) *
                             (c != 0 ? weight[2] : 1 - weight[2]);
    }
    return row;
}

}  // namespace

const std::array<GridKnots, 2>& grid_layouts() {
    static const std::array<GridKnots, 2> layouts = {
        GridKnots{{0, 6, 7.5, 9, 10, 11, 12, 13}, {5, 8, 10, 12, 14}, {5, 8, 10, 12, 14}},
        GridKnots{{0, 7, 9, 11, 13}, {5, 8, 10, 12, 14}, {5, 7, 8, 9, 10, 11, 12, 14}}};
    return layouts;
}

GridKnots host_knots() {
    return {{6, 7, 8, 9, 11}, {6, 7, 8, 9, 10, 11}, {6, 7, 8, 9, 10, 11}};
}

namespace {

struct Logs {
    std::vector<GemmShape> shapes;
    std::vector<double> values;
    void add(const GemmShape& shape, double value) {
        shapes.push_back(shape);
        values.push_back(value);
    }
};

Logs logs_of(const GemmCurve& curve, const std::vector<GemmPoint>& points) {
    Logs logs;
    for (const GemmPoint& point : points)
        logs.add(point.shape, std::log(point.seconds / gemm_seconds(curve, point.shape)));
    return logs;
}

}  // namespace

double cross_validated_error(const GemmCurve& curve, const std::vector<GemmPoint>& points,
                             const GridKnots& knots) {
    const Logs all = logs_of(curve, points);
    std::vector<double> errors;
    for (const std::uint64_t fold : {1000003U, 2000003U}) {  // other pairs than a table's held-out ones
        Logs kept, left;
        for (std::size_t i = 0; i < all.shapes.size(); ++i) {
            const GemmShape& shape = all.shapes[i];
            const bool out =
                held_out(static_cast<std::uint64_t>(shape.n) + fold, static_cast<std::uint64_t>(shape.k));
            (out ? left : kept).add(shape, all.values[i]);
        }
        const ResidualGrid grid = fit_residual_grid(kept.shapes, kept.values, knots);
        for (std::size_t i = 0; i < left.shapes.size(); ++i) {
            const GemmShape& shape = left.shapes[i];
            errors.push_back(std::abs(left.values[i] - grid.at(static_cast<double>(shape.m * shape.batch),
                                                               static_cast<double>(shape.n),
                                                               static_cast<double>(shape.k))));
        }
    }
    return quantile(std::move(errors), 0.5);
}

ResidualGrid fit_residual_grid(const GemmCurve& curve, const std::vector<GemmPoint>& points,
                               const GridKnots& knots) {
    const Logs logs = logs_of(curve, points);
    return fit_residual_grid(logs.shapes, logs.values, knots);
}

ResidualGrid fit_residual_grid(const std::vector<GemmShape>& shapes, const std::vector<double>& target,
                               const GridKnots& knots) {
    const std::size_t size = knots.m.size() * knots.n.size() * knots.k.size();
    std::vector<Row> rows;
    for (const GemmShape& shape : shapes)
        rows.push_back(basis(knots, shape));
    std::vector<double> solution(size, 0.0);
    constexpr int kRounds = 12;
    constexpr double kRidge = 1.0;        // of one observation with weight 1: pulls empty grid points to 0
    constexpr double kSmallError = 0.01;  // below it errors are squared, above absolute
    for (int round = 0; round < kRounds; ++round) {
        std::vector<double> a(size * size, 0.0), b(size, 0.0);
        for (std::size_t i = 0; i < size; ++i)
            a[i * size + i] = kRidge;
        for (std::size_t p = 0; p < rows.size(); ++p) {
            double predicted = 0;
            for (const Term& term : rows[p])
                predicted += term.weight * solution[term.index];
            const double error = std::abs(target[p] - predicted);
            const double weight = round == 0 ? 1.0 : kSmallError / std::max(kSmallError, error);
            for (const Term& left : rows[p]) {
                b[left.index] += weight * left.weight * target[p];
                for (const Term& right : rows[p]) {
                    a[left.index * size + right.index] += weight * left.weight * right.weight;
                }
            }
        }
        solve_symmetric(a, b);
        solution = b;
    }
    ResidualGrid grid{knots.m, knots.n, knots.k, solution};
    for (double& value : grid.values)
        value = std::round(value * 1000) / 1000;
    return grid;
}

}  // namespace tw

#include "profiler/fit/residual_grid.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "profiler/fit/solve.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

// Knots in log2, 200 numbers each: many of m, or many of k where a table's own points clearly ask for them
// (A100: 6 % less error).
constexpr double kClearly = 0.97;
const std::array<GridKnots, 2> kLayouts = {
    GridKnots{{0, 6, 7.5, 9, 10, 11, 12, 13}, {5, 8, 10, 12, 14}, {5, 8, 10, 12, 14}},
    GridKnots{{0, 7, 9, 11, 13}, {5, 8, 10, 12, 14}, {5, 7, 8, 9, 10, 11, 12, 14}}};

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

GridKnots host_knots() {
    return {{6, 7, 8, 9, 11}, {6, 7, 8, 9, 10, 11}, {6, 7, 8, 9, 10, 11}};
}

namespace {

// Median error of a layout on every fourth (n, k) pair, fitted to the others: twice, other pairs each time.
double cross_validated(const std::vector<GemmShape>& shapes, const std::vector<double>& logs,
                       const GridKnots& knots) {
    std::vector<double> errors;
    for (const std::uint64_t fold : {0U, 2U}) {
        std::vector<GemmShape> kept, left;
        std::vector<double> kept_logs, left_logs;
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            const auto pair = static_cast<std::uint64_t>(shapes[i].n) * 2654435761U +
                              static_cast<std::uint64_t>(shapes[i].k) * 40503U;
            const bool out = (pair >> 4) % 4 == fold;
            (out ? left : kept).push_back(shapes[i]);
            (out ? left_logs : kept_logs).push_back(logs[i]);
        }
        const ResidualGrid grid = fit_residual_grid(kept, kept_logs, knots);
        for (std::size_t i = 0; i < left.size(); ++i) {
            const double trend =
                grid.at(static_cast<double>(left[i].m * left[i].batch), static_cast<double>(left[i].n),
                        static_cast<double>(left[i].k));
            errors.push_back(std::abs(left_logs[i] - trend));
        }
    }
    return quantile(std::move(errors), 0.5);
}

}  // namespace

ResidualGrid fit_residual_grid(const GemmCurve& curve, const std::vector<GemmPoint>& points) {
    std::vector<GemmShape> shapes;
    std::vector<double> logs;
    for (const GemmPoint& point : points) {
        shapes.push_back(point.shape);
        logs.push_back(std::log(point.seconds / gemm_seconds(curve, point.shape)));
    }
    const double by_m = cross_validated(shapes, logs, kLayouts[0]);
    const double by_k = cross_validated(shapes, logs, kLayouts[1]);
    return fit_residual_grid(shapes, logs, kLayouts[by_k < kClearly * by_m ? 1 : 0]);
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

// Parameters of a smooth form that make the mean absolute residual least, where there are dozens of them.
//
// Gauss and Newton's steps on squares that are weighed by 1 / |residual| (Schlossmacher 1973), damped after
// Levenberg (1944) and Marquardt (1963): each step must lower the mean absolute residual itself.
#pragma once

#include <functional>
#include <vector>

namespace tw {

// Fills one residual for each point.
using Residuals = std::function<void(const std::vector<double>& parameters, std::vector<double>& residuals)>;

// Only the coordinates in `free` move, by 0.7 at most in one step (parameters are logarithms). `weights`: of
// the points, positive. Deterministic. Ends after `steps`, or when steps gain nothing any more.
std::vector<double> least_absolute(const Residuals& residuals, std::vector<double> start,
                                   const std::vector<std::size_t>& free, const std::vector<double>& weights,
                                   int steps);

}  // namespace tw

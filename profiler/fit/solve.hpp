// A symmetric positive definite system, by Cholesky's decomposition.
#pragma once

#include <vector>

namespace tw {

// Solves a x = b, a row by row; destroys a and puts x into b.
void solve_symmetric(std::vector<double>& a, std::vector<double>& b);

}  // namespace tw

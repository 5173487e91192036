// The backend that is compared with the CPU's: a GPU's, or the same kernels over the CPU shim. Each test
// program links one of the two definitions.
#pragma once

#include <memory>
#include <string>

#include "real_exec/backend/backend.hpp"

namespace tw::testing {

// Null where it is not here: `why` says what is missing, and the test is skipped.
std::unique_ptr<Backend> make_device_under_test(std::string& why);

}  // namespace tw::testing

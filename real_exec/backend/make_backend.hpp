// Backends by name.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "real_exec/backend/backend.hpp"

namespace tw {

struct BackendOptions {
    int threads = 1;     // cpu: of the kernels
    int device = 0;      // cuda: index among the visible ones
    bool share = false;  // cuda: modulo their number, so that several ranks may use one
    bool tf32 = false;   // cuda: fp32 products on tensor cores, inputs rounded to 10 bits
};

// "cpu", "cuda".
const std::vector<std::string_view>& backend_names();
// An unknown name lists the valid ones; "cuda" says what is missing: the module, the driver or a device.
Result<std::unique_ptr<Backend>> make_backend(std::string_view name, const BackendOptions& options = {});

}  // namespace tw

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
    int device = 0;      // cuda: the rank's number on its node (visible_device)
    bool share = false;  // cuda: several ranks may use one GPU
    bool tf32 = false;   // cuda: fp32 products on tensor cores, inputs rounded to 10 bits
};

// Which of `visible` GPUs a rank takes: the one of its number on the node, or the only one where its launcher
// shows each rank its own; `share`: its number modulo how many there are.
int visible_device(int local_rank, int visible, bool share);

// "cpu", "cuda".
const std::vector<std::string_view>& backend_names();
// What make_backend would say of this machine: the module, the driver or a device is missing. Opens no
// device.
Status backend_present(std::string_view name);
// An unknown name lists the valid ones; "cuda" says what is missing: the module, the driver or a device.
Result<std::unique_ptr<Backend>> make_backend(std::string_view name, const BackendOptions& options = {});

}  // namespace tw

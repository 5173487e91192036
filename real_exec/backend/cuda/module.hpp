// The one symbol of libtrainwright_cuda.so. The program that opens it was built without CUDA; both sides are
// built from one tree, which `version` and the Backend's size check.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "real_exec/backend/backend.hpp"
#include "real_exec/comm/communicator.hpp"

namespace tw::cuda {

inline constexpr std::uint32_t kModuleVersion = 3;
inline constexpr const char* kModuleSymbol = "trainwright_cuda_module";
inline constexpr const char* kModuleFile = "libtrainwright_cuda.so";

struct NcclBootstrap;  // real_exec/comm/nccl/nccl_bootstrap.hpp

struct Module {
    std::uint32_t version = kModuleVersion;
    std::uint64_t backend_bytes = sizeof(Backend);
    const char* description = "";     // "CUDA 13.0, NCCL 2.28, sm_90"
    int (*device_count)() = nullptr;  // 0 without a driver
    Result<std::unique_ptr<Backend>> (*make_backend)(int device, bool tf32) = nullptr;
    // Null where the module was built without NCCL. `backend`: one that this module made.
    Result<std::unique_ptr<Transport>> (*make_nccl)(const NcclBootstrap& bootstrap,
                                                    Backend& backend) = nullptr;
};
using ModuleFunction = const Module* (*)();

}  // namespace tw::cuda

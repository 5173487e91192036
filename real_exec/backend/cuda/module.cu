#include <cstdlib>

#include "real_exec/backend/cuda/cuda_backend.hpp"
#include "real_exec/backend/cuda/module.hpp"
#ifdef TW_HAVE_NCCL
#include "real_exec/comm/nccl/nccl_transport.hpp"
#endif

namespace tw::cuda {
namespace {

Result<std::unique_ptr<Backend>> make(int device, bool tf32) {
    Result<DeviceInfo> info = open_device(device);
    if (!info) return info.errors();
    constexpr int kLeastMajor = 8;  // cp.async and bf16 tensor cores
    if (info->major < kLeastMajor) {
        return Error{ErrorCode::Failure,
                     info->name + " has compute capability " + std::to_string(info->major) + "." +
                         std::to_string(info->minor) + "; the kernels need 8.0",
                     "cuda", "an A100 or newer, or --backend cpu"};
    }
    return std::unique_ptr<Backend>(std::make_unique<CudaBackend>(std::move(*info), tf32));
}

}  // namespace
}  // namespace tw::cuda

extern "C" __attribute__((visibility("default"))) const tw::cuda::Module* trainwright_cuda_module() {
    static const tw::cuda::Module module = [] {
        // Work queues of the device, read when its context opens: with the driver's 8 the streams of a rank's
        // communicators would wait behind each other and behind its kernels.
        ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
        tw::cuda::Module m;
        m.description = TW_CUDA_DESCRIPTION;
        m.device_count = tw::cuda::device_count;
        m.make_backend = tw::cuda::make;
#ifdef TW_HAVE_NCCL
        m.make_nccl = tw::cuda::make_nccl_transport;
#endif
        return m;
    }();
    return &module;
}

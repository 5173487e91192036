#include "real_exec/backend/cuda/cuda_backend.hpp"
#include "tests/gpu/device_under_test.hpp"

namespace tw::testing {

std::unique_ptr<Backend> make_device_under_test(std::string&) {
    return std::make_unique<cuda::CudaBackend>(*cuda::open_device(0), false);
}

}  // namespace tw::testing

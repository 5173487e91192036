#include "real_exec/backend/cuda/cuda_backend.hpp"

#include <cstdio>
#include <utility>

namespace tw::cuda {

CudaBackend::CudaBackend(DeviceInfo device, bool tf32)
    : device_(std::move(device)),
      stream_(make_stream()),
      mark_(make_event()),
      pool_(stream_),
      gemm_(make_gemm(tf32, stream_)),
      host_word_(pinned_allocate(64)) {}

CudaBackend::~CudaBackend() {
    cuda::synchronize(stream_);
    rope_tables_.clear();
    gemm_.reset();
    pinned_free(host_word_);
    pool_.release();
    destroy_event(mark_);
    destroy_stream(stream_);
}

std::string CudaBackend::description() const {
    return "cuda: " + device_.name + ", " + device_.software + ", " + gemm_->description();
}

void* CudaBackend::raw_allocate(std::size_t bytes) {
    void* data = pool_.allocate(bytes);
    if (data == nullptr) {
        // What is cached may be in the wrong sizes.
        release_cached();
        data = pool_.allocate(bytes);
    }
    if (data == nullptr) {
        std::fprintf(stderr, "out of device memory: %zu bytes wanted, %zu in use, %zu reserved of %zu\n",
                     bytes, memory().current, pool_.reserved(), device_.memory_bytes);
    }
    TW_CHECK_MSG(data != nullptr, "out of device memory");
    return data;
}

void CudaBackend::release_cached() {
    pool_.release();
    cuda::synchronize(stream_);  // the driver takes back what has been freed
}

void CudaBackend::copy_from_host(const Tensor& to, const void* from) {
    if (to.bytes() > 0) copy_to_device(to.data, from, to.bytes(), stream_);
}
void CudaBackend::copy_to_host(void* to, const Tensor& from) {
    if (from.bytes() > 0) cuda::copy_to_host(to, from.data, from.bytes(), stream_);
}
void CudaBackend::synchronize() {
    cuda::synchronize(stream_);
}

void CudaBackend::mark() {
    record(mark_, stream_);
}
bool CudaBackend::reached_mark() {
    return has_happened(mark_);
}
std::size_t CudaBackend::system_bytes() const {
    return used_device_bytes();
}

void CudaBackend::gemm(const MatrixView& a, bool transpose_a, const MatrixView& b, bool transpose_b,
                       const MatrixView& c, bool accumulate, const Tensor& bias) {
    const std::int64_t inner = transpose_a ? a.rows : a.cols;
    TW_CHECK((transpose_a ? a.cols : a.rows) == c.rows && (transpose_b ? b.rows : b.cols) == c.cols &&
             inner == (transpose_b ? b.cols : b.rows) && a.dtype == b.dtype);
    TW_CHECK(c.dtype == a.dtype || c.dtype == DType::F32);
    if (c.rows == 0 || c.cols == 0) return;
    TW_CHECK(inner > 0);
    if (!bias || bias.dtype == c.dtype) {
        gemm_->run(a, transpose_a, b, transpose_b, c, accumulate, bias, stream_);
        return;
    }
    const Buffer wide = allocate(c.dtype, bias.shape, MemoryUse::Temporaries);
    const Tensor converted = wide.view(c.dtype, bias.shape);
    copy(bias, converted);
    gemm_->run(a, transpose_a, b, transpose_b, c, accumulate, converted, stream_);
}

}  // namespace tw::cuda

// Normalisation over rows: a block a row; gradients of gain and bias by pieces of rows, in a fixed order.
#include <algorithm>

#include "real_exec/backend/cuda/cuda_backend.hpp"
#include "real_exec/backend/cuda/device_math.hpp"

namespace tw::cuda {
namespace {

constexpr unsigned kThreads = 128;

template <class T>
TW_KERNEL norm_kernel(bool rms, const T* x, const T* gain, const T* bias, float eps, T* y, float* stats,
                      std::int64_t cols, bool wide_all) {
    TW_SHARED float scratch[32];
    const std::int64_t row = blockIdx.x;
    const T* in = x + row * cols;
    const std::int64_t begin = static_cast<std::int64_t>(threadIdx.x) * kPack;
    const std::int64_t stride = static_cast<std::int64_t>(kThreads) * kPack;
    const float inverse = 1.0F / static_cast<float>(cols);
    float v[kPack], w[kPack], b[kPack];
    float mean = 0;
    if (!rms) {
        float sum = 0;
        for (std::int64_t c = begin; c < cols; c += stride) {
            load_pack(in + c, cols - c, wide_all, v);
            for (int i = 0; i < kPack; ++i)
                sum += v[i];
        }
        mean = block_sum(sum, scratch) * inverse;
    }
    float squares = 0;
    for (std::int64_t c = begin; c < cols; c += stride) {
        load_pack(in + c, cols - c, wide_all, v, mean);
        for (int i = 0; i < kPack; ++i)
            squares += (v[i] - mean) * (v[i] - mean);
    }
    const float scale = 1.0F / sqrtf(block_sum(squares, scratch) * inverse + eps);
    if (threadIdx.x == 0) {
        stats[2 * row] = mean;
        stats[2 * row + 1] = scale;
    }
    for (std::int64_t c = begin; c < cols; c += stride) {
        load_pack(in + c, cols - c, wide_all, v);
        if (gain != nullptr) load_pack(gain + c, cols - c, wide_all, w);
        if (bias != nullptr) load_pack(bias + c, cols - c, wide_all, b);
        for (int i = 0; i < kPack; ++i) {
            v[i] = (v[i] - mean) * scale;
            if (gain != nullptr) v[i] *= w[i];
            if (bias != nullptr) v[i] += b[i];
        }
        store_pack(y + row * cols + c, cols - c, wide_all, v);
    }
}

template <class T>
TW_KERNEL norm_grad_kernel(bool rms, const T* dy, const T* x, const T* gain, const float* stats, const T* add,
                           T* dx, std::int64_t cols, bool wide_all) {
    TW_SHARED float scratch[32];
    const std::int64_t row = blockIdx.x;
    const std::int64_t begin = static_cast<std::int64_t>(threadIdx.x) * kPack;
    const std::int64_t stride = static_cast<std::int64_t>(kThreads) * kPack;
    const float inverse = 1.0F / static_cast<float>(cols);
    const float mean = stats[2 * row];
    const float scale = stats[2 * row + 1];
    float v[kPack], g[kPack], w[kPack];
    float sum_g = 0, sum_gx = 0;
    for (std::int64_t c = begin; c < cols; c += stride) {
        load_pack(x + row * cols + c, cols - c, wide_all, v, mean);
        load_pack(dy + row * cols + c, cols - c, wide_all, g);
        if (gain != nullptr) load_pack(gain + c, cols - c, wide_all, w);
        for (int i = 0; i < kPack; ++i) {
            const float d = gain != nullptr ? g[i] * w[i] : g[i];
            sum_g += d;
            sum_gx += d * (v[i] - mean) * scale;
        }
    }
    const float mean_g = rms ? 0.0F : block_sum(sum_g, scratch) * inverse;
    const float mean_gx = block_sum(sum_gx, scratch) * inverse;
    for (std::int64_t c = begin; c < cols; c += stride) {
        load_pack(x + row * cols + c, cols - c, wide_all, v);
        load_pack(dy + row * cols + c, cols - c, wide_all, g);
        if (gain != nullptr) load_pack(gain + c, cols - c, wide_all, w);
        for (int i = 0; i < kPack; ++i) {
            const float d = gain != nullptr ? g[i] * w[i] : g[i];
            g[i] = scale * (d - mean_g - (v[i] - mean) * scale * mean_gx);
        }
        if (add != nullptr) {
            load_pack(add + row * cols + c, cols - c, wide_all, w);
            for (int i = 0; i < kPack; ++i)
                g[i] += w[i];
        }
        store_pack(dx + row * cols + c, cols - c, wide_all, g);
    }
}

// partials[piece]: gradients of the gain, then of the bias, over the piece's rows; a thread a column.
template <class T>
TW_KERNEL norm_columns_kernel(const T* dy, const T* x, const float* stats, std::int64_t rows,
                              std::int64_t cols, std::int64_t each, float* partials) {
    const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (col >= cols) return;
    const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * each;
    const std::int64_t end = begin + each < rows ? begin + each : rows;
    float sum = 0, sum_x = 0;
    for (std::int64_t r = begin; r < end; ++r) {
        const float g = to_float(dy[r * cols + col]);
        sum += g;
        sum_x += g * (to_float(x[r * cols + col]) - stats[2 * r]) * stats[2 * r + 1];
    }
    float* out = partials + static_cast<std::int64_t>(blockIdx.y) * 2 * cols;
    out[col] = sum_x;
    out[cols + col] = sum;
}

}  // namespace

void CudaBackend::norm_forward(bool rms, const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                               const Tensor& y, const Tensor& stats) {
    const MatrixView view = MatrixView::of(x);
    TW_CHECK(y.elements() == x.elements() && stats.elements() == 2 * view.rows);
    if (x.elements() == 0) return;
    typed(x.dtype, [&](auto t) {
        using T = decltype(t);
        launch("norm", norm_kernel<T>, Grid{static_cast<unsigned>(view.rows)}, kThreads, 0, stream_, rms,
               static_cast<const T*>(x.data), static_cast<const T*>(gain.data),
               static_cast<const T*>(bias.data), static_cast<float>(eps), static_cast<T*>(y.data),
               stats.as<float>(), view.cols,
               wide(view) && wide(gain.data) && wide(bias.data) && wide(y.data));
    });
}

void CudaBackend::norm_backward(bool rms, const Tensor& dy, const Tensor& x, const Tensor& gain,
                                const Tensor& stats, const Tensor& add, const Tensor& dx, const Tensor& dgain,
                                const Tensor& dbias) {
    const MatrixView view = MatrixView::of(x);
    if (x.elements() == 0) return;
    const std::int64_t pieces = std::clamp<std::int64_t>(view.rows / 32, 1, 256);
    const std::int64_t each = (view.rows + pieces - 1) / pieces;
    const Buffer buffer = allocate(DType::F32, {pieces, 2 * view.cols}, MemoryUse::Temporaries);
    const Tensor partials = buffer.view(DType::F32, {pieces, 2 * view.cols});
    typed(x.dtype, [&](auto t) {
        using T = decltype(t);
        const auto in = [](const Tensor& tensor) { return static_cast<const T*>(tensor.data); };
        // Before dx, which may take dy's place.
        if (dgain || dbias) {
            launch("norm_columns", norm_columns_kernel<T>,
                   Grid{blocks_for(view.cols, kThreads), static_cast<unsigned>(pieces)}, kThreads, 0, stream_,
                   in(dy), in(x), stats.as<float>(), view.rows, view.cols, each, partials.as<float>());
        }
        launch("norm_grad", norm_grad_kernel<T>, Grid{static_cast<unsigned>(view.rows)}, kThreads, 0, stream_,
               rms, in(dy), in(x), in(gain), stats.as<float>(), in(add), static_cast<T*>(dx.data), view.cols,
               wide(view) && wide(dy.data) && wide(gain.data) && wide(add.data) && wide(dx.data));
    });
    if (dgain) add_columns(partials, pieces, dgain);
    if (dbias) {
        Tensor second = partials;
        second.data = partials.as<float>() + view.cols;
        add_columns(second, pieces, dbias);
    }
}

void CudaBackend::layer_norm_forward(const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                                     const Tensor& y, const Tensor& stats) {
    norm_forward(false, x, gain, bias, eps, y, stats);
}
void CudaBackend::layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gain,
                                      const Tensor& stats, const Tensor& add, const Tensor& dx,
                                      const Tensor& dgain, const Tensor& dbias) {
    norm_backward(false, dy, x, gain, stats, add, dx, dgain, dbias);
}
void CudaBackend::rms_norm_forward(const Tensor& x, const Tensor& gain, double eps, const Tensor& y,
                                   const Tensor& stats) {
    norm_forward(true, x, gain, {}, eps, y, stats);
}
void CudaBackend::rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gain,
                                    const Tensor& stats, const Tensor& add, const Tensor& dx,
                                    const Tensor& dgain) {
    norm_backward(true, dy, x, gain, stats, add, dx, dgain, {});
}

}  // namespace tw::cuda

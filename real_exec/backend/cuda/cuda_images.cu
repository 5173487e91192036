// Convolution and pooling: a convolution is a matrix product over unfolded windows (im2col), one image and
// group at a time; gradients gather what reaches an element, so that sums have one order.
#include "real_exec/backend/cuda/cuda_backend.hpp"
#include "real_exec/backend/cuda/device_math.hpp"

namespace tw::cuda {
namespace {

constexpr unsigned kThreads = 256;

struct Geometry {
    std::int64_t batch, channels, height, width;  // of the input
    std::int64_t out_channels, out_height, out_width;
    std::int64_t kernel_h, kernel_w, in_group, out_group;
    std::int64_t stride, padding_h, padding_w;
    [[nodiscard]] std::int64_t window() const { return in_group * kernel_h * kernel_w; }
    [[nodiscard]] std::int64_t pixels() const { return out_height * out_width; }
};

Geometry geometry(const Tensor& x, const Tensor& weight, const Tensor& y, const ConvSpec& spec) {
    TW_CHECK(x.dtype == DType::F32 && weight.dtype == DType::F32 && y.dtype == DType::F32);
    const Geometry g{x.shape[0],
                     x.shape[1],
                     x.shape[2],
                     x.shape[3],
                     y.shape[1],
                     y.shape[2],
                     y.shape[3],
                     weight.shape[2],
                     weight.shape[3],
                     x.shape[1] / spec.groups,
                     y.shape[1] / spec.groups,
                     spec.stride,
                     spec.padding_h,
                     spec.padding_w};
    TW_CHECK(weight.shape[0] == g.out_channels && weight.shape[1] == g.in_group && y.shape[0] == g.batch);
    TW_CHECK((g.out_height - 1) * g.stride + g.kernel_h <= g.height + 2 * g.padding_h &&
             (g.out_width - 1) * g.stride + g.kernel_w <= g.width + 2 * g.padding_w);
    return g;
}

TW_DEVICE std::int64_t element_index() {
    return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// columns[channel, i, j][y, x] = image[channel, y * stride + i - padding, ...]
TW_KERNEL unfold_kernel(Geometry g, const float* image, float* columns, std::int64_t n) {
    const std::int64_t index = element_index();
    if (index >= n) return;
    const std::int64_t x = index % g.out_width;
    const std::int64_t y = index / g.out_width % g.out_height;
    const std::int64_t row = index / (g.out_width * g.out_height);
    const std::int64_t at_x = x * g.stride + row % g.kernel_w - g.padding_w;
    const std::int64_t at_y = y * g.stride + row / g.kernel_w % g.kernel_h - g.padding_h;
    const std::int64_t channel = row / (g.kernel_w * g.kernel_h);
    const bool inside = at_x >= 0 && at_x < g.width && at_y >= 0 && at_y < g.height;
    columns[index] = inside ? image[(channel * g.height + at_y) * g.width + at_x] : 0.0F;
}

// The gradient of unfold: each input pixel sums the windows that hold it.
TW_KERNEL fold_kernel(Geometry g, const float* columns, float* image, std::int64_t n) {
    const std::int64_t index = element_index();
    if (index >= n) return;
    const std::int64_t x = index % g.width;
    const std::int64_t y = index / g.width % g.height;
    const std::int64_t channel = index / (g.width * g.height);
    float sum = 0;
    for (std::int64_t i = 0; i < g.kernel_h; ++i) {
        const std::int64_t top = y + g.padding_h - i;
        if (top < 0 || top % g.stride != 0 || top / g.stride >= g.out_height) continue;
        for (std::int64_t j = 0; j < g.kernel_w; ++j) {
            const std::int64_t left = x + g.padding_w - j;
            if (left < 0 || left % g.stride != 0 || left / g.stride >= g.out_width) continue;
            const std::int64_t row = (channel * g.kernel_h + i) * g.kernel_w + j;
            sum += columns[(row * g.out_height + top / g.stride) * g.out_width + left / g.stride];
        }
    }
    image[index] = sum;
}

// y[image, channel, pixel] += bias[channel]
TW_KERNEL channel_bias_kernel(const float* bias, std::int64_t channels, std::int64_t pixels, float* y,
                              std::int64_t n) {
    const std::int64_t index = element_index();
    if (index < n) y[index] += bias[index / pixels % channels];
}
TW_KERNEL channel_sum_kernel(const float* dy, std::int64_t batch, std::int64_t channels, std::int64_t pixels,
                             float* dbias) {
    TW_SHARED float scratch[32];
    const std::int64_t channel = blockIdx.x;
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < batch * pixels; i += blockDim.x)
        sum += dy[(i / pixels * channels + channel) * pixels + i % pixels];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) dbias[channel] += sum;
}

struct Pool {
    std::int64_t planes, height, width, out_height, out_width;
    std::int64_t kernel_h, kernel_w, stride, padding_h, padding_w;
};
Pool pool_of(const Tensor& x, const Tensor& y, const PoolSpec& s) {
    TW_CHECK(x.dtype == DType::F32 && y.dtype == DType::F32);
    return {x.shape[0] * x.shape[1],
            x.shape[2],
            x.shape[3],
            y.shape[2],
            y.shape[3],
            s.kernel_h,
            s.kernel_w,
            s.stride,
            s.padding_h,
            s.padding_w};
}

// argmax null: the mean of the whole window, padding counted as zeros.
TW_KERNEL pool_kernel(Pool p, const float* x, float* y, std::int32_t* argmax, std::int64_t n) {
    const std::int64_t index = element_index();
    if (index >= n) return;
    const std::int64_t left = index % p.out_width * p.stride - p.padding_w;
    const std::int64_t top = index / p.out_width % p.out_height * p.stride - p.padding_h;
    const float* image = x + index / (p.out_width * p.out_height) * p.height * p.width;
    const std::int64_t i0 = top > 0 ? top : 0, j0 = left > 0 ? left : 0;
    float best = -INFINITY, sum = 0;
    std::int64_t at = i0 * p.width + j0;
    for (std::int64_t i = i0; i < top + p.kernel_h && i < p.height; ++i) {
        for (std::int64_t j = j0; j < left + p.kernel_w && j < p.width; ++j) {
            const float v = image[i * p.width + j];
            sum += v;
            if (v > best) {
                best = v;
                at = i * p.width + j;
            }
        }
    }
    if (argmax != nullptr) {
        y[index] = best;
        argmax[index] = static_cast<std::int32_t>(at);
    } else {
        y[index] = sum * (1.0F / static_cast<float>(p.kernel_h * p.kernel_w));
    }
}

// The mean's gradient: each input pixel sums over the windows that hold it.
TW_KERNEL average_grad_kernel(Pool p, const float* dy, float* dx, std::int64_t n) {
    const std::int64_t index = element_index();
    if (index >= n) return;
    const std::int64_t x = index % p.width, y = index / p.width % p.height;
    const std::int64_t plane = index / (p.width * p.height);
    const float inverse = 1.0F / static_cast<float>(p.kernel_h * p.kernel_w);
    float sum = 0;
    const std::int64_t first_i = y + p.padding_h - p.kernel_h + 1;
    const std::int64_t first_j = x + p.padding_w - p.kernel_w + 1;
    for (std::int64_t i = first_i > 0 ? (first_i + p.stride - 1) / p.stride : 0;
         i < p.out_height && i * p.stride <= y + p.padding_h; ++i) {
        for (std::int64_t j = first_j > 0 ? (first_j + p.stride - 1) / p.stride : 0;
             j < p.out_width && j * p.stride <= x + p.padding_w; ++j)
            sum += dy[(plane * p.out_height + i) * p.out_width + j] * inverse;
    }
    dx[index] = sum;
}

// A thread a plane: outputs add to their largest input one after another.
TW_KERNEL max_grad_kernel(const float* dy, const std::int32_t* argmax, std::int64_t in_pixels,
                          std::int64_t out_pixels, float* dx, std::int64_t planes) {
    const std::int64_t plane = element_index();
    if (plane >= planes) return;
    for (std::int64_t p = plane * out_pixels; p < (plane + 1) * out_pixels; ++p)
        dx[plane * in_pixels + argmax[p]] += dy[p];
}

MatrixView matrix(float* data, std::int64_t rows, std::int64_t cols) {
    return {data, DType::F32, rows, cols, cols};
}
Grid elements_grid(std::int64_t n) {
    return {blocks_for(n, kThreads)};
}

}  // namespace

void CudaBackend::conv_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                               const ConvSpec& spec, const Tensor& y) {
    const Geometry g = geometry(x, weight, y, spec);
    const std::int64_t n = g.window() * g.pixels();
    const Buffer buffer = allocate(DType::F32, {n}, MemoryUse::Temporaries);
    auto* columns = static_cast<float*>(buffer.data());
    for (std::int64_t b = 0; b < g.batch; ++b) {
        for (std::int64_t group = 0; group < spec.groups; ++group) {
            launch("unfold", unfold_kernel, elements_grid(n), kThreads, 0, stream_, g,
                   x.as<float>() + (b * g.channels + group * g.in_group) * g.height * g.width, columns, n);
            gemm(matrix(weight.as<float>() + group * g.out_group * g.window(), g.out_group, g.window()),
                 false, matrix(columns, g.window(), g.pixels()), false,
                 matrix(y.as<float>() + (b * g.out_channels + group * g.out_group) * g.pixels(), g.out_group,
                        g.pixels()),
                 false, {});
        }
    }
    if (!bias) return;
    launch("channel_bias", channel_bias_kernel, elements_grid(y.elements()), kThreads, 0, stream_,
           bias.as<float>(), g.out_channels, g.pixels(), y.as<float>(), y.elements());
}

void CudaBackend::conv_backward_input(const Tensor& dy, const Tensor& weight, const ConvSpec& spec,
                                      const Tensor& dx) {
    const Geometry g = geometry(dx, weight, dy, spec);
    const std::int64_t pixels = g.in_group * g.height * g.width;
    const Buffer buffer = allocate(DType::F32, {g.window() * g.pixels()}, MemoryUse::Temporaries);
    auto* columns = static_cast<float*>(buffer.data());
    for (std::int64_t b = 0; b < g.batch; ++b) {
        for (std::int64_t group = 0; group < spec.groups; ++group) {
            gemm(matrix(weight.as<float>() + group * g.out_group * g.window(), g.out_group, g.window()), true,
                 matrix(dy.as<float>() + (b * g.out_channels + group * g.out_group) * g.pixels(), g.out_group,
                        g.pixels()),
                 false, matrix(columns, g.window(), g.pixels()), false, {});
            launch("fold", fold_kernel, elements_grid(pixels), kThreads, 0, stream_, g, columns,
                   dx.as<float>() + (b * g.channels + group * g.in_group) * g.height * g.width, pixels);
        }
    }
}

void CudaBackend::conv_backward_weight(const Tensor& dy, const Tensor& x, const ConvSpec& spec,
                                       const Tensor& dweight, const Tensor& dbias) {
    const Geometry g = geometry(x, dweight, dy, spec);
    const std::int64_t n = g.window() * g.pixels();
    const Buffer buffer = allocate(DType::F32, {n}, MemoryUse::Temporaries);
    auto* columns = static_cast<float*>(buffer.data());
    for (std::int64_t b = 0; b < g.batch; ++b) {
        for (std::int64_t group = 0; group < spec.groups; ++group) {
            launch("unfold", unfold_kernel, elements_grid(n), kThreads, 0, stream_, g,
                   x.as<float>() + (b * g.channels + group * g.in_group) * g.height * g.width, columns, n);
            gemm(matrix(dy.as<float>() + (b * g.out_channels + group * g.out_group) * g.pixels(), g.out_group,
                        g.pixels()),
                 false, matrix(columns, g.window(), g.pixels()), true,
                 matrix(dweight.as<float>() + group * g.out_group * g.window(), g.out_group, g.window()),
                 true, {});
        }
    }
    if (!dbias) return;
    launch("channel_sum", channel_sum_kernel, Grid{static_cast<unsigned>(g.out_channels)}, kThreads, 0,
           stream_, dy.as<float>(), g.batch, g.out_channels, g.pixels(), dbias.as<float>());
}

void CudaBackend::max_pool_forward(const Tensor& x, const PoolSpec& spec, const Tensor& y,
                                   const Tensor& argmax) {
    launch("max_pool", pool_kernel, elements_grid(y.elements()), kThreads, 0, stream_, pool_of(x, y, spec),
           x.as<float>(), y.as<float>(), argmax.as<std::int32_t>(), y.elements());
}
void CudaBackend::max_pool_backward(const Tensor& dy, const Tensor& argmax, const Tensor& dx) {
    fill(dx, 0);
    const std::int64_t planes = dx.shape[0] * dx.shape[1];
    launch("max_pool_grad", max_grad_kernel, elements_grid(planes), kThreads, 0, stream_, dy.as<float>(),
           argmax.as<std::int32_t>(), dx.shape[2] * dx.shape[3], dy.shape[2] * dy.shape[3], dx.as<float>(),
           planes);
}
void CudaBackend::average_pool_forward(const Tensor& x, const PoolSpec& spec, const Tensor& y) {
    launch("average_pool", pool_kernel, elements_grid(y.elements()), kThreads, 0, stream_,
           pool_of(x, y, spec), x.as<float>(), y.as<float>(), static_cast<std::int32_t*>(nullptr),
           y.elements());
}
void CudaBackend::average_pool_backward(const Tensor& dy, const PoolSpec& spec, const Tensor& dx) {
    launch("average_pool_grad", average_grad_kernel, elements_grid(dx.elements()), kThreads, 0, stream_,
           pool_of(dx, dy, spec), dy.as<float>(), dx.as<float>(), dx.elements());
}

}  // namespace tw::cuda

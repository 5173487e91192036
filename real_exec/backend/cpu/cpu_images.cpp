// Convolution and pooling on the CPU. A convolution is a matrix product over unfolded windows (im2col), one
// image and group at a time; its weight is [out, in / groups, height, width].
#include <algorithm>
#include <cstring>
#include <limits>

#include "real_exec/backend/cpu/cpu_backend.hpp"

namespace tw::cpu {
namespace {

struct Geometry {
    std::int64_t batch, channels, height, width;  // of the input
    std::int64_t out_channels, out_height, out_width;
    std::int64_t kernel_h, kernel_w, in_group, out_group;
    std::int64_t window() const { return in_group * kernel_h * kernel_w; }
    std::int64_t pixels() const { return out_height * out_width; }
};

Geometry geometry(const Tensor& x, const Tensor& weight, const Tensor& y, const ConvSpec& spec) {
    TW_CHECK(x.dtype == DType::F32 && weight.dtype == DType::F32 && y.dtype == DType::F32);
    Geometry g{};
    g.batch = x.shape[0];
    g.channels = x.shape[1];
    g.height = x.shape[2];
    g.width = x.shape[3];
    g.out_channels = y.shape[1];
    g.out_height = y.shape[2];
    g.out_width = y.shape[3];
    g.kernel_h = weight.shape[2];
    g.kernel_w = weight.shape[3];
    g.in_group = g.channels / spec.groups;
    g.out_group = g.out_channels / spec.groups;
    TW_CHECK(weight.shape[0] == g.out_channels && weight.shape[1] == g.in_group && y.shape[0] == g.batch);
    TW_CHECK((g.out_height - 1) * spec.stride + g.kernel_h <= g.height + 2 * spec.padding_h &&
             (g.out_width - 1) * spec.stride + g.kernel_w <= g.width + 2 * spec.padding_w);
    return g;
}

// body(row of the unfolded matrix, output row, first output column, last, pointer to the image's row or
// null).
template <class Body>
void over_windows(const Geometry& g, const ConvSpec& spec, float* image, Body body) {
    std::int64_t row = 0;
    for (std::int64_t c = 0; c < g.in_group; ++c) {
        for (std::int64_t i = 0; i < g.kernel_h; ++i) {
            for (std::int64_t j = 0; j < g.kernel_w; ++j, ++row) {
                for (std::int64_t y = 0; y < g.out_height; ++y) {
                    const std::int64_t from = y * spec.stride + i - spec.padding_h;
                    const bool inside = from >= 0 && from < g.height;
                    body(row, y, j - spec.padding_w,
                         inside ? image + (c * g.height + from) * g.width : nullptr);
                }
            }
        }
    }
}

void unfold(const Geometry& g, const ConvSpec& spec, const float* image, float* columns) {
    over_windows(g, spec, const_cast<float*>(image),
                 [&](std::int64_t row, std::int64_t y, std::int64_t shift, const float* line) {
                     float* out = columns + row * g.pixels() + y * g.out_width;
                     for (std::int64_t x = 0; x < g.out_width; ++x) {
                         const std::int64_t at = x * spec.stride + shift;
                         out[x] = line != nullptr && at >= 0 && at < g.width ? line[at] : 0.0F;
                     }
                 });
}

void fold(const Geometry& g, const ConvSpec& spec, const float* columns, float* image) {
    over_windows(g, spec, image, [&](std::int64_t row, std::int64_t y, std::int64_t shift, float* line) {
        if (line == nullptr) return;
        const float* in = columns + row * g.pixels() + y * g.out_width;
        for (std::int64_t x = 0; x < g.out_width; ++x) {
            const std::int64_t at = x * spec.stride + shift;
            if (at >= 0 && at < g.width) line[at] += in[x];
        }
    });
}

MatrixView matrix(float* data, std::int64_t rows, std::int64_t cols) {
    return {data, DType::F32, rows, cols, cols};
}

}  // namespace

void CpuBackend::conv_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvSpec& spec,
                              const Tensor& y) {
    const Geometry g = geometry(x, weight, y, spec);
    const Buffer columns =
        allocate(static_cast<std::size_t>(g.window() * g.pixels()) * 4, MemoryUse::Temporaries);
    auto* unfolded = static_cast<float*>(columns.data());
    for (std::int64_t b = 0; b < g.batch; ++b) {
        for (std::int64_t group = 0; group < spec.groups; ++group) {
            const float* image = x.as<float>() + (b * g.channels + group * g.in_group) * g.height * g.width;
            unfold(g, spec, image, unfolded);
            float* out = y.as<float>() + (b * g.out_channels + group * g.out_group) * g.pixels();
            gemm(matrix(weight.as<float>() + group * g.out_group * g.window(), g.out_group, g.window()),
                 false, matrix(unfolded, g.window(), g.pixels()), false, matrix(out, g.out_group, g.pixels()),
                 false, {});
            for (std::int64_t c = 0; bias && c < g.out_group; ++c) {
                const float value = bias.as<float>()[group * g.out_group + c];
                for (std::int64_t p = 0; p < g.pixels(); ++p)
                    out[c * g.pixels() + p] += value;
            }
        }
    }
}

void CpuBackend::conv_backward_input(const Tensor& dy, const Tensor& weight, const ConvSpec& spec,
                                     const Tensor& dx) {
    const Geometry g = geometry(dx, weight, dy, spec);
    const Buffer columns =
        allocate(static_cast<std::size_t>(g.window() * g.pixels()) * 4, MemoryUse::Temporaries);
    auto* unfolded = static_cast<float*>(columns.data());
    fill(dx, 0);
    for (std::int64_t b = 0; b < g.batch; ++b) {
        for (std::int64_t group = 0; group < spec.groups; ++group) {
            gemm(matrix(weight.as<float>() + group * g.out_group * g.window(), g.out_group, g.window()), true,
                 matrix(dy.as<float>() + (b * g.out_channels + group * g.out_group) * g.pixels(), g.out_group,
                        g.pixels()),
                 false, matrix(unfolded, g.window(), g.pixels()), false, {});
            fold(g, spec, unfolded,
                 dx.as<float>() + (b * g.channels + group * g.in_group) * g.height * g.width);
        }
    }
}

void CpuBackend::conv_backward_weight(const Tensor& dy, const Tensor& x, const ConvSpec& spec,
                                      const Tensor& dweight, const Tensor& dbias) {
    const Geometry g = geometry(x, dweight, dy, spec);
    const Buffer columns =
        allocate(static_cast<std::size_t>(g.window() * g.pixels()) * 4, MemoryUse::Temporaries);
    auto* unfolded = static_cast<float*>(columns.data());
    for (std::int64_t b = 0; b < g.batch; ++b) {
        for (std::int64_t group = 0; group < spec.groups; ++group) {
            unfold(g, spec, x.as<float>() + (b * g.channels + group * g.in_group) * g.height * g.width,
                   unfolded);
            float* out = dy.as<float>() + (b * g.out_channels + group * g.out_group) * g.pixels();
            gemm(matrix(out, g.out_group, g.pixels()), false, matrix(unfolded, g.window(), g.pixels()), true,
                 matrix(dweight.as<float>() + group * g.out_group * g.window(), g.out_group, g.window()),
                 true, {});
            for (std::int64_t c = 0; dbias && c < g.out_group; ++c) {
                float sum = 0;
                for (std::int64_t p = 0; p < g.pixels(); ++p)
                    sum += out[c * g.pixels() + p];
                dbias.as<float>()[group * g.out_group + c] += sum;
            }
        }
    }
}

namespace {

// body(plane, output pixel, first and last input row, first and last input column) over all windows, clipped.
template <class Body>
void over_pool(const Tensor& x, const Tensor& y, const PoolSpec& s, Body body) {
    TW_CHECK(x.dtype == DType::F32 && y.dtype == DType::F32);
    for (std::int64_t plane = 0; plane < x.shape[0] * x.shape[1]; ++plane) {
        for (std::int64_t i = 0; i < y.shape[2]; ++i) {
            for (std::int64_t j = 0; j < y.shape[3]; ++j) {
                const std::int64_t top = i * s.stride - s.padding_h;
                const std::int64_t left = j * s.stride - s.padding_w;
                body(plane, (plane * y.shape[2] + i) * y.shape[3] + j, std::max<std::int64_t>(0, top),
                     std::min(x.shape[2], top + s.kernel_h), std::max<std::int64_t>(0, left),
                     std::min(x.shape[3], left + s.kernel_w));
            }
        }
    }
}

}  // namespace

void CpuBackend::max_pool_forward(const Tensor& x, const PoolSpec& spec, const Tensor& y,
                                  const Tensor& argmax) {
    over_pool(x, y, spec,
              [&](std::int64_t plane, std::int64_t out, std::int64_t i0, std::int64_t i1, std::int64_t j0,
                  std::int64_t j1) {
                  const float* image = x.as<float>() + plane * x.shape[2] * x.shape[3];
                  float best = -std::numeric_limits<float>::infinity();
                  std::int64_t at = i0 * x.shape[3] + j0;
                  for (std::int64_t i = i0; i < i1; ++i) {
                      for (std::int64_t j = j0; j < j1; ++j) {
                          const std::int64_t here = i * x.shape[3] + j;
                          if (image[here] > best) {
                              best = image[here];
                              at = here;
                          }
                      }
                  }
                  y.as<float>()[out] = best;
                  argmax.as<std::int32_t>()[out] = static_cast<std::int32_t>(at);
              });
}

void CpuBackend::max_pool_backward(const Tensor& dy, const Tensor& argmax, const Tensor& dx) {
    fill(dx, 0);
    const std::int64_t out_pixels = dy.shape[2] * dy.shape[3];
    for (std::int64_t plane = 0; plane < dy.shape[0] * dy.shape[1]; ++plane) {
        float* image = dx.as<float>() + plane * dx.shape[2] * dx.shape[3];
        for (std::int64_t p = plane * out_pixels; p < (plane + 1) * out_pixels; ++p)
            image[argmax.as<std::int32_t>()[p]] += dy.as<float>()[p];
    }
}

void CpuBackend::average_pool_forward(const Tensor& x, const PoolSpec& spec, const Tensor& y) {
    const float inverse = 1.0F / static_cast<float>(spec.kernel_h * spec.kernel_w);
    over_pool(x, y, spec,
              [&](std::int64_t plane, std::int64_t out, std::int64_t i0, std::int64_t i1, std::int64_t j0,
                  std::int64_t j1) {
                  const float* image = x.as<float>() + plane * x.shape[2] * x.shape[3];
                  float sum = 0;
                  for (std::int64_t i = i0; i < i1; ++i) {
                      for (std::int64_t j = j0; j < j1; ++j)
                          sum += image[i * x.shape[3] + j];
                  }
                  y.as<float>()[out] = sum * inverse;
              });
}

void CpuBackend::average_pool_backward(const Tensor& dy, const PoolSpec& spec, const Tensor& dx) {
    fill(dx, 0);
    const float inverse = 1.0F / static_cast<float>(spec.kernel_h * spec.kernel_w);
    over_pool(dx, dy, spec,
              [&](std::int64_t plane, std::int64_t out, std::int64_t i0, std::int64_t i1, std::int64_t j0,
                  std::int64_t j1) {
                  float* image = dx.as<float>() + plane * dx.shape[2] * dx.shape[3];
                  for (std::int64_t i = i0; i < i1; ++i) {
                      for (std::int64_t j = j0; j < j1; ++j)
                          image[i * dx.shape[3] + j] += dy.as<float>()[out] * inverse;
                  }
              });
}

}  // namespace tw::cpu

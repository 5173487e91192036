// Embedding, rotary positions, cross entropy.
#include <algorithm>
#include <cmath>
#include <vector>

#include "real_exec/backend/cuda/cuda_backend.hpp"
#include "real_exec/backend/cuda/device_math.hpp"

namespace tw::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kRowThreads = 512;  // of a row as long as a vocabulary

template <class T>
TW_KERNEL embedding_kernel(const std::int32_t* tokens, const T* table, std::int64_t vocabulary,
                           std::int64_t first_token, T* y, std::int64_t cols) {
    const std::int64_t row = blockIdx.x;
    const std::int64_t token = tokens[row] - first_token;
    const bool here = token >= 0 && token < vocabulary;
    for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x)
        y[row * cols + c] = here ? table[token * cols + c] : T{};
}

// Rows in the order of their tokens, those of one token as they come: a row's place is the number of rows
// that go before it, counted by n^2 comparisons of integers.
constexpr int kSortThreads = 256;
constexpr std::int64_t kSortedRows = 65536;  // at a time
TW_KERNEL sort_kernel(const std::int32_t* tokens, int n, std::int32_t* sorted_tokens,
                      std::int32_t* sorted_rows) {
    constexpr int kTile = kSortThreads / 4;
    TW_SHARED Quad tile[kTile];
    const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    const std::int32_t own = row < n ? tokens[row] : 0;
    int before = 0;
    for (int begin = 0; begin < n; begin += kSortThreads) {
        const int at = begin + static_cast<int>(threadIdx.x);
        reinterpret_cast<std::int32_t*>(tile)[threadIdx.x] = at < n ? tokens[at] : 0x7fffffff;
        __syncthreads();
        const bool same_block = begin == static_cast<int>(blockIdx.x) * kSortThreads;
        // Equal tokens of earlier rows go before this one.
        const std::int32_t limit = begin < static_cast<int>(blockIdx.x) * kSortThreads ? own + 1 : own;
        int counts[4] = {};
        for (int i = 0; i < kTile; ++i) {
            const Quad four = tile[i];
            TW_UNROLL
            for (int j = 0; j < 4; ++j)
                counts[j] += static_cast<std::int32_t>(four.words[j]) < limit ? 1 : 0;
        }
        before += counts[0] + counts[1] + counts[2] + counts[3];
        for (int i = 0; same_block && i < static_cast<int>(threadIdx.x); ++i)
            before += reinterpret_cast<const std::int32_t*>(tile)[i] == own ? 1 : 0;
        __syncthreads();
    }
    if (row >= n) return;
    sorted_tokens[before] = own;
    sorted_rows[before] = row;
}

constexpr int kSumWarps = 16;
constexpr int kSumColumns = 32 * kPack;

// The block of a token's first place sums its rows, every kSumWarps-th a warp, then the warps in their order:
// no atomics, the same sum every time.
template <class G, class T>
TW_KERNEL embedding_grad_kernel(const std::int32_t* sorted_tokens, const std::int32_t* sorted_rows, int n,
                                const G* dy, std::int64_t first_token, std::int64_t vocabulary, T* dtable,
                                std::int64_t cols, bool wide_dy) {
    TW_SHARED float sums[kSumWarps][kSumColumns];
    const int begin = static_cast<int>(blockIdx.x);
    const std::int32_t own = sorted_tokens[begin];
    const std::int64_t token = own - first_token;
    if (token < 0 || token >= vocabulary) return;
    if (begin > 0 && sorted_tokens[begin - 1] == own) return;
    int end = n;  // of the token's places
    for (int low = begin + 1; low < end;) {
        const int middle = low + (end - low) / 2;
        if (sorted_tokens[middle] == own) {
            low = middle + 1;
        } else {
            end = middle;
        }
    }
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    const std::int64_t first_col = static_cast<std::int64_t>(blockIdx.y) * kSumColumns;
    const std::int64_t col = first_col + lane * kPack;
    float own_sums[kPack] = {};
    for (int place = begin + warp; col < cols && place < end; place += kSumWarps) {
        float v[kPack];
        load_pack(dy + sorted_rows[place] * cols + col, cols - col, wide_dy, v);
        for (int i = 0; i < kPack; ++i)
            own_sums[i] += v[i];
    }
    for (int i = 0; i < kPack; ++i)
        sums[warp][lane * kPack + i] = own_sums[i];
    __syncthreads();
    const int at = static_cast<int>(threadIdx.x);
    if (at >= kSumColumns || first_col + at >= cols) return;
    float total = 0;
    for (int w = 0; w < kSumWarps; ++w)
        total += sums[w][at];
    T* to = dtable + token * cols + first_col + at;
    *to = from_float<T>(to_float(*to) + total);
}

template <class X, class T>
TW_KERNEL position_kernel(const X* table, std::int64_t seq_len, std::int64_t first_row, std::int64_t offset,
                          T* y, std::int64_t cols) {
    const std::int64_t row = blockIdx.x;
    const std::int64_t position = (first_row + row) % seq_len + offset;
    for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
        T* to = y + row * cols + c;
        *to = from_float<T>(to_float(*to) + to_float(table[position * cols + c]));
    }
}
// A block a position: the rows that have it, in order.
template <class G, class T>
TW_KERNEL position_grad_kernel(const G* dy, std::int64_t rows, std::int64_t seq_len, std::int64_t first_row,
                               std::int64_t offset, T* dtable, std::int64_t cols) {
    const std::int64_t position = blockIdx.x;
    const std::int64_t first = ((position - first_row) % seq_len + seq_len) % seq_len;
    for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
        T* to = dtable + (position + offset) * cols + c;
        T sum = *to;
        for (std::int64_t r = first; r < rows; r += seq_len)
            sum = from_float<T>(to_float(sum) + to_float(dy[r * cols + c]));
        *to = sum;
    }
}

// A block a row: no pair divides numbers of 64 bits.
template <class T>
TW_KERNEL rope_kernel(T* x, std::int64_t ld, unsigned pairs, unsigned half, std::int64_t seq_len,
                      const float* cosines, const float* sines, float sign) {
    const std::int64_t row = blockIdx.x;
    const std::int64_t position = row % seq_len * half;
    for (unsigned pair = threadIdx.x; pair < pairs; pair += blockDim.x) {
        const unsigned head = pair / half, i = pair % half;
        T* low = x + row * ld + 2 * head * half + i;
        const float a = to_float(low[0]), b = to_float(low[half]);
        const float c = cosines[position + i], s = sign * sines[position + i];
        low[0] = from_float<T>(a * c - b * s);
        low[half] = from_float<T>(b * c + a * s);
    }
}

template <class T>
TW_KERNEL row_max_kernel(const T* x, std::int64_t ld, std::int64_t cols, float* max, bool wide_all) {
    TW_SHARED float scratch[32];
    const T* row = x + static_cast<std::int64_t>(blockIdx.x) * ld;
    float largest = -INFINITY;
    for (std::int64_t c = static_cast<std::int64_t>(threadIdx.x) * kPack; c < cols; c += blockDim.x * kPack) {
        float v[kPack];
        load_pack(row + c, cols - c, wide_all, v, -INFINITY);
        for (int i = 0; i < kPack; ++i)
            largest = fmaxf(largest, v[i]);
    }
    largest = block_max(largest, scratch);
    if (threadIdx.x == 0) max[blockIdx.x] = largest;
}

template <class T>
TW_KERNEL sums_kernel(const T* x, std::int64_t ld, std::int64_t cols, const std::int32_t* targets,
                      std::int64_t first_token, const float* max, float* sums, float* picked, bool wide_all) {
    TW_SHARED float scratch[32];
    const std::int64_t r = blockIdx.x;
    const T* row = x + r * ld;
    float sum = 0;
    for (std::int64_t c = static_cast<std::int64_t>(threadIdx.x) * kPack; c < cols; c += blockDim.x * kPack) {
        float v[kPack];
        load_pack(row + c, cols - c, wide_all, v, -INFINITY);
        for (int i = 0; i < kPack; ++i)
            sum += __expf(v[i] - max[r]);
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x != 0) return;
    sums[r] = sum;
    const std::int64_t target = targets[r] - first_token;
    picked[r] = targets[r] >= 0 && target >= 0 && target < cols ? to_float(row[target]) : 0.0F;
}

// Both in one pass over the row: a thread keeps the largest of what it has seen and the sum below it
// (Milakov and Gimelshein 2018, algorithm 3).
template <class T>
TW_KERNEL statistics_kernel(const T* x, std::int64_t ld, std::int64_t cols, const std::int32_t* targets,
                            std::int64_t first_token, float* max, float* sums, float* picked, bool wide_all) {
    TW_SHARED float scratch[32];
    const std::int64_t r = blockIdx.x;
    const T* row = x + r * ld;
    float largest = -INFINITY, sum = 0;
    for (std::int64_t c = static_cast<std::int64_t>(threadIdx.x) * kPack; c < cols; c += blockDim.x * kPack) {
        float v[kPack];
        load_pack(row + c, cols - c, wide_all, v, -INFINITY);
        float higher = largest;
        for (int i = 0; i < kPack; ++i)
            higher = fmaxf(higher, v[i]);
        if (higher == -INFINITY) continue;  // infinities less infinities are no numbers
        sum *= __expf(largest - higher);
        largest = higher;
        for (int i = 0; i < kPack; ++i)
            sum += __expf(v[i] - largest);
    }
    const float top = block_max(largest, scratch);
    sum = block_sum(largest == -INFINITY ? 0.0F : sum * __expf(largest - top), scratch);
    if (threadIdx.x != 0) return;
    max[r] = top;
    sums[r] = sum;
    const std::int64_t target = targets[r] - first_token;
    picked[r] = targets[r] >= 0 && target >= 0 && target < cols ? to_float(row[target]) : 0.0F;
}

template <class G, class T>
TW_KERNEL softmax_grad_kernel(G* gradient, const T* x, std::int64_t ld, std::int64_t cols,
                              const std::int32_t* targets, std::int64_t first_token, const float* max,
                              const float* sums, float scale, bool wide_all) {
    const std::int64_t r = blockIdx.x;
    const T* row = x + r * ld;
    G* out = gradient + r * ld;
    const bool counts = targets[r] >= 0;
    const float factor = counts ? scale / sums[r] : 0.0F;
    const std::int64_t target = counts ? targets[r] - first_token : -1;
    for (std::int64_t c = static_cast<std::int64_t>(threadIdx.x) * kPack; c < ld; c += blockDim.x * kPack) {
        float v[kPack];
        load_pack(row + c, ld - c, wide_all, v);
        for (int i = 0; i < kPack; ++i) {
            const bool inside = counts && c + i < cols;
            v[i] = inside ? __expf(v[i] - max[r]) * factor : 0.0F;
            if (inside && c + i == target) v[i] -= scale;
        }
        store_pack(out + c, ld - c, wide_all, v);
    }
}

// One block: loss and count over all rows, each thread's share in fp64.
TW_KERNEL loss_kernel(const std::int32_t* targets, const float* max, const float* sum, const float* picked,
                      std::int64_t rows, double* out) {
    TW_SHARED double totals[kThreads];
    TW_SHARED double counts[kThreads];
    double total = 0, count = 0;
    for (std::int64_t r = threadIdx.x; r < rows; r += blockDim.x) {
        // All are read ahead of the choice, so that reads of several rows are under way.
        const double own =
            log(static_cast<double>(sum[r])) + static_cast<double>(max[r]) - static_cast<double>(picked[r]);
        const bool counts_here = targets[r] >= 0;
        total += counts_here ? own : 0;
        count += counts_here ? 1 : 0;
    }
    totals[threadIdx.x] = total;
    counts[threadIdx.x] = count;
    __syncthreads();
    for (unsigned half = kThreads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            totals[threadIdx.x] += totals[threadIdx.x + half];
            counts[threadIdx.x] += counts[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        out[0] = totals[0];
        out[1] = counts[0];
    }
}

Grid rows_grid(std::int64_t rows) {
    return {static_cast<unsigned>(rows)};
}

// Elements of a Tensor with a type.
template <class T>
T* typed_data(const Tensor& tensor) {
    return static_cast<T*>(tensor.data);
}

}  // namespace

void CudaBackend::embedding_forward(const Tensor& tokens, const Tensor& table, std::int64_t first_token,
                                    const Tensor& y) {
    const MatrixView rows = MatrixView::of(table);
    TW_CHECK(y.elements() == tokens.elements() * rows.cols && y.dtype == table.dtype);
    if (y.elements() == 0) return;
    typed(y.dtype, [&](auto t) {
        using T = decltype(t);
        launch("embedding", embedding_kernel<T>, rows_grid(tokens.elements()), 128, 0, stream_,
               tokens.as<std::int32_t>(), typed_data<const T>(table), rows.rows, first_token,
               typed_data<T>(y), rows.cols);
    });
}

void CudaBackend::embedding_backward(const Tensor& tokens, const Tensor& dy, std::int64_t first_token,
                                     const Tensor& dtable) {
    const MatrixView rows = MatrixView::of(dtable);
    if (tokens.elements() == 0) return;
    const std::int64_t most = std::min(tokens.elements(), kSortedRows);
    const Buffer buffer = allocate(DType::I32, {2, most}, MemoryUse::Temporaries);
    auto* sorted_tokens = static_cast<std::int32_t*>(buffer.data());
    std::int32_t* sorted_rows = sorted_tokens + most;
    for (std::int64_t begin = 0; begin < tokens.elements(); begin += most) {
        const std::int64_t n = std::min(most, tokens.elements() - begin);
        launch("embedding_sort", sort_kernel, Grid{blocks_for(n, kSortThreads)}, kSortThreads, 0, stream_,
               tokens.as<std::int32_t>() + begin, static_cast<int>(n), sorted_tokens, sorted_rows);
        typed(dy.dtype, [&](auto tg) {
            using G = decltype(tg);
            typed(dtable.dtype, [&](auto tt) {
                using T = decltype(tt);
                launch("embedding_grad", embedding_grad_kernel<G, T>,
                       Grid{static_cast<unsigned>(n), blocks_for(rows.cols, kSumColumns)}, 32 * kSumWarps, 0,
                       stream_, sorted_tokens, sorted_rows, static_cast<int>(n),
                       typed_data<const G>(dy) + begin * rows.cols, first_token, rows.rows,
                       typed_data<T>(dtable), rows.cols, wide(dy.data) && rows.cols % kPack == 0);
            });
        });
    }
}

void CudaBackend::position_add(const Tensor& table, std::int64_t seq_len, std::int64_t first_row,
                               std::int64_t offset, const Tensor& y) {
    const MatrixView rows = MatrixView::of(y);
    if (y.elements() == 0) return;
    typed(table.dtype, [&](auto tx) {
        using X = decltype(tx);
        typed(y.dtype, [&](auto ty) {
            using T = decltype(ty);
            launch("position_add", position_kernel<X, T>, rows_grid(rows.rows), 128, 0, stream_,
                   typed_data<const X>(table), seq_len, first_row, offset, typed_data<T>(y), rows.cols);
        });
    });
}

void CudaBackend::position_backward(const Tensor& dy, std::int64_t seq_len, std::int64_t first_row,
                                    std::int64_t offset, const Tensor& dtable) {
    const MatrixView rows = MatrixView::of(dy);
    if (dy.elements() == 0) return;
    typed(dy.dtype, [&](auto tg) {
        using G = decltype(tg);
        typed(dtable.dtype, [&](auto tt) {
            using T = decltype(tt);
            launch("position_grad", position_grad_kernel<G, T>, rows_grid(seq_len), 128, 0, stream_,
                   typed_data<const G>(dy), rows.rows, seq_len, first_row, offset, typed_data<T>(dtable),
                   rows.cols);
        });
    });
}

void CudaBackend::rope(const MatrixView& x, std::int64_t seq_len, std::int64_t head_dim, double theta,
                       bool inverse) {
    TW_CHECK(head_dim % 2 == 0 && x.cols % head_dim == 0);
    if (x.rows == 0) return;
    const std::int64_t half = head_dim / 2;
    Buffer& table = rope_tables_[{seq_len, head_dim, theta}];
    if (!table) {
        std::vector<float> values(static_cast<std::size_t>(2 * seq_len * half));
        for (std::int64_t p = 0; p < seq_len; ++p) {
            for (std::int64_t i = 0; i < half; ++i) {
                const double angle =
                    static_cast<double>(p) *
                    std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
                values[static_cast<std::size_t>(p * half + i)] = static_cast<float>(std::cos(angle));
                values[static_cast<std::size_t>((seq_len + p) * half + i)] =
                    static_cast<float>(std::sin(angle));
            }
        }
        const Shape shape{2 * seq_len, half};
        table = allocate(DType::F32, shape, MemoryUse::Temporaries);
        copy_from_host(table.view(DType::F32, shape), values.data());
        synchronize();  // `values` goes
    }
    const auto* cosines = static_cast<const float*>(table.data());
    typed(x.dtype, [&](auto t) {
        using T = decltype(t);
        launch("rope", rope_kernel<T>, rows_grid(x.rows), kThreads, 0, stream_, static_cast<T*>(x.data), x.ld,
               static_cast<unsigned>(x.cols / 2), static_cast<unsigned>(half), seq_len, cosines,
               cosines + seq_len * half, inverse ? -1.0F : 1.0F);
    });
}

void CudaBackend::row_max(const Tensor& logits, std::int64_t columns, const Tensor& max) {
    const MatrixView x = MatrixView::of(logits);
    if (x.rows == 0) return;
    typed(x.dtype, [&](auto t) {
        using T = decltype(t);
        launch("row_max", row_max_kernel<T>, rows_grid(x.rows), kThreads, 0, stream_,
               static_cast<const T*>(x.data), x.cols, columns, max.as<float>(), wide(x));
    });
}

void CudaBackend::softmax_sums(const Tensor& logits, std::int64_t columns, const Tensor& targets,
                               std::int64_t first_token, const Tensor& max, const Tensor& sum,
                               const Tensor& picked) {
    const MatrixView x = MatrixView::of(logits);
    if (x.rows == 0) return;
    typed(x.dtype, [&](auto t) {
        using T = decltype(t);
        launch("softmax_sums", sums_kernel<T>, rows_grid(x.rows), kThreads, 0, stream_,
               static_cast<const T*>(x.data), x.cols, columns, targets.as<std::int32_t>(), first_token,
               max.as<float>(), sum.as<float>(), picked.as<float>(), wide(x));
    });
}

void CudaBackend::softmax_statistics(const Tensor& logits, std::int64_t columns, const Tensor& targets,
                                     std::int64_t first_token, const Tensor& max, const Tensor& sum,
                                     const Tensor& picked) {
    const MatrixView x = MatrixView::of(logits);
    if (x.rows == 0) return;
    typed(x.dtype, [&](auto t) {
        using T = decltype(t);
        launch("softmax_statistics", statistics_kernel<T>, rows_grid(x.rows), kRowThreads, 0, stream_,
               static_cast<const T*>(x.data), x.cols, columns, targets.as<std::int32_t>(), first_token,
               max.as<float>(), sum.as<float>(), picked.as<float>(), wide(x));
    });
}

double CudaBackend::cross_entropy_sum(const Tensor& targets, const Tensor& max, const Tensor& sum,
                                      const Tensor& picked, std::int64_t* count) {
    const Buffer out = allocate(2 * sizeof(double), MemoryUse::Temporaries);
    launch("cross_entropy_sum", loss_kernel, Grid{1}, kThreads, 0, stream_, targets.as<std::int32_t>(),
           max.as<float>(), sum.as<float>(), picked.as<float>(), targets.elements(),
           static_cast<double*>(out.data()));
    cuda::copy_to_host(host_word_, out.data(), 2 * sizeof(double), stream_);
    const auto* result = static_cast<const double*>(host_word_);
    *count = static_cast<std::int64_t>(result[1]);
    return result[0];
}

void CudaBackend::cross_entropy_backward_into(const Tensor& gradient, const Tensor& logits,
                                              std::int64_t columns, const Tensor& targets,
                                              std::int64_t first_token, const Tensor& max, const Tensor& sum,
                                              double scale) {
    const MatrixView x = MatrixView::of(logits);
    TW_CHECK(gradient.elements() == logits.elements());
    if (x.rows == 0) return;
    typed(x.dtype, [&](auto tx) {
        using T = decltype(tx);
        typed(gradient.dtype, [&](auto tg) {
            using G = decltype(tg);
            launch("softmax_grad", softmax_grad_kernel<G, T>, rows_grid(x.rows), kRowThreads, 0, stream_,
                   static_cast<G*>(gradient.data), static_cast<const T*>(x.data), x.cols, columns,
                   targets.as<std::int32_t>(), first_token, max.as<float>(), sum.as<float>(),
                   static_cast<float>(scale), wide(x) && wide(gradient.data));
        });
    });
}

}  // namespace tw::cuda

// The CPU kernels, compiled once for each instruction set: one list, from which follow the declarations in
// each set's namespace and the table of pointers that the backend calls through. Kernels run on one thread
// and on any range of rows; the backend splits ranges among threads. Contracts are Backend's.
#pragma once

#include <cstdint>

namespace tw::cpu {

enum class Num : std::uint8_t { F32, BF16, F16 };

struct Array {
    void* data;
    Num num;
};
struct Matrix {
    void* data;
    Num num;
    std::int64_t ld;
};

// DropoutSpec, made ready: threshold = p * 2^32.
struct Dropout {
    bool on;
    std::uint64_t key;
    std::uint32_t threshold;
    float scale;
    std::int64_t first_row, row_width, first_col;
};

enum class Act : std::uint8_t { GeluExact, GeluTanh, Silu, Relu };

struct Attention {
    std::int64_t seq_len, head_dim;
    bool causal;
    std::int64_t window;
    float scale;
    Dropout dropout;
    std::int64_t dropout_row;  // of query 0
};

struct Adam {
    float lr, beta1, beta2, eps, weight_decay, correction1, correction2, grad_scale;
};

struct Sgd {
    float lr, momentum, weight_decay, grad_scale;
};

// name, result, arguments
#define TW_CPU_KERNELS(X)                                                                                    \
    X(convert, void, (Array to, Array from, std::int64_t n))                                                 \
    X(fill, void, (Array x, float value, std::int64_t n))                                                    \
    X(axpby, void, (float a, Array x, float b, Array y, std::int64_t n))                                     \
    X(sum_squares, double, (Array x, std::int64_t n))                                                        \
    X(all_finite, bool, (Array x, std::int64_t n))                                                           \
    X(activation, void, (Act act, Array x, Array y, std::int64_t n))                                         \
    X(activation_grad, void, (Act act, Array x, Array dy, Array dx, std::int64_t n))                         \
    X(gated, void, (Act act, Matrix gate, Matrix up, Matrix y, std::int64_t rows, std::int64_t cols))        \
    X(gated_grad, void,                                                                                      \
      (Act act, Matrix gate, Matrix up, Matrix dy, Matrix dgate, Matrix dup, std::int64_t rows,              \
       std::int64_t cols))                                                                                   \
    X(dropout_add, void,                                                                                     \
      (Array x, Array residual, Array y, std::int64_t row, std::int64_t rows, std::int64_t cols, Dropout d)) \
    X(column_sum, void, (Matrix x, std::int64_t rows, std::int64_t cols, float* sum))                        \
    X(norm, void,                                                                                            \
      (bool rms, Array x, Array gain, Array bias, float eps, Array y, float* stats, std::int64_t rows,       \
       std::int64_t cols))                                                                                   \
    X(norm_grad, void,                                                                                       \
      (bool rms, Array dy, Array x, Array gain, const float* stats, Array add, Array dx, float* dgain,       \
       float* dbias, std::int64_t rows, std::int64_t cols))                                                  \
    X(row_max, void, (Array x, std::int64_t ld, std::int64_t rows, std::int64_t cols, float* max))           \
    X(softmax_sums, void,                                                                                    \
      (Array x, std::int64_t ld, std::int64_t rows, std::int64_t cols, const float* max, float* sum))        \
    X(softmax_grad, void,                                                                                    \
      (Array x, std::int64_t ld, std::int64_t rows, std::int64_t cols, const std::int32_t* targets,          \
       std::int64_t first_token, const float* max, const float* sum, float scale))                           \
    X(attention_scratch, std::int64_t, (const Attention& a, bool backward))                                  \
    X(attention, void,                                                                                       \
      (const Attention& a, std::int64_t group, Matrix q, Matrix k, Matrix v, Matrix out, float* lse,         \
       float* scratch))                                                                                      \
    X(attention_grad, void,                                                                                  \
      (const Attention& a, std::int64_t group, Matrix q, Matrix k, Matrix v, Matrix out, const float* lse,   \
       Matrix dout, Matrix dq, Matrix dk, Matrix dv, float* scratch))                                        \
    X(rotate, void,                                                                                          \
      (Matrix x, std::int64_t rows, std::int64_t cols, std::int64_t head_dim, std::int64_t first_row,        \
       std::int64_t seq_len, const float* cosines, const float* sines))                                      \
    X(add_rows, void, (Array x, Array y, std::int64_t cols, float factor))                                   \
    X(dot, float, (Array x, Array y, std::int64_t n))                                                        \
    X(adam, void,                                                                                            \
      (Array param, float* master, Array grad, float* m, float* v, const Adam& spec, std::int64_t n))        \
    X(lamb_direction, void,                                                                                  \
      (const float* weight, Array grad, float* m, float* v, const Adam& spec, float* direction,              \
       std::int64_t n))                                                                                      \
    X(sgd, void, (Array param, float* master, Array grad, float* momentum, const Sgd& spec, std::int64_t n)) \
    X(small_gemm, void,                                                                                      \
      (std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t a_row,                   \
       std::int64_t a_col, const float* b, std::int64_t ldb, float* c, std::int64_t ldc, bool accumulate))

struct Kernels {
    const char* isa;
#define TW_KERNEL(name, result, arguments) result(*name) arguments;
    TW_CPU_KERNELS(TW_KERNEL)
#undef TW_KERNEL
};

#ifdef TW_KERNEL_ISA
namespace TW_KERNEL_ISA {
#define TW_KERNEL(name, result, arguments) result name arguments;
TW_CPU_KERNELS(TW_KERNEL)
#undef TW_KERNEL
}  // namespace TW_KERNEL_ISA
#endif

namespace generic {
extern const Kernels kernels;
}
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}

}  // namespace tw::cpu

#include "real_exec/backend/cpu/cpu_backend.hpp"

#include <cmath>

#include <fmt/format.h>

#include "base/prng.hpp"
#include "real_exec/backend/copy_bytes.hpp"
#include "real_exec/backend/cpu/gemm.hpp"

namespace tw::cpu {

const Kernels* kernels_named(std::string_view isa) {
#if defined(__x86_64__)
#ifdef TW_KERNELS_AVX512
    if (isa == "avx512" && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return &avx512::kernels;
#endif
#ifdef TW_KERNELS_AVX2
    if (isa == "avx2" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &avx2::kernels;
#endif
#endif
    return isa == "generic" ? &generic::kernels : nullptr;
}

const Kernels& best_kernels() {
    for (const std::string_view isa : {"avx512", "avx2"}) {
        if (const Kernels* kernels = kernels_named(isa)) return *kernels;
    }
    return generic::kernels;
}

Num num_of(DType dtype) {
    TW_CHECK_MSG(dtype != DType::I32, "CPU kernels have f32, bf16 and f16");
    if (dtype == DType::F32) return Num::F32;
    return dtype == DType::BF16 ? Num::BF16 : Num::F16;
}

Array array_of(const Tensor& tensor, std::int64_t offset) {
    if (!tensor) return {nullptr, Num::F32};
    return {static_cast<std::byte*>(tensor.data) + offset * static_cast<std::int64_t>(bytes_of(tensor.dtype)),
            num_of(tensor.dtype)};
}

Matrix matrix_of(const MatrixView& view, std::int64_t row, std::int64_t column) {
    return {static_cast<std::byte*>(view.data) +
                (row * view.ld + column) * static_cast<std::int64_t>(bytes_of(view.dtype)),
            num_of(view.dtype), view.ld};
}

Dropout dropout_of(const DropoutSpec& spec) {
    Dropout d{};
    d.on = spec.probability > 0;
    d.key = mix64(spec.seed ^ mix64(spec.stream + 0x9e3779b97f4a7c15ULL));
    d.threshold = static_cast<std::uint32_t>(std::min(spec.probability * 0x1.0p32, 4294967295.0));
    d.scale = static_cast<float>(1 / (1 - spec.probability));
    d.first_row = spec.first_row;
    d.row_width = spec.row_width;
    d.first_col = spec.first_col;
    return d;
}

CpuBackend::CpuBackend(const CpuOptions& options, const Kernels& kernels)
    : threads_(std::max(1, options.threads)), k_(kernels), gemm_(make_gemm(threads_, kernels)) {}
CpuBackend::~CpuBackend() = default;

std::string CpuBackend::description() const {
    return fmt::format("cpu: {}, {}, {} thread{}", gemm_->description(), k_.isa, threads_,
                       threads_ == 1 ? "" : "s");
}

template <class Body>
void CpuBackend::reduce(std::int64_t n, const Tensor& total, std::int64_t size, Body body) {
    // Straight into an fp32 total where one thread does it all.
    if (threads_ == 1 && total.dtype == DType::F32) {
        body(std::int64_t{0}, n, total.as<float>());
        return;
    }
    constexpr std::int64_t kGrain = 64;
    const std::int64_t pieces = std::max<std::int64_t>(1, std::min<std::int64_t>(threads_, n / kGrain));
    const Buffer partials = allocate(static_cast<std::size_t>(pieces * size) * 4, MemoryUse::Temporaries);
    auto* p = static_cast<float*>(partials.data());
    clear_bytes(p, partials.bytes());
    const std::int64_t each = (n + pieces - 1) / pieces;
    parallel(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
            body(i * each, std::min(n, (i + 1) * each), p + i * size);
    });
    for (std::int64_t i = 0; i < pieces; ++i)
        k_.axpby(1, {p + i * size, Num::F32}, 1, array_of(total), size);
}

// ---- memory ----

void CpuBackend::copy_from_host(const Tensor& to, const void* from) {
    copy_bytes(to.data, from, to.bytes());
}
void CpuBackend::copy_to_host(void* to, const Tensor& from) {
    copy_bytes(to, from.data, from.bytes());
}
void CpuBackend::copy(const Tensor& from, const Tensor& to) {
    TW_CHECK(from.elements() == to.elements());
    if (from.dtype == to.dtype) {
        if (from.data != to.data) copy_bytes(to.data, from.data, from.bytes());
        return;
    }
    parallel(from.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
        k_.convert(array_of(to, begin), array_of(from, begin), end - begin);
    });
}

// ---- element by element ----

void CpuBackend::fill(const Tensor& x, double value) {
    if (value == 0) {
        clear_bytes(x.data, x.bytes());
        return;
    }
    if (x.dtype == DType::I32) {
        std::fill_n(x.as<std::int32_t>(), x.elements(), static_cast<std::int32_t>(value));
        return;
    }
    k_.fill(array_of(x), static_cast<float>(value), x.elements());
}

void CpuBackend::axpby(double a, const Tensor& x, double b, const Tensor& y) {
    TW_CHECK(x.elements() == y.elements());
    parallel(x.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
        k_.axpby(static_cast<float>(a), array_of(x, begin), static_cast<float>(b), array_of(y, begin),
                 end - begin);
    });
}

double CpuBackend::sum_squares(const Tensor& x) {
    return k_.sum_squares(array_of(x), x.elements());
}
bool CpuBackend::all_finite(const Tensor& x) {
    return k_.all_finite(array_of(x), x.elements());
}

namespace {
Act act_of(Activation kind) {
    switch (kind) {
        case Activation::GeluExact:
            return Act::GeluExact;
        case Activation::GeluTanh:
            return Act::GeluTanh;
        case Activation::Silu:
            return Act::Silu;
        case Activation::Relu:
            return Act::Relu;
    }
    return Act::Relu;
}
}  // namespace

void CpuBackend::activation_forward(Activation kind, const Tensor& x, const Tensor& y) {
    TW_CHECK(x.elements() == y.elements() && x.dtype == y.dtype);
    parallel(x.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
        k_.activation(act_of(kind), array_of(x, begin), array_of(y, begin), end - begin);
    });
}

void CpuBackend::activation_backward(Activation kind, const Tensor& x, const Tensor& dy, const Tensor& dx) {
    TW_CHECK(x.elements() == dy.elements() && x.elements() == dx.elements() && x.dtype == dy.dtype &&
             x.dtype == dx.dtype);
    parallel(x.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
        k_.activation_grad(act_of(kind), array_of(x, begin), array_of(dy, begin), array_of(dx, begin),
                           end - begin);
    });
}

void CpuBackend::gated_forward(Activation kind, const MatrixView& gate, const MatrixView& up,
                               const MatrixView& y) {
    TW_CHECK(gate.rows == up.rows && gate.rows == y.rows && gate.cols == up.cols && gate.cols == y.cols);
    parallel(gate.rows, 8, [&](std::int64_t begin, std::int64_t end) {
        k_.gated(act_of(kind), matrix_of(gate, begin), matrix_of(up, begin), matrix_of(y, begin), end - begin,
                 gate.cols);
    });
}

void CpuBackend::gated_backward(Activation kind, const MatrixView& gate, const MatrixView& up,
                                const MatrixView& dy, const MatrixView& dgate, const MatrixView& dup) {
    parallel(gate.rows, 8, [&](std::int64_t begin, std::int64_t end) {
        k_.gated_grad(act_of(kind), matrix_of(gate, begin), matrix_of(up, begin), matrix_of(dy, begin),
                      matrix_of(dgate, begin), matrix_of(dup, begin), end - begin, gate.cols);
    });
}

void CpuBackend::dropout_add(const Tensor& x, const Tensor& residual, const Tensor& y,
                             const DropoutSpec& dropout) {
    const MatrixView view = MatrixView::of(x);
    TW_CHECK(x.elements() == y.elements() && (!residual || residual.elements() == x.elements()));
    const Dropout d = dropout_of(dropout);
    parallel(view.rows, 8, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t at = begin * view.cols;
        k_.dropout_add(array_of(x, at), array_of(residual, residual ? at : 0), array_of(y, at), begin,
                       end - begin, view.cols, d);
    });
}

void CpuBackend::dropout_backward(const Tensor& dy, const Tensor& dx, const DropoutSpec& dropout) {
    dropout_add(dy, {}, dx, dropout);
}

// ---- matrix products ----

namespace {
Array row_of(const MatrixView& m, std::int64_t row) {
    const Matrix at = matrix_of(m, row);
    return {at.data, at.num};
}
}  // namespace

void CpuBackend::gemm(const MatrixView& a, bool transpose_a, const MatrixView& b, bool transpose_b,
                      const MatrixView& c, bool accumulate, const Tensor& bias) {
    TW_CHECK((transpose_a ? a.cols : a.rows) == c.rows && (transpose_b ? b.rows : b.cols) == c.cols &&
             (transpose_a ? a.rows : a.cols) == (transpose_b ? b.cols : b.rows) && a.dtype == b.dtype);
    if (c.rows == 0 || c.cols == 0) return;
    // No library multiplies fp16 on processors of before 2023.
    const bool half = a.dtype == DType::F16 || c.dtype == DType::F16;
    if (!half && (a.dtype == c.dtype || a.dtype == DType::BF16)) {
        if (gemm_->run(a, transpose_a, b, transpose_b, c, accumulate, bias)) return;
    }
    // Through fp32 copies.
    const auto wide = [&](const MatrixView& m, bool read) {
        Buffer buffer = allocate(static_cast<std::size_t>(m.rows * m.cols) * 4, MemoryUse::Temporaries);
        for (std::int64_t r = 0; read && r < m.rows; ++r)
            k_.convert({static_cast<float*>(buffer.data()) + r * m.cols, Num::F32}, row_of(m, r), m.cols);
        return buffer;
    };
    const Buffer wa = wide(a, true);
    const Buffer wb = wide(b, true);
    const Buffer wc = wide(c, accumulate);
    Buffer wbias;
    Tensor bias32;
    if (bias) {
        wbias = allocate(DType::F32, bias.shape, MemoryUse::Temporaries);
        bias32 = wbias.view(DType::F32, bias.shape);
        copy(bias, bias32);
    }
    const auto view = [](const Buffer& buffer, const MatrixView& m) {
        return MatrixView{buffer.data(), DType::F32, m.rows, m.cols, m.cols};
    };
    const bool done =
        gemm_->run(view(wa, a), transpose_a, view(wb, b), transpose_b, view(wc, c), accumulate, bias32);
    TW_CHECK(done);
    for (std::int64_t r = 0; r < c.rows; ++r)
        k_.convert(row_of(c, r), {static_cast<float*>(wc.data()) + r * c.cols, Num::F32}, c.cols);
}

void CpuBackend::column_sum(const MatrixView& x, const Tensor& sum) {
    TW_CHECK(sum.elements() == x.cols);
    reduce(x.rows, sum, x.cols, [&](std::int64_t begin, std::int64_t end, float* partial) {
        k_.column_sum(matrix_of(x, begin), end - begin, x.cols, partial);
    });
}

// ---- normalisation ----

void CpuBackend::norm_forward(bool rms, const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                              const Tensor& y, const Tensor& stats) {
    const MatrixView view = MatrixView::of(x);
    TW_CHECK(y.elements() == x.elements() && stats.elements() == 2 * view.rows);
    parallel(view.rows, 8, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t at = begin * view.cols;
        k_.norm(rms, array_of(x, at), array_of(gain), array_of(bias), static_cast<float>(eps),
                array_of(y, at), stats.as<float>() + 2 * begin, end - begin, view.cols);
    });
}

void CpuBackend::norm_backward(bool rms, const Tensor& dy, const Tensor& x, const Tensor& gain,
                               const Tensor& stats, const Tensor& add, const Tensor& dx, const Tensor& dgain,
                               const Tensor& dbias) {
    const MatrixView view = MatrixView::of(x);
    const auto rows = [&](std::int64_t begin, std::int64_t end, float* to_gain, float* to_bias) {
        const std::int64_t at = begin * view.cols;
        k_.norm_grad(rms, array_of(dy, at), array_of(x, at), array_of(gain), stats.as<float>() + 2 * begin,
                     array_of(add, add ? at : 0), array_of(dx, at), to_gain, to_bias, end - begin, view.cols);
    };
    if (threads_ == 1 && (!dgain || dgain.dtype == DType::F32) && (!dbias || dbias.dtype == DType::F32)) {
        rows(0, view.rows, dgain ? dgain.as<float>() : nullptr, dbias ? dbias.as<float>() : nullptr);
        return;
    }
    // One partial for both sums.
    const Buffer both = allocate(static_cast<std::size_t>(2 * view.cols) * 4, MemoryUse::Temporaries);
    const Tensor total = both.view(DType::F32, {2 * view.cols});
    fill(total, 0);
    reduce(view.rows, total, 2 * view.cols, [&](std::int64_t begin, std::int64_t end, float* partial) {
        rows(begin, end, dgain ? partial : nullptr, dbias ? partial + view.cols : nullptr);
    });
    if (dgain) axpby(1, total.rows(0, view.cols), 1, dgain);
    if (dbias) axpby(1, total.rows(view.cols, view.cols), 1, dbias);
}

void CpuBackend::layer_norm_forward(const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                                    const Tensor& y, const Tensor& stats) {
    norm_forward(false, x, gain, bias, eps, y, stats);
}
void CpuBackend::layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gain,
                                     const Tensor& stats, const Tensor& add, const Tensor& dx,
                                     const Tensor& dgain, const Tensor& dbias) {
    norm_backward(false, dy, x, gain, stats, add, dx, dgain, dbias);
}
void CpuBackend::rms_norm_forward(const Tensor& x, const Tensor& gain, double eps, const Tensor& y,
                                  const Tensor& stats) {
    norm_forward(true, x, gain, {}, eps, y, stats);
}
void CpuBackend::rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& stats,
                                   const Tensor& add, const Tensor& dx, const Tensor& dgain) {
    norm_backward(true, dy, x, gain, stats, add, dx, dgain, {});
}

// ---- optimizers ----

namespace {
Adam adam_of(const AdamSpec& s) {
    const auto step = static_cast<double>(s.step);
    return {static_cast<float>(s.lr),
            static_cast<float>(s.beta1),
            static_cast<float>(s.beta2),
            static_cast<float>(s.eps),
            static_cast<float>(s.weight_decay),
            static_cast<float>(1 - std::pow(s.beta1, step)),
            static_cast<float>(1 - std::pow(s.beta2, step)),
            static_cast<float>(s.grad_scale)};
}
float* floats(const Tensor& tensor, std::int64_t offset) {
    return tensor ? tensor.as<float>() + offset : nullptr;
}
}  // namespace

void CpuBackend::adamw(const Tensor& param, const Tensor& master, const Tensor& grad, const Tensor& m,
                       const Tensor& v, const AdamSpec& spec) {
    TW_CHECK(master || param.dtype == DType::F32);
    const Adam adam = adam_of(spec);
    parallel(param.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
        k_.adam(array_of(param, begin), floats(master, begin), array_of(grad, begin), floats(m, begin),
                floats(v, begin), adam, end - begin);
    });
}

void CpuBackend::sgd(const Tensor& param, const Tensor& master, const Tensor& grad, const Tensor& momentum,
                     const SgdSpec& s) {
    TW_CHECK(master || param.dtype == DType::F32);
    const Sgd spec = {static_cast<float>(s.lr), static_cast<float>(s.momentum),
                      static_cast<float>(s.weight_decay), static_cast<float>(s.grad_scale)};
    parallel(param.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
        k_.sgd(array_of(param, begin), floats(master, begin), array_of(grad, begin), floats(momentum, begin),
               spec, end - begin);
    });
}

void CpuBackend::lamb_direction(const Tensor& weight, const Tensor& grad, const Tensor& m, const Tensor& v,
                                const AdamSpec& spec, const Tensor& direction) {
    const Adam adam = adam_of(spec);
    parallel(weight.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
        k_.lamb_direction(floats(weight, begin), array_of(grad, begin), floats(m, begin), floats(v, begin),
                          adam, floats(direction, begin), end - begin);
    });
}

}  // namespace tw::cpu

namespace tw {

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
    return std::make_unique<cpu::CpuBackend>(options, cpu::best_kernels());
}

}  // namespace tw

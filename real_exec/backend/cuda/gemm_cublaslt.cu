// Matrix products by cuBLASLt. It counts columns first: our row-major c = op(a) op(b) is its c' = op(b)'
// op(a)', and a bias along our columns is one along its rows, added in the product's epilogue.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "real_exec/backend/cuda/bounded_map.hpp"
#include "real_exec/backend/cuda/gemm.hpp"
#include "real_exec/backend/cuda/runtime_api.hpp"

namespace tw::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20U;  // cuBLAS's own size on Hopper

void require(cublasStatus_t status, const char* what) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    std::fprintf(stderr, "cuBLASLt: %s: %s\n", what, cublasLtGetStatusString(status));
    std::abort();
}

cudaDataType_t type_of(DType dtype) {
    switch (dtype) {
        case DType::BF16:
            return CUDA_R_16BF;
        case DType::F16:
            return CUDA_R_16F;
        default:
            return CUDA_R_32F;
    }
}

// Bytes that an address is a multiple of, up to what kernels ask for.
std::uint32_t alignment(const MatrixView& m) {
    const auto bits = reinterpret_cast<std::uintptr_t>(m.data) |
                      static_cast<std::uintptr_t>(m.ld) * bytes_of(m.dtype) | std::uintptr_t{256};
    return static_cast<std::uint32_t>(bits & (~bits + 1));
}

// What a product's algorithm is chosen by.
using Key = std::array<std::int64_t, 12>;

// A model without experts has some hundred. Experts that drop nothing multiply other numbers of rows in every
// step: choosing again (tens of microseconds on the host) bounds what is kept.
constexpr std::size_t kMostProducts = 2048;

// Owns the descriptors of one kind of product and the algorithm that was chosen for it. A product under way
// needs neither.
struct Product {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    cublasLtMatmulAlgo_t algorithm{};

    Product() = default;
    Product(Product&& other) noexcept
        : operation(std::exchange(other.operation, nullptr)),
          a(std::exchange(other.a, nullptr)),
          b(std::exchange(other.b, nullptr)),
          c(std::exchange(other.c, nullptr)),
          algorithm(other.algorithm) {}
    Product& operator=(Product&&) = delete;
    Product(const Product&) = delete;
    Product& operator=(const Product&) = delete;
    ~Product() {
        for (const cublasLtMatrixLayout_t layout : {a, b, c})
            if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
        if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
    }
};

class CublasLtGemm final : public Gemm {
  public:
    CublasLtGemm(bool tf32, Stream stream) : tf32_(tf32), stream_(stream) {
        require(cublasLtCreate(&handle_), "start");
        workspace_ = device_allocate(kWorkspaceBytes, stream_);
        TW_CHECK_MSG(workspace_ != nullptr, "no device memory for the workspace of matrix products");
    }
    ~CublasLtGemm() override {
        device_free(workspace_, stream_);
        cublasLtDestroy(handle_);
    }
    CublasLtGemm(const CublasLtGemm&) = delete;
    CublasLtGemm& operator=(const CublasLtGemm&) = delete;

    [[nodiscard]] std::string description() const override {
        const std::size_t version = cublasLtGetVersion();  // 130000 + minor * 100 + patch
        return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
               (tf32_ ? ", tf32" : "");
    }

    void run(const MatrixView& a, bool transpose_a, const MatrixView& b, bool transpose_b,
             const MatrixView& c, bool accumulate, const Tensor& bias, Stream stream) override {
        const std::int64_t inner = transpose_a ? a.rows : a.cols;
        const Key key{c.rows,
                      c.cols,
                      inner,
                      a.ld,
                      b.ld,
                      c.ld,
                      static_cast<std::int64_t>(a.dtype) * 4 + static_cast<std::int64_t>(c.dtype),
                      transpose_a ? 1 : 0,
                      transpose_b ? 1 : 0,
                      (accumulate ? 2 : 0) + (bias ? 1 : 0),
                      alignment(a) * 1024 + alignment(b),
                      alignment(c)};
        Product& product =
            products_.get(key, [&] { return make(a, transpose_a, b, transpose_b, c, inner, bias); });
        if (bias) {
            const void* pointer = bias.data;
            require(cublasLtMatmulDescSetAttribute(product.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                   &pointer, sizeof pointer),
                    "bias");
        }
        const float alpha = 1, beta = accumulate ? 1 : 0;
        require(cublasLtMatmul(handle_, product.operation, &alpha, b.data, product.b, a.data, product.a,
                               &beta, c.data, product.c, c.data, product.c, &product.algorithm, workspace_,
                               kWorkspaceBytes, static_cast<cudaStream_t>(stream)),
                "product");
    }

  private:
    static cublasLtMatrixLayout_t layout(const MatrixView& m) {
        cublasLtMatrixLayout_t made = nullptr;
        require(cublasLtMatrixLayoutCreate(&made, type_of(m.dtype), static_cast<std::uint64_t>(m.cols),
                                           static_cast<std::uint64_t>(m.rows), m.ld),
                "layout");
        return made;
    }

    Product make(const MatrixView& a, bool transpose_a, const MatrixView& b, bool transpose_b,
                 const MatrixView& c, std::int64_t inner, const Tensor& bias) {
        Product p;
        const cublasComputeType_t compute =
            a.dtype == DType::F32 && tf32_ ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
        require(cublasLtMatmulDescCreate(&p.operation, compute, CUDA_R_32F), "descriptor");
        const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
            require(cublasLtMatmulDescSetAttribute(p.operation, attribute, &value, sizeof value),
                    "attribute");
        };
        set(CUBLASLT_MATMUL_DESC_TRANSA, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(CUBLASLT_MATMUL_DESC_TRANSB, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
        if (bias) {
            set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
            set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(type_of(bias.dtype)));
            set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.data));
        }
        p.a = layout(a);
        p.b = layout(b);
        p.c = layout(c);

        cublasLtMatmulPreference_t preference = nullptr;
        require(cublasLtMatmulPreferenceCreate(&preference), "preference");
        const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
            require(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
                    "preference");
        };
        prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(b));
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(a));
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(c));
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(c));
        cublasLtMatmulHeuristicResult_t best{};
        int count = 0;
        const cublasStatus_t found = cublasLtMatmulAlgoGetHeuristic(handle_, p.operation, p.b, p.a, p.c, p.c,
                                                                    preference, 1, &best, &count);
        cublasLtMatmulPreferenceDestroy(preference);
        if (found != CUBLAS_STATUS_SUCCESS || count == 0) {
            std::fprintf(stderr, "cuBLASLt has no algorithm for %lld x %lld over %lld\n",
                         static_cast<long long>(c.rows), static_cast<long long>(c.cols),
                         static_cast<long long>(inner));
            std::abort();
        }
        p.algorithm = best.algo;
        return p;
    }

    bool tf32_;
    Stream stream_;
    cublasLtHandle_t handle_ = nullptr;
    void* workspace_ = nullptr;
    BoundedMap<Key, Product> products_{kMostProducts};
};

}  // namespace

std::unique_ptr<Gemm> make_gemm(bool tf32, Stream stream) {
    return std::make_unique<CublasLtGemm>(tf32, stream);
}

}  // namespace tw::cuda

#ifdef TW_GEMM_ONEDNN

#include <array>
#include <map>

#include <dnnl.hpp>
#include <fmt/format.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "real_exec/backend/cpu/gemm.hpp"

namespace tw::cpu {
namespace {

using Key = std::array<std::int64_t, 11>;

dnnl::memory::data_type type_of(DType dtype) {
    return dtype == DType::F32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

class OneDnnGemm final : public Gemm {
  public:
    explicit OneDnnGemm(int threads)
        : threads_(threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

    [[nodiscard]] std::string description() const override {
        const dnnl_version_t* v = dnnl_version();
        return fmt::format("oneDNN {}.{}.{}", v->major, v->minor, v->patch);
    }

    bool run(const MatrixView& a, bool transpose_a, const MatrixView& b, bool transpose_b,
             const MatrixView& c, bool accumulate, const Tensor& bias) override {
#ifdef _OPENMP
        omp_set_num_threads(threads_);  // of the calling thread alone
#endif
        const std::int64_t k = transpose_a ? a.rows : a.cols;
        if (a.dtype == DType::F32 && !bias) {
            const dnnl_status_t status =
                dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', c.rows, c.cols, k, 1.0F,
                           static_cast<const float*>(a.data), a.ld, static_cast<const float*>(b.data), b.ld,
                           accumulate ? 1.0F : 0.0F, static_cast<float*>(c.data), c.ld);
            return status == dnnl_success;
        }
        const Key key = {static_cast<std::int64_t>(a.dtype),
                         static_cast<std::int64_t>(c.dtype),
                         c.rows,
                         c.cols,
                         k,
                         transpose_a ? -a.ld : a.ld,
                         transpose_b ? -b.ld : b.ld,
                         c.ld,
                         accumulate ? 1 : 0,
                         bias ? 1 : 0,
                         static_cast<std::int64_t>(bias.dtype)};
        auto it = products_.find(key);
        if (it == products_.end())
            it = products_.emplace(key, make(a, transpose_a, b, transpose_b, c, k, accumulate, bias)).first;
        Product& p = it->second;
        if (!p.possible) return false;
        std::unordered_map<int, dnnl::memory> arguments = {
            {DNNL_ARG_SRC, dnnl::memory(p.a, engine_, a.data)},
            {DNNL_ARG_WEIGHTS, dnnl::memory(p.b, engine_, b.data)},
            {DNNL_ARG_DST, dnnl::memory(p.c, engine_, c.data)}};
        if (bias) arguments.emplace(DNNL_ARG_BIAS, dnnl::memory(p.bias, engine_, bias.data));
        p.primitive.execute(stream_, arguments);
        stream_.wait();
        return true;
    }

  private:
    struct Product {
        bool possible = false;
        dnnl::memory::desc a, b, c, bias;
        dnnl::matmul primitive;
    };

    Product make(const MatrixView& a, bool transpose_a, const MatrixView& b, bool transpose_b,
                 const MatrixView& c, std::int64_t k, bool accumulate, const Tensor& bias) const {
        using Desc = dnnl::memory::desc;
        using Dims = dnnl::memory::dims;
        Product p;
        p.a = Desc({c.rows, k}, type_of(a.dtype), transpose_a ? Dims{1, a.ld} : Dims{a.ld, 1});
        p.b = Desc({k, c.cols}, type_of(b.dtype), transpose_b ? Dims{1, b.ld} : Dims{b.ld, 1});
        p.c = Desc({c.rows, c.cols}, type_of(c.dtype), Dims{c.ld, 1});
        if (bias) p.bias = Desc({1, c.cols}, type_of(bias.dtype), Dims{c.cols, 1});
        dnnl::primitive_attr attributes;
        if (accumulate) {
            dnnl::post_ops operations;
            operations.append_sum(1.0F);
            attributes.set_post_ops(operations);
        }
        try {
            const dnnl::matmul::desc desc =
                bias ? dnnl::matmul::desc(p.a, p.b, p.bias, p.c) : dnnl::matmul::desc(p.a, p.b, p.c);
            const dnnl::matmul::primitive_desc primitive(desc, attributes, engine_);
            // The reference implementation is slower than converting to fp32.
            if (std::string_view(primitive.impl_info_str()).find("ref") != std::string_view::npos) return p;
            p.primitive = dnnl::matmul(primitive);
            p.possible = true;
        } catch (const dnnl::error&) {
            p.possible = false;  // these types need instructions that this processor lacks
        }
        return p;
    }

    int threads_;
    dnnl::engine engine_;
    dnnl::stream stream_;
    std::map<Key, Product> products_;
};

}  // namespace

std::unique_ptr<Gemm> make_gemm(int threads, const Kernels&) {
    return std::make_unique<OneDnnGemm>(threads);
}

}  // namespace tw::cpu

#endif  // TW_GEMM_ONEDNN

// Matrix products by themselves: the three forms of training in each precision, first on a coarse lattice,
// then where neighbours agree least about the rate.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "profiler/bench/benchmarks.hpp"
#include "profiler/bench/least_certain.hpp"

namespace tw {
namespace {

struct Form {
    const char* name;
    bool transpose_a, transpose_b, accumulate;
};
constexpr std::array kForms = {Form{"forward", false, false, false}, Form{"input_grad", false, true, false},
                               Form{"weight_grad", true, false, true}};

using Shape3 = std::array<std::int64_t, 3>;  // m, n, k

SampleSeries point_of(DType dtype, const Form& form, const Shape3& s) {
    SampleSeries point;
    point.benchmark = "gemm";
    point.variant = std::string(precision_name(dtype)) + " " + form.name;
    point.shape = {
        {"m", static_cast<double>(s[0])}, {"n", static_cast<double>(s[1])}, {"k", static_cast<double>(s[2])}};
    return point;
}

void time_product(BenchContext& c, DType dtype, const Form& form, const Shape3& s) {
    const std::int64_t m = s[0], n = s[1], k = s[2];
    const auto bytes = [&](std::int64_t rows, std::int64_t cols) {
        return static_cast<std::size_t>(rows * cols) * bytes_of(dtype);
    };
    const RotatedBuffers a(*c.backend, bytes(m, k)), b(*c.backend, bytes(k, n)),
        out(*c.backend, static_cast<std::size_t>(m * n) * 4);
    c.sample(point_of(dtype, form, s), [&](std::int64_t i) {
        const MatrixView left =
            form.transpose_a ? MatrixView{a.at(i), dtype, k, m, m} : MatrixView{a.at(i), dtype, m, k, k};
        const MatrixView right =
            form.transpose_b ? MatrixView{b.at(i), dtype, n, k, k} : MatrixView{b.at(i), dtype, k, n, n};
        const DType to = form.accumulate ? DType::F32 : dtype;
        c.backend->gemm(left, form.transpose_a, right, form.transpose_b, MatrixView{out.at(i), to, m, n, n},
                        form.accumulate);
    });
}

// Sizes that layers of small and medium models have; a GPU's are larger. A processor's fp32 has a fit of each
// way and of each class of strides (models/hardware/curves/host_gemm_curve.hpp): its widths have them all.
std::vector<Shape3> lattice(bool host, DType dtype) {
    using Sizes = std::vector<std::int64_t>;
    std::vector<Shape3> shapes;
    const bool fine = host && dtype == DType::F32;
    const Sizes tokens = fine ? Sizes{64, 256, 1024} : host ? Sizes{128, 512, 2048} : Sizes{512, 2048, 8192};
    const Sizes widths = fine   ? Sizes{64, 192, 320, 512, 1024}
                         : host ? Sizes{64, 256, 1024}
                                : Sizes{1024, 4096, 12288};
    for (const std::int64_t m : tokens) {
        for (const std::int64_t n : widths) {
            for (const std::int64_t k : widths)
                shapes.push_back({m, n, k});
        }
    }
    return shapes;
}

}  // namespace

void run_gemm(BenchContext& c) {
    const bool host = c.backend->host_memory();
    for (const DType dtype : product_types(*c.backend)) {
        for (const Form& form : kForms) {
            for (Shape3 s : lattice(host, dtype)) {
                // m and k of a weight gradient: outputs and tokens.
                if (form.transpose_a) s = {s[1], s[2], s[0]};
                if (c.sampler->over()) return;
                time_product(c, dtype, form, s);
            }
        }
    }
    // What is left of the share goes to products between the lattice's.
    const std::int64_t scale = host ? 1 : 8;
    std::vector<Shape3> candidates;
    for (const std::int64_t m : {64, 192, 384, 768, 1024, 1536}) {
        for (const std::int64_t n : {96, 192, 384, 512, 768, 1536, 2048}) {
            for (const std::int64_t k : {96, 192, 384, 512, 768, 1536, 2048})
                candidates.push_back({m * scale, n * scale, k * scale});
        }
    }
    // Every form of each precision has a fit of its own: the next product is that which any of them knows
    // least about.
    struct Chooser {
        DType dtype;
        const Form* form;
        LeastCertain<3> least;
        std::optional<Shape3> next = std::nullopt;
        double doubt = -1;
        void choose() {
            next = least.next();
            doubt = next ? least.doubt_of(*next) : -1;
        }
    };
    std::vector<Chooser> choosers;
    for (const DType dtype : product_types(*c.backend)) {
        for (const Form& form : kForms) {
            choosers.push_back({dtype, &form, LeastCertain<3>(candidates)});
            for (const SampleSeries& known : c.document->samples) {
                if (known.benchmark == "gemm" && known.variant == point_of(dtype, form, {}).variant)
                    choosers.back().least.add_measured(known);
            }
            choosers.back().choose();
        }
    }
    while (!c.sampler->over()) {
        Chooser& most =
            *std::max_element(choosers.begin(), choosers.end(),
                              [](const Chooser& a, const Chooser& b) { return a.doubt < b.doubt; });
        if (!most.next) return;
        const std::size_t before = c.document->samples.size();
        time_product(c, most.dtype, *most.form, *most.next);
        if (c.document->samples.size() == before) return;
        most.least.add_measured(c.document->samples.back());
        most.choose();
    }
}

}  // namespace tw

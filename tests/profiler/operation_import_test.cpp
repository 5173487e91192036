// Kernels of a PyTorch trace whose operations record their shapes become part of an imported profile; what
// records none is said.
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.hpp"
#include "models/hardware/profile_document_json.hpp"
#include "profiler/import/import_profile.hpp"
#include "profiler/import/operation_points.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tw {
namespace {

KinetoOperation product(std::vector<std::vector<std::int64_t>> dims,
                        std::vector<std::vector<std::int64_t>> strides, const std::string& type,
                        const std::string& kernel = "") {
    KinetoOperation o;
    o.name = dims.size() == 2 ? "aten::mm" : "aten::addmm";
    o.types.assign(dims.size(), type);
    o.dims = std::move(dims);
    o.strides = std::move(strides);
    o.kernel = kernel;
    o.count = 5;
    return o;
}

TEST(OperationPoints, ProductsByLayout) {
    // x (rows) times W^T: F.linear's forward.
    const auto forward =
        product_of(product({{768}, {4096, 1024}, {1024, 768}}, {{1}, {1024, 1}, {1, 1024}}, "c10::BFloat16"));
    ASSERT_TRUE(forward);
    EXPECT_EQ(forward->m, 4096);
    EXPECT_EQ(forward->n, 768);
    EXPECT_EQ(forward->k, 1024);
    EXPECT_EQ(forward->form, GemmForm::Forward);
    EXPECT_EQ(forward->precision, Precision::Bf16);
    const auto input =
        product_of(product({{4096, 768}, {768, 1024}}, {{768, 1}, {1024, 1}}, "c10::BFloat16"));
    ASSERT_TRUE(input);
    EXPECT_EQ(input->form, GemmForm::InputGrad);
    const auto weight = product_of(product({{768, 4096}, {4096, 1024}}, {{1, 768}, {1024, 1}}, "c10::Half"));
    ASSERT_TRUE(weight);
    EXPECT_EQ(weight->form, GemmForm::WeightGrad);
    EXPECT_EQ(weight->precision, Precision::Fp16);
    EXPECT_EQ(weight->k, 4096);
}

TEST(OperationPoints, NothingIsGuessed) {
    // Neither strides nor, of fp32 inputs, a kernel that tells tensor cores from others.
    EXPECT_FALSE(product_of(product({{8, 16}, {16, 4}}, {}, "c10::BFloat16")));
    EXPECT_FALSE(product_of(product({{8, 16}, {16, 4}}, {{16, 1}, {4, 1}}, "float", "some_kernel")));
    const auto fp32 =
        product_of(product({{8, 16}, {16, 4}}, {{16, 1}, {4, 1}}, "float", "ampere_sgemm_128x64_nn"));
    const auto tf32 = product_of(product({{8, 16}, {16, 4}}, {{16, 1}, {4, 1}}, "float",
                                         "cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4"));
    ASSERT_TRUE(fp32 && tf32);
    EXPECT_EQ(fp32->precision, Precision::Fp32);
    EXPECT_EQ(tf32->precision, Precision::Tf32);
    // Sizes that do not fit together, or that no device holds.
    EXPECT_FALSE(product_of(product({{8, 16}, {15, 4}}, {{16, 1}, {4, 1}}, "c10::BFloat16")));
    const std::int64_t huge = std::int64_t{1} << 39;
    EXPECT_FALSE(product_of(product({{huge, huge}, {huge, 4}}, {{huge, 1}, {4, 1}}, "c10::BFloat16")));
}

TEST(OperationPoints, AttentionAndNorms) {
    KinetoOperation o;
    o.name = "aten::_scaled_dot_product_flash_attention_backward";
    const std::vector<std::int64_t> q = {2, 16, 1024, 64}, k = {2, 4, 1024, 64};
    o.dims = {q, q, k, k, q, {2, 16, 1024}, {}, {}, {}, {}, {}, {}};
    o.types.assign(12, "c10::BFloat16");
    o.values = {"", "", "", "", "", "", "", "", "1024", "1024", "0.", "True"};
    const auto attention = attention_of(o);
    ASSERT_TRUE(attention);
    EXPECT_TRUE(attention->backward && attention->causal);
    EXPECT_EQ(attention->heads, 16);
    EXPECT_EQ(attention->kv_heads, 4);
    EXPECT_EQ(attention->seq_q, 1024);
    o.values.clear();  // no flag, no mask
    EXPECT_FALSE(attention_of(o));
    o.name = "aten::native_layer_norm_backward";
    o.types.assign(12, "float");
    o.dims = {{2, 128, 64}, {2, 128, 64}, {64}};
    const auto norm = norm_of(o);
    ASSERT_TRUE(norm);
    EXPECT_TRUE(norm->backward);
    EXPECT_DOUBLE_EQ(norm->bytes, 3 * 4 * 2 * 128 * 64.0);
}

class OperationImportTest : public ::testing::Test {
  protected:
    // A trace of an H100 whose kernels take `slower` of what its shipped profile predicts; three calls each.
    std::string trace(double slower, bool shapes, int products) {
        const auto profile = load_profile("h100");
        EXPECT_TRUE(profile);
        text_.clear();
        now_us_ = 0;
        number_ = 0;
        for (int i = 0; i < products; ++i) {
            Gemm gemm;
            gemm.m = 1024 + 512 * i, gemm.n = 1024 * (1 + i % 3), gemm.k = 2048;
            const double us = 1e6 * slower * kernel_time(*profile, Op{.name = "", .body = gemm}).seconds;
            add("aten::mm",
                fmt::format("\"Input Dims\": [[{0}, {1}], [{1}, {2}]], \"Input type\": [\"c10::BFloat16\", "
                            "\"c10::BFloat16\"], \"Input Strides\": [[{1}, 1], [1, {1}]], \"Concrete "
                            "Inputs\": [\"\", \"\"]",
                            gemm.m, gemm.k, gemm.n),
                us, shapes);
        }
        MemoryOp norm;
        norm.kind = MemoryOpKind::Norm;
        norm.bytes = 2 * 2 * 4096.0 * 2048;
        const double us = 1e6 * slower * kernel_time(*profile, Op{.name = "", .body = norm}).seconds;
        add("aten::native_layer_norm",
            "\"Input Dims\": [[4096, 2048], [], [2048], [2048], []], \"Input type\": [\"c10::BFloat16\", "
            "\"ScalarList\", \"c10::BFloat16\", \"c10::BFloat16\", \"Scalar\"]",
            us, shapes);
        return "{\"deviceProperties\": [{\"name\": \"NVIDIA H100 80GB HBM3\"}], \"traceEvents\": [\n" +
               text_ + "{\"ph\": \"X\", \"cat\": \"Trace\", \"name\": \"end\", \"ts\": 1, \"dur\": 1}]}";
    }

    ImportResult imported(const std::string& text) {
        const auto path = folder_.path() / "rank0.json";
        EXPECT_TRUE(write_text_file(path, text));
        auto result = import_profile({path}, {.device = "h100", .name = "", .progress = nullptr});
        EXPECT_TRUE(result) << to_string(result.errors());
        return result ? std::move(*result) : ImportResult{};
    }

    static double product_seconds(const HardwareProfile& profile) {
        Gemm gemm;
        gemm.m = 4096, gemm.n = 2048, gemm.k = 2048;
        return kernel_time(profile, Op{.name = "", .body = gemm}).seconds;
    }

  private:
    void add(const char* name, const std::string& shape, double us, bool shapes) {
        for (int call = 0; call < 3; ++call) {
            ++number_;
            text_ += fmt::format(
                "{{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"{}\", \"pid\": 1, \"tid\": 1, \"ts\": {}, "
                "\"dur\": 8, \"args\": {{\"External id\": {}{}{}}}}},\n"
                "{{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 1, "
                "\"tid\": 1, \"ts\": {}, \"dur\": 2, \"args\": {{\"correlation\": {}}}}},\n"
                "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"kernel\", \"pid\": 0, \"tid\": 7, \"ts\": "
                "{}, "
                "\"dur\": {:.4f}, \"args\": {{\"correlation\": {}}}}},\n",
                name, now_us_, number_, shapes ? ", " : "", shapes ? shape : "", now_us_ + 3, 100 + number_,
                now_us_ + 50, us, 100 + number_);
            now_us_ += 10;
        }
    }

    TemporaryFolder folder_;
    std::string text_;
    int now_us_ = 0, number_ = 0;
};

TEST_F(OperationImportTest, AFewShapesMoveTheBasesCurve) {
    const ImportResult result = imported(trace(1.3, true, 5));
    const auto base = load_profile("h100");
    ASSERT_TRUE(base);
    EXPECT_NEAR(product_seconds(result.document.profile) / product_seconds(*base), 1.3, 0.03);
    const auto entry = [](const HardwareProfile& profile) {
        const auto found =
            std::find_if(profile.memory_ops.begin(), profile.memory_ops.end(),
                         [](const MemoryEntry& e) { return e.kind == MemoryOpKind::Norm && !e.backward; });
        EXPECT_NE(found, profile.memory_ops.end());
        return *found;
    };
    EXPECT_NEAR(entry(*base).efficiency / entry(result.document.profile).efficiency, 1.3, 0.01);
    EXPECT_EQ(entry(result.document.profile).fit.points, 1);
    EXPECT_EQ(result.sources[0].points, 6);
    std::string taken;
    for (const std::string& line : result.taken)
        taken += line + "\n";
    EXPECT_NE(taken.find("products in bf16 of 5 shapes (1.30 of h100's time)"), std::string::npos) << taken;
    EXPECT_NE(taken.find("norms, forward of 1 shape (1.30"), std::string::npos) << taken;
}

TEST_F(OperationImportTest, TwentyShapesAreACurve) {
    const ImportResult result = imported(trace(1.3, true, 30));
    const auto base = load_profile("h100");
    ASSERT_TRUE(base);
    EXPECT_NEAR(product_seconds(result.document.profile) / product_seconds(*base), 1.3, 0.1);
    EXPECT_EQ(
        result.document.profile.gemm.front().fit.points + result.document.profile.gemm.front().fit.held_out,
        30);
}

TEST_F(OperationImportTest, WithoutShapesNothingIsTakenAndThatIsSaid) {
    const ImportResult result = imported(trace(1.3, false, 5));
    const auto base = load_profile("h100");
    ASSERT_TRUE(base);
    EXPECT_EQ(product_seconds(result.document.profile), product_seconds(*base));
    EXPECT_EQ(result.sources[0].points, 0);
    ASSERT_FALSE(result.absent.empty());
    EXPECT_NE(result.absent.front().find("record_shapes=True"), std::string::npos) << result.absent.front();
}

}  // namespace
}  // namespace tw

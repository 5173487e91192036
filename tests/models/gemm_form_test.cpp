// Factors of products' forms: of one precision, or of all that have none of their own.
#include "models/hardware/gemm_form.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "models/hardware/scatter.hpp"

namespace tw {
namespace {

GemmFormEntry entry(GemmForm form, double factor, double sigma,
                    std::optional<Precision> precision = std::nullopt) {
    GemmFormEntry e;
    e.form = form;
    e.factor = factor;
    e.fit.sigma = sigma;
    e.precision = precision;
    return e;
}

TEST(GemmForm, ItsOwnPrecisionComesBeforeTheOneForAll) {
    HardwareProfile profile;
    profile.gemm_forms = {entry(GemmForm::WeightGrad, 1.5, 0.2, Precision::Bf16),
                          entry(GemmForm::WeightGrad, 1.2, 0.1), entry(GemmForm::InputGrad, 1.1, 0.1)};
    EXPECT_EQ(gemm_form(profile, GemmForm::WeightGrad, Precision::Bf16)->factor, 1.5);
    EXPECT_EQ(gemm_form(profile, GemmForm::WeightGrad, Precision::Fp32)->factor, 1.2);
    EXPECT_EQ(gemm_form(profile, GemmForm::InputGrad, Precision::Bf16)->factor, 1.1);
    EXPECT_EQ(gemm_form(profile, GemmForm::Forward, Precision::Bf16), nullptr);
    profile.gemm_forms.pop_back();
    profile.gemm_forms.pop_back();
    EXPECT_EQ(gemm_form(profile, GemmForm::WeightGrad, Precision::Fp32), nullptr);
}

TEST(GemmForm, AMeasuredFactorTakesThePlaceOfTheOneThatHolds) {
    HardwareProfile profile;
    profile.gemm_forms = {entry(GemmForm::WeightGrad, 1.5, 0.2, Precision::Fp32),
                          entry(GemmForm::WeightGrad, 1.2, 0.1)};
    set_gemm_form(profile, entry(GemmForm::WeightGrad, 1.3, 0.1), Precision::Bf16);
    set_gemm_form(profile, entry(GemmForm::InputGrad, 1.1, 0.1), Precision::Bf16);
    ASSERT_EQ(profile.gemm_forms.size(), 3U);
    EXPECT_EQ(gemm_form(profile, GemmForm::WeightGrad, Precision::Fp32)->factor, 1.5);
    EXPECT_EQ(gemm_form(profile, GemmForm::WeightGrad, Precision::Bf16)->factor, 1.3);
    EXPECT_EQ(gemm_form(profile, GemmForm::WeightGrad, Precision::Fp16)->factor, 1.3);
    EXPECT_EQ(gemm_form(profile, GemmForm::InputGrad, Precision::Fp16)->factor, 1.1);
    set_gemm_form(profile, entry(GemmForm::WeightGrad, 1.6, 0.1), Precision::Fp32);
    EXPECT_EQ(gemm_form(profile, GemmForm::WeightGrad, Precision::Fp32)->factor, 1.6);
    EXPECT_EQ(gemm_form(profile, GemmForm::WeightGrad, Precision::Bf16)->factor, 1.3);
}

// Scatter is that of the factor that a product is multiplied by, not of all factors of its form.
TEST(GemmForm, ScatterIsOfTheFactorThatHolds) {
    HardwareProfile profile;
    GemmEntry curve;
    curve.precision = Precision::Bf16;
    curve.fit.sigma = 0.3;
    profile.gemm = {curve};
    profile.gemm_forms = {entry(GemmForm::WeightGrad, 1.2, 0.4),
                          entry(GemmForm::WeightGrad, 1.5, 1.2, Precision::Fp32)};
    Op op;
    Gemm gemm;
    gemm.form = GemmForm::WeightGrad;
    gemm.precision = Precision::Bf16;
    op.body = gemm;
    EXPECT_DOUBLE_EQ(kernel_scatter(profile, op), 0.5);
}

}  // namespace
}  // namespace tw

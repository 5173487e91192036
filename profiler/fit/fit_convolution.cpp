#include "profiler/fit/fit_convolution.hpp"

#include <cmath>

#include "profiler/fit/minimize.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

ConvolutionCurve decode(const std::vector<double>& p) {
    ConvolutionCurve curve;
    curve.forward = round_digits(std::exp(p[0]));
    curve.input_grad = round_digits(std::exp(p[1]));
    curve.weight_grad = round_digits(std::exp(p[2]));
    curve.winograd = round_digits(1 + std::exp(std::min(p[3], 2.0)));
    curve.launch_s = round_digits(std::exp(p[4]));
    return curve;
}

double error_of(const ConvolutionCurve& curve, const GemmCurve& gemm, const ConvolutionPoint& point) {
    return std::abs(std::log(point.seconds / convolution_seconds(curve, gemm, point.convolution)));
}

bool left_out(const Convolution& c) {
    return held_out(static_cast<std::uint64_t>(c.in_channels * 131071 + c.out_channels),
                    static_cast<std::uint64_t>(c.out_width * 8191 + c.batch));
}

}  // namespace

ConvolutionEntry fit_convolution(const std::vector<ConvolutionPoint>& points, const GemmCurve& gemm,
                                 const std::string& source) {
    std::vector<ConvolutionPoint> train, test;
    for (const ConvolutionPoint& point : points)
        (left_out(point.convolution) ? test : train).push_back(point);
    const Objective loss = [&](const std::vector<double>& p) {
        const ConvolutionCurve curve = decode(p);
        double sum = 0;
        for (const ConvolutionPoint& point : train)
            sum += error_of(curve, gemm, point);
        return sum / static_cast<double>(train.size());
    };
    ConvolutionEntry entry;
    entry.precision = points.front().convolution.precision;
    entry.curve = decode(minimize(loss, {0.2, 0.4, 0.4, -1, std::log(1e-5)}, 0.3, 2000, 2).at);
    std::vector<double> errors;
    for (const ConvolutionPoint& point : test)
        errors.push_back(error_of(entry.curve, gemm, point));
    entry.fit = fit_record(source, static_cast<std::int64_t>(train.size()), errors);
    return entry;
}

}  // namespace tw

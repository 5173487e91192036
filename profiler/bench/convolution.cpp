// Convolutions of VGG's and ResNet's kind, three forms each.
#include <array>

#include "profiler/bench/benchmarks.hpp"

namespace tw {
namespace {

struct Problem {
    std::int64_t batch, in, out, size, kernel, stride;
};
constexpr std::array kProblems = {Problem{4, 16, 32, 32, 3, 1}, Problem{4, 32, 32, 16, 3, 1},
                                  Problem{8, 64, 64, 8, 3, 1},  Problem{4, 3, 16, 32, 3, 1},
                                  Problem{4, 64, 128, 8, 1, 1}, Problem{4, 32, 64, 16, 3, 2}};

}  // namespace

void run_convolution(BenchContext& c) {
    Backend& b = *c.backend;
    for (const Problem& p : kProblems) {
        const std::int64_t padding = p.kernel / 2;
        const std::int64_t out_size = (p.size + 2 * padding - p.kernel) / p.stride + 1;
        const Shape x_shape{p.batch, p.in, p.size, p.size}, y_shape{p.batch, p.out, out_size, out_size};
        const Shape w_shape{p.out, p.in, p.kernel, p.kernel};
        const auto bytes = [](const Shape& shape) { return static_cast<std::size_t>(shape.elements()) * 4; };
        const RotatedBuffers x(b, bytes(x_shape)), y(b, bytes(y_shape)), w(b, bytes(w_shape)),
            bias(b, static_cast<std::size_t>(p.out) * 4, 0);
        ConvSpec spec;
        spec.stride = p.stride, spec.padding_h = spec.padding_w = padding;
        const auto point = [&](const char* form) {
            SampleSeries s;
            s.benchmark = "convolution";
            s.variant = std::string("fp32 ") + form;
            s.shape = {
                {"batch", static_cast<double>(p.batch)},      {"in_channels", static_cast<double>(p.in)},
                {"out_channels", static_cast<double>(p.out)}, {"out_size", static_cast<double>(out_size)},
                {"kernel", static_cast<double>(p.kernel)},    {"stride", static_cast<double>(p.stride)}};
            return s;
        };
        const auto image = [&](std::int64_t i) { return x.tensor(i, DType::F32, x_shape); };
        const auto result = [&](std::int64_t i) { return y.tensor(i, DType::F32, y_shape); };
        const auto weight = [&](std::int64_t i) { return w.tensor(i, DType::F32, w_shape); };
        const Tensor biases = bias.tensor(0, DType::F32, {p.out});
        c.sample(point("forward"),
                 [&](std::int64_t i) { b.conv_forward(image(i), weight(i), biases, spec, result(i)); });
        c.sample(point("input_grad"),
                 [&](std::int64_t i) { b.conv_backward_input(result(i), weight(i), spec, image(i)); });
        c.sample(point("weight_grad"), [&](std::int64_t i) {
            b.conv_backward_weight(result(i), image(i), spec, weight(i), biases);
        });
        if (c.sampler->over()) return;
    }
}

}  // namespace tw

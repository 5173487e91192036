#include "profiler/fit/published_b200.hpp"

#include <array>

namespace tw {
namespace {

constexpr double kPeak = 2250e12;
constexpr std::int64_t kTokens = 4096;

// A layer's product of 4096 tokens: inputs, outputs, and the shares of the peak of its forward, of its input
// gradient and of its weight gradient.
struct Layer {
    std::int64_t inputs, outputs;
    double forward, input_gradient, weight_gradient;
};

constexpr std::array kLayers = {
    Layer{8192, 10240, .6452, .4980, .5979},  Layer{8192, 8192, .4625, .4964, .4789},
    Layer{8192, 57344, .4867, .4829, .4536},  Layer{28672, 8192, .4847, .4742, .4594},
    Layer{8192, 128256, .4874, .4710, .4548}, Layer{8192, 5120, .6275, .6428, .4732},
    Layer{4096, 8192, .4603, .3905, .5703},   Layer{8192, 28672, .4943, .4819, .4535},
    Layer{14336, 8192, .4763, .4943, .4568},  Layer{8192, 64128, .4901, .4656, .4529},
    Layer{8192, 2560, .5844, .6551, .5618},   Layer{2048, 8192, .6222, .5530, .5159},
    Layer{8192, 14336, .4937, .4923, .4756},  Layer{7168, 8192, .4759, .4687, .4076},
    Layer{8192, 32128, .4917, .4917, .4445},  Layer{16384, 20480, .5325, .5135, .4547},
    Layer{16384, 16384, .5097, .5149, .4523}, Layer{16384, 106496, .4961, .5116, .4562},
    Layer{53248, 16384, .5109, .5007, .4536}, Layer{16384, 128256, .4906, .5109, .4546},
    Layer{16384, 10240, .5525, .4888, .4768}, Layer{8192, 16384, .4527, .4727, .4533},
    Layer{16384, 53248, .4887, .5116, .4546}, Layer{26624, 16384, .5084, .4978, .4547},
    Layer{16384, 26624, .4973, .5127, .4513}, Layer{13312, 16384, .5082, .4798, .4472},
    Layer{16384, 13312, .4954, .5024, .4438},
};

struct Heads {
    std::int64_t sequence, heads, kv_heads;
    double forward, backward;  // of 2 and 5 times sequence^2 heads 256, without the causal half
};

constexpr std::array kHeads = {
    Heads{4096, 128, 16, .9967, .8316}, Heads{4096, 64, 8, .8715, .7294},  Heads{4096, 32, 4, .7318, .7963},
    Heads{4096, 16, 2, .5783, .7553},   Heads{4096, 8, 1, .3102, .6586},   Heads{4096, 32, 8, .7223, .7870},
    Heads{4096, 16, 4, .5824, .7416},   Heads{4096, 8, 2, .3172, .6326},   Heads{4096, 4, 1, .1669, .3456},
    Heads{32768, 16, 2, 1.1654, .8717}, Heads{32768, 8, 1, 1.2018, .9549}, Heads{131072, 16, 2, .9888, .8267},
    Heads{131072, 8, 1, 1.0028, .8264},
};

GemmPoint point(std::int64_t m, std::int64_t n, std::int64_t k, GemmForm form, double share) {
    GemmPoint p;
    p.shape.m = m, p.shape.n = n, p.shape.k = k;
    p.form = form;
    p.seconds =
        2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / (share * kPeak);
    return p;
}

}  // namespace

std::vector<GemmPoint> b200_products() {
    std::vector<GemmPoint> points;
    for (const Layer& l : kLayers) {
        points.push_back(point(kTokens, l.outputs, l.inputs, GemmForm::Forward, l.forward));
        points.push_back(point(kTokens, l.inputs, l.outputs, GemmForm::InputGrad, l.input_gradient));
        points.push_back(point(l.outputs, l.inputs, kTokens, GemmForm::WeightGrad, l.weight_gradient));
    }
    return points;
}

std::vector<AttentionPoint> b200_attention(bool backward) {
    std::vector<AttentionPoint> points;
    for (const Heads& h : kHeads) {
        AttentionPoint p;
        p.shape.batch = 1;
        p.shape.seq_q = p.shape.seq_kv = h.sequence;
        p.shape.heads = h.heads;
        p.shape.kv_heads = h.kv_heads;
        p.shape.head_dim_qk = p.shape.head_dim_v = 128;
        p.shape.causal = true;
        p.shape.backward = backward;
        p.kernel = "cudnn";
        const double scores = static_cast<double>(h.sequence) * static_cast<double>(h.sequence);
        const double flops = (backward ? 5.0 : 2.0) * scores * static_cast<double>(h.heads) * 256.0;
        p.seconds = flops / ((backward ? h.backward : h.forward) * kPeak);
        points.push_back(p);
    }
    return points;
}

}  // namespace tw

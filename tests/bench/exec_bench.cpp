// Training steps of the executor's layers on one thread: the GPT that tests/bench/compare_torch.py also gives
// to PyTorch (4 layers of width 256, 8 heads, vocabulary 512, 8 sequences of 128 tokens, fp32, no dropout).
#include <vector>

#include <benchmark/benchmark.h>

#include "models/families/registry.hpp"
#include "real_exec/backend/backend.hpp"
#include "real_exec/comm/local/local_transport.hpp"
#include "real_exec/layers/stage_module.hpp"

namespace tw {
namespace {

constexpr std::int64_t kBatch = 8, kSeq = 128, kVocab = 512;

LayerGraph gpt() {
    ModelConfig c;
    c.name = "gpt-bench";
    c.family = "gpt";
    c.layers = 4;
    c.hidden = 256;
    c.heads = 8;
    c.ffn = 1024;
    c.vocab = kVocab;
    c.seq_len = kSeq;
    c.positions = PositionKind::Learned;
    c.qkv_bias = c.attention_out_bias = c.mlp_bias = true;
    c.tied_embeddings = true;
    return *build_model(c);
}

class Trainer {
  public:
    explicit Trainer(Precision precision)
        : graph_(gpt()), transports_(local_transports(1)), backend_(make_cpu_backend()) {
        ParallelPlan plan;
        plan.microbatch = kBatch;
        plan.seq_len = kSeq;
        plan.precision.compute = plan.precision.parameters = precision;
        plan.stages = {{.first_layer = 0, .last_layer = graph_.size()}};
        const std::vector<int> self = {0};
        group_ = *transports_[0]->create("self", self);
        ModuleContext context;
        context.backend = backend_.get();
        context.tp = context.ep = group_.get();
        module_ = *make_stage_module(graph_, plan, 0, context);
        std::uint64_t counter = 0;
        for (Parameter& p : module_->parameters()) {
            const auto make = [&](DType type, MemoryUse use, double value) {
                memory_.push_back(backend_->allocate(type, p.shape, use));
                const Tensor tensor = memory_.back().view(type, p.shape);
                backend_->fill(tensor, value);
                return tensor;
            };
            State state;
            if (module_->activation_type() != DType::F32)
                state.master = make(DType::F32, MemoryUse::MasterWeights, p.init_value);
            p.value = make(module_->activation_type(), MemoryUse::Parameters, p.init_value);
            p.grad = make(DType::F32, MemoryUse::Gradients, 0);
            const Tensor& exact = state.master ? state.master : p.value;
            for (std::int64_t i = 0; p.init_std > 0 && i < exact.elements(); ++i) {
                counter = counter * 6364136223846793005ULL + 1442695040888963407ULL;
                exact.as<float>()[i] =
                    static_cast<float>(static_cast<double>(counter >> 40U) * 0x1.0p-24 - 0.5) *
                    static_cast<float>(p.init_std);
            }
            if (state.master) backend_->copy(state.master, p.value);
            state.m = make(DType::F32, MemoryUse::OptimizerStates, 0);
            state.v = make(DType::F32, MemoryUse::OptimizerStates, 0);
            states_.push_back(state);
        }
        for (std::int64_t i = 0; i < kBatch * kSeq; ++i) {
            tokens_.push_back(static_cast<std::int32_t>(i * 7919 % kVocab));
            targets_.push_back(static_cast<std::int32_t>((i + 1) * 7919 % kVocab));
        }
        batch_.tokens = {tokens_.data(), DType::I32, {kBatch, kSeq}};
        batch_.targets = {targets_.data(), DType::I32, {kBatch, kSeq}};
    }
    ~Trainer() {
        module_.reset();
        memory_.clear();
    }
    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;

    double forward_backward() {
        LossResult loss;
        for (const Parameter& p : module_->parameters())
            backend_->fill(p.grad, 0);
        module_->forward(0, batch_, {}, {}, &loss);
        module_->backward(0, {}, {}, 1.0 / static_cast<double>(loss.count), 0, graph_.size());
        return loss.sum / static_cast<double>(loss.count);
    }
    void update() {
        ++step_;
        std::size_t i = 0;
        for (const Parameter& p : module_->parameters()) {
            const State& s = states_[i++];
            AdamSpec spec;
            spec.weight_decay = p.decay ? 0.1 : 0;
            spec.step = step_;
            backend_->adamw(p.value, s.master, p.grad, s.m, s.v, spec);
        }
    }
    [[nodiscard]] std::size_t peak() const { return backend_->memory().peak; }

  private:
    struct State {
        Tensor master, m, v;
    };
    LayerGraph graph_;
    std::vector<std::unique_ptr<Transport>> transports_;
    std::unique_ptr<Backend> backend_;
    std::unique_ptr<Communicator> group_;
    std::unique_ptr<StageModule> module_;
    std::vector<Buffer> memory_;
    std::vector<State> states_;
    std::vector<std::int32_t> tokens_, targets_;
    Batch batch_;
    std::int64_t step_ = 0;
};

void report(benchmark::State& state, const Trainer& trainer, double loss) {
    state.counters["tokens_per_s"] =
        benchmark::Counter(static_cast<double>(kBatch * kSeq), benchmark::Counter::kIsIterationInvariantRate);
    state.counters["peak_bytes"] = static_cast<double>(trainer.peak());
    state.counters["loss"] = loss;
}

void BM_GptForwardBackward(benchmark::State& state) {
    Trainer trainer(Precision::Fp32);
    double loss = trainer.forward_backward();
    for (auto _ : state)
        loss = trainer.forward_backward();
    report(state, trainer, loss);
}
BENCHMARK(BM_GptForwardBackward)->Unit(benchmark::kMillisecond)->UseRealTime();

void step(benchmark::State& state, Precision precision) {
    Trainer trainer(precision);
    double loss = trainer.forward_backward();
    for (auto _ : state) {
        loss = trainer.forward_backward();
        trainer.update();
    }
    report(state, trainer, loss);
}
void BM_GptStep(benchmark::State& state) {
    step(state, Precision::Fp32);
}
void BM_GptStepBf16(benchmark::State& state) {
    step(state, Precision::Bf16);
}
BENCHMARK(BM_GptStep)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_GptStepBf16)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace tw

BENCHMARK_MAIN();

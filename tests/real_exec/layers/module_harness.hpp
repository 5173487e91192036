// A stage module with memory of its own, as tests drive it: small models, weights drawn from the whole
// tensor's elements (so that every layout holds the same ones), gradients gathered to whole tensors.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "models/families/registry.hpp"
#include "real_exec/backend/backend.hpp"
#include "real_exec/comm/local/local_transport.hpp"
#include "real_exec/layers/stage_module.hpp"

namespace tw::testing {

using Whole = std::map<std::string, std::vector<double>>;

inline ModelConfig gpt_config() {
    ModelConfig c;
    c.name = "gpt-test";
    c.family = "gpt";
    c.layers = 2;
    c.hidden = 32;
    c.heads = 4;
    c.ffn = 64;
    c.vocab = 61;
    c.seq_len = 10;
    c.positions = PositionKind::Learned;
    c.qkv_bias = c.attention_out_bias = c.mlp_bias = true;
    c.tied_embeddings = true;
    return c;
}

inline ModelConfig llama_config() {
    ModelConfig c;
    c.name = "llama-test";
    c.family = "llama";
    c.layers = 2;
    c.hidden = 32;
    c.heads = 4;
    c.kv_heads = 2;
    c.ffn = 48;
    c.vocab = 61;
    c.seq_len = 10;
    c.activation = ActivationKind::Silu;
    c.gated = true;
    c.norm = NormKind::Rms;
    return c;
}

inline ModelConfig moe_config() {
    ModelConfig c = llama_config();
    c.name = "moe-test";
    c.family = "moe";
    c.experts = 4;
    c.experts_per_token = 2;
    c.expert_ffn = 24;
    return c;
}

// Experts that take as many tokens as an even routing would give them, and drop the others.
inline ModelConfig dropping_config() {
    ModelConfig c = moe_config();
    c.name = "moe-dropping";
    c.expert_capacity_factor = 1;
    return c;
}

inline ModelConfig bert_config() {
    ModelConfig c = gpt_config();
    c.name = "bert-test";
    c.family = "bert";
    c.causal = false;
    c.pre_norm = false;
    c.post_norm = true;
    c.final_norm = false;
    c.embedding_norm = true;
    c.type_vocab = 2;
    c.mlm_head = true;
    c.head_bias = true;
    return c;
}

inline LayerGraph graph_of(const ModelConfig& config) {
    auto graph = build_model(config);
    EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.errors()));
    return *graph;
}

// cuts: first layers of the stages after the first.
inline ParallelPlan plan_of(const LayerGraph& graph, std::vector<int> cuts = {}) {
    ParallelPlan plan;
    plan.microbatch = 2;
    plan.seq_len = 10;
    plan.vocab_divisor = 16;
    plan.precision.compute = plan.precision.parameters = Precision::Fp32;
    cuts.insert(cuts.begin(), 0);
    cuts.push_back(graph.size());
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
        plan.stages.push_back({.first_layer = cuts[i], .last_layer = cuts[i + 1]});
    return plan;
}

inline std::uint64_t hash_of(const std::string& text) {
    std::uint64_t hash = 0;
    for (const char c : text)
        hash = mix64(hash + static_cast<unsigned char>(c) + 1);
    return hash;
}

// Element `index` of the whole tensor: larger than a training run's start, so that every path matters.
inline double weight_at(const Parameter& p, std::int64_t index, double scale) {
    if (p.padded_from >= 0) {
        const std::int64_t row = p.full_shape.elements() / p.full_shape[0];
        if (index / row >= p.padded_from) return 0;
    }
    const double u =
        static_cast<double>(counter_random(1, hash_of(p.name), static_cast<std::uint64_t>(index)) >> 11U) *
        0x1.0p-53;
    return p.init_value + scale * (2 * u - 1);
}

// body(local element, element of the whole tensor).
inline void over_shard(const Parameter& p, const std::function<void(std::int64_t, std::int64_t)>& body) {
    const auto& full = p.full_shape;
    std::int64_t inner = 1;
    for (int a = p.shard_axis + 1; a < 4; ++a)
        inner *= full[a];
    std::int64_t outer = 1;
    for (int a = 0; a < p.shard_axis; ++a)
        outer *= full[a];
    const std::int64_t axis = full[p.shard_axis];
    const std::int64_t block = axis / p.parts;
    std::int64_t local = 0;
    for (std::int64_t o = 0; o < outer; ++o) {
        for (int part = 0; part < p.parts; ++part) {
            for (std::int64_t i = 0; i < p.extent; ++i) {
                for (std::int64_t j = 0; j < inner; ++j)
                    body(local++, (o * axis + part * block + p.offset + i) * inner + j);
            }
        }
    }
    EXPECT_EQ(local, p.shape.elements());
}

struct Rig {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Communicator> tp, ep;
    std::vector<Buffer> memory;
    std::unique_ptr<StageModule> module;

    Rig(const LayerGraph& graph, const ParallelPlan& plan, int stage, Transport& transport,
        double dropout = 0, LayerHooks* hooks = nullptr, double weight_scale = 0.3,
        const ModelStyle* style = nullptr) {
        backend = make_cpu_backend();
        const int group = plan.mesh.tp > 1 ? plan.mesh.tp : 1;
        std::vector<int> tp_ranks;
        for (int r = 0; r < group; ++r)
            tp_ranks.push_back(transport.rank() / group * group + r);
        tp = std::move(*transport.create("tp", tp_ranks));
        std::vector<int> ep_ranks;
        if (plan.mesh.ep > 1) {
            for (int r = 0; r < plan.mesh.ep; ++r)
                ep_ranks.push_back(r);
        } else {
            ep_ranks.push_back(transport.rank());
        }
        ep = std::move(*transport.create("ep", ep_ranks));
        ModuleContext context;
        context.backend = backend.get();
        context.tp = tp.get();
        context.ep = ep.get();
        context.hooks = hooks;
        context.seed = 7;
        context.dropout = dropout;
        context.style = style;
        auto made = make_stage_module(graph, plan, stage, context);
        EXPECT_TRUE(made) << (made ? "" : to_string(made.errors()));
        module = std::move(*made);
        const DType type = module->activation_type();
        for (Parameter& p : module->parameters()) {
            memory.push_back(backend->allocate(type, p.shape, MemoryUse::Parameters));
            p.value = memory.back().view(type, p.shape);
            Buffer exact = backend->allocate(DType::F32, p.shape, MemoryUse::Temporaries);
            const Tensor values = exact.view(DType::F32, p.shape);
            over_shard(p, [&](std::int64_t local, std::int64_t whole) {
                values.as<float>()[local] = static_cast<float>(weight_at(p, whole, weight_scale));
            });
            backend->copy(values, p.value);
            memory.push_back(backend->allocate(DType::F32, p.shape, MemoryUse::Gradients));
            p.grad = memory.back().view(DType::F32, p.shape);
            backend->fill(p.grad, 0);
        }
    }
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;
    // The module frees into the backend before it goes.
    ~Rig() {
        module.reset();
        memory.clear();
    }

    void zero_gradients() {
        for (const Parameter& p : module->parameters())
            backend->fill(p.grad, 0);
    }
};

struct TokenBatch {
    std::vector<std::int32_t> tokens, targets;
    Batch batch;
    TokenBatch(std::int64_t samples, std::int64_t seq, std::int64_t vocab, std::int64_t first = 0,
               bool some_ignored = true) {
        for (std::int64_t i = 0; i < samples * seq; ++i) {
            const auto at = static_cast<std::uint64_t>(first * seq + i);
            tokens.push_back(
                static_cast<std::int32_t>(counter_random(3, 1, at) % static_cast<std::uint64_t>(vocab)));
            targets.push_back(
                static_cast<std::int32_t>(counter_random(3, 2, at) % static_cast<std::uint64_t>(vocab)));
            if (some_ignored && at % 7 == 3) targets.back() = -1;
        }
        batch.tokens = {tokens.data(), DType::I32, {samples, seq}};
        batch.targets = {targets.data(), DType::I32, {samples, seq}};
        batch.first_sample = first;
    }
};

// Adds a rank's gradients to the whole ones: what the runtime's reductions over tp would leave.
inline void gather_gradients(Rig& rig, Whole& whole, std::mutex& mutex) {
    const std::lock_guard lock(mutex);
    for (const Parameter& p : rig.module->parameters()) {
        auto& values = whole[p.name];
        values.resize(static_cast<std::size_t>(p.full_shape.elements()));
        // Experts are summed over their replicas, the ranks of a tensor-parallel group among them.
        const bool replica =
            p.extent * p.parts == p.full_shape[p.shard_axis] && !p.tp_partial_grad && !p.expert;
        if (replica && rig.tp->rank() != 0) continue;
        over_shard(p, [&](std::int64_t local, std::int64_t at) {
            values[static_cast<std::size_t>(at)] += static_cast<double>(p.grad.as<float>()[local]);
        });
    }
}

struct Outcome {
    double loss = 0;
    Whole gradients;
};

struct RunOptions {
    double dropout = 0;
    bool split = false;  // backward in input and weight halves
    int chunk = 0;       // layers a chunk of the backward; 0: all at once
    double grad_scale = 1;
    double weight_scale = 0.3;
};

// One microbatch through all stages on every tensor-parallel rank.
inline Outcome run_model(const LayerGraph& graph, const ParallelPlan& plan, const RunOptions& options = {}) {
    Outcome outcome;
    std::mutex mutex;
    run_local_ranks(plan.mesh.tp, [&](Transport& transport) {
        const int stages = plan.stage_count();
        std::vector<std::unique_ptr<Rig>> rigs;
        for (int s = 0; s < stages; ++s)
            rigs.push_back(std::make_unique<Rig>(graph, plan, s, transport, options.dropout, nullptr,
                                                 options.weight_scale));
        const TokenBatch batch(plan.microbatch, plan.seq_len, graph.vocab);
        LossResult loss;
        Buffer input;
        const auto shape_bytes = [](const StageModule& m, const Shape& shape) {
            return static_cast<std::size_t>(shape.elements()) * bytes_of(m.activation_type());
        };
        for (int s = 0; s < stages; ++s) {
            StageModule& m = *rigs[static_cast<std::size_t>(s)]->module;
            const bool last = s + 1 == stages;
            Buffer output;
            Tensor out;
            if (!last) {
                // The next stage's memory, as a transfer would leave it.
                Backend& next = *rigs[static_cast<std::size_t>(s + 1)]->backend;
                output = next.allocate(shape_bytes(m, m.output_shape()), MemoryUse::Activations);
                out = output.view(m.activation_type(), m.output_shape());
            }
            m.forward(0, batch.batch, std::move(input), out, last ? &loss : nullptr);
            input = std::move(output);
        }
        Buffer gradient;
        for (int s = stages; s-- > 0;) {
            Rig& rig = *rigs[static_cast<std::size_t>(s)];
            StageModule& m = *rig.module;
            const Tensor dout = gradient ? gradient.view(m.activation_type(), m.output_shape()) : Tensor{};
            Buffer next;
            Tensor din;
            if (s > 0) {
                next = rig.backend->allocate(shape_bytes(m, m.input_shape()), MemoryUse::Activations);
                din = next.view(m.activation_type(), m.input_shape());
            }
            const int layers = plan.stages[static_cast<std::size_t>(s)].last_layer -
                               plan.stages[static_cast<std::size_t>(s)].first_layer;
            if (options.split) {
                m.backward_input(0, dout, din, options.grad_scale);
                if (dout) rig.backend->fill(dout, 1e9);  // the weight half may not read it
                m.backward_weight(0);
            } else {
                const int chunk = options.chunk > 0 ? options.chunk : layers;
                for (int last = layers; last > 0; last -= chunk)
                    m.backward(0, dout, din, options.grad_scale, std::max(0, last - chunk), last);
            }
            gradient = std::move(next);
        }
        for (const auto& rig : rigs)
            gather_gradients(*rig, outcome.gradients, mutex);
        gradient.reset();
        const std::lock_guard lock(mutex);
        outcome.loss = loss.sum;
    });
    return outcome;
}

inline double norm_of(const std::vector<double>& x) {
    double sum = 0;
    for (const double v : x)
        sum += v * v;
    return std::sqrt(sum);
}

// Largest difference of a tensor, relative to its norm over the square root of its size or to 1e-3 of the
// largest tensor's, whichever is more: tiny gradients are rounding.
inline void expect_close(const Outcome& a, const Outcome& b, double loss_tolerance, double tolerance) {
    EXPECT_NEAR(a.loss, b.loss, loss_tolerance * std::abs(a.loss));
    ASSERT_EQ(a.gradients.size(), b.gradients.size());
    for (const auto& [name, x] : a.gradients) {
        const auto& y = b.gradients.at(name);
        double worst = 0;
        const std::size_t n = std::min(x.size(), y.size());  // padding of the vocabulary may differ
        for (std::size_t i = 0; i < n; ++i)
            worst = std::max(worst, std::abs(x[i] - y[i]));
        EXPECT_LE(worst, tolerance * (2e-2 + norm_of(x))) << name;
    }
}

}  // namespace tw::testing

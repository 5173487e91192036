// The operations of a layer: shapes per rank, the three forms of each product, collectives and where they
// stand.
#include <algorithm>
#include <chrono>

#include <gtest/gtest.h>

#include "models/families/registry.hpp"
#include "tests/models/model_fixtures.hpp"

namespace tw {
namespace {

using test::graph_of;

LayerWork block(const char* name, const WorkShape& shape, int layer = 1) {
    return graph_of(name).layer(layer).model->work(shape);
}

std::vector<Gemm> gemms(const std::vector<Op>& ops, std::string_view name) {
    std::vector<Gemm> found;
    for (const Op& op : ops) {
        if (op.name == name && std::holds_alternative<Gemm>(op.body))
            found.push_back(std::get<Gemm>(op.body));
    }
    return found;
}

struct Collectives {
    int count = 0;
    double bytes = 0;
};

Collectives collectives(const std::vector<Op>& ops, CollectiveKind kind, Axis axis) {
    Collectives sum;
    for (const Op& op : ops) {
        if (const auto* c = std::get_if<CollectiveOp>(&op.body);
            c != nullptr && c->kind == kind && c->axis == axis) {
            ++sum.count;
            sum.bytes += c->bytes;
        }
    }
    return sum;
}

TEST(TransformerWork, ThreeFormsOfAProductPerRank) {
    WorkShape shape;
    shape.microbatch = 2;
    shape.tp = 8;
    const LayerWork w = block("llama3-70b", shape);
    const std::int64_t tokens = 2 * 2048;
    // q, k and v in one product: (64 + 2 * 8) heads of 128, an eighth each.
    const auto qkv = gemms(w.forward, "attn.qkv");
    ASSERT_EQ(qkv.size(), 1u);
    EXPECT_EQ(qkv[0].m, tokens);
    EXPECT_EQ(qkv[0].n, 80 * 128 / 8);
    EXPECT_EQ(qkv[0].k, 8192);
    const auto up = gemms(w.forward, "mlp.up");
    ASSERT_EQ(up.size(), 1u);
    EXPECT_EQ(up[0].n, 2 * 28672 / 8);  // gate and up fused
    const auto back = gemms(w.backward, "mlp.down");
    ASSERT_EQ(back.size(), 2u);
    EXPECT_EQ(back[0].form, GemmForm::InputGrad);
    EXPECT_EQ(back[0].m, tokens);
    EXPECT_EQ(back[0].n, 28672 / 8);
    EXPECT_EQ(back[0].k, 8192);
    EXPECT_FALSE(back[0].accumulate);
    EXPECT_EQ(back[1].form, GemmForm::WeightGrad);
    EXPECT_EQ(back[1].m, 8192);
    EXPECT_EQ(back[1].n, 28672 / 8);
    EXPECT_EQ(back[1].k, tokens);
    EXPECT_TRUE(back[1].accumulate);
}

TEST(TransformerWork, KeyValueHeadsAreReplicatedBeyondTheirNumber) {
    WorkShape shape;
    shape.tp = 16;
    EXPECT_EQ(gemms(block("llama3-70b", shape).forward, "attn.qkv")[0].n, (4 + 2) * 128);
}

TEST(TransformerWork, TensorParallelAllReduces) {
    WorkShape shape;
    shape.tp = 4;
    const LayerWork w = block("gpt3-175b", shape);
    const double size = 2048.0 * 12288 * 2;
    const Collectives forward = collectives(w.forward, CollectiveKind::AllReduce, Axis::Tp);
    EXPECT_EQ(forward.count, 2);
    EXPECT_DOUBLE_EQ(forward.bytes, 2 * size);
    const Collectives backward = collectives(w.backward, CollectiveKind::AllReduce, Axis::Tp);
    EXPECT_EQ(backward.count, 2);
    EXPECT_DOUBLE_EQ(backward.bytes, 2 * size);
    shape.tp = 1;
    EXPECT_EQ(collectives(block("gpt3-175b", shape).forward, CollectiveKind::AllReduce, Axis::Tp).count, 0);
}

TEST(TransformerWork, SequenceParallelGathersAndScatters) {
    WorkShape shape;
    shape.tp = 4;
    shape.sequence_parallel = true;
    const LayerWork w = block("gpt3-175b", shape);
    EXPECT_EQ(collectives(w.forward, CollectiveKind::AllGather, Axis::Tp).count, 2);
    EXPECT_EQ(collectives(w.forward, CollectiveKind::ReduceScatter, Axis::Tp).count, 2);
    // Backward: the gradient is gathered at the exit, the input again at the entry; the input's gradient is
    // scattered.
    EXPECT_EQ(collectives(w.backward, CollectiveKind::AllGather, Axis::Tp).count, 4);
    EXPECT_EQ(collectives(w.backward, CollectiveKind::ReduceScatter, Axis::Tp).count, 2);
    EXPECT_EQ(collectives(w.backward, CollectiveKind::AllReduce, Axis::Tp).count, 0);
    int hidden = 0;
    for (const Op& op : w.backward) {
        const auto* c = std::get_if<CollectiveOp>(&op.body);
        if (c != nullptr && c->overlaps) ++hidden;
    }
    EXPECT_EQ(hidden, 4);
}

// Every overlapping collective is waited for before the layer's gradient leaves it.
TEST(TransformerWork, OverlapsAreJoined) {
    for (const bool sp : {false, true}) {
        for (const char* name :
             {"gpt3-175b", "llama3-8b", "deepseek-v3", "gpt-neox-20b", "t5-11b", "mixtral-8x7b"}) {
            WorkShape shape;
            shape.tp = 2;
            shape.cp = 2;
            shape.sequence_parallel = sp;
            const LayerGraph graph = graph_of(name);
            for (int i = 0; i < graph.size(); ++i) {
                const LayerWork w = graph.layer(i).model->work(shape);
                for (const auto* list : {&w.forward, &w.backward}) {
                    bool pending = false;
                    for (const Op& op : *list) {
                        if (op.joins) pending = false;
                        const auto* c = std::get_if<CollectiveOp>(&op.body);
                        if (c != nullptr && c->overlaps) pending = true;
                    }
                    // A model whose last backward is a bare projection joins at the layer's end by itself.
                    if (graph.layer(i).role == LayerRole::Block) {
                        EXPECT_FALSE(pending) << name << " " << i;
                    }
                }
            }
        }
    }
}

TEST(TransformerWork, RingExchangesKeysAndValues) {
    WorkShape shape;
    shape.cp = 4;
    shape.seq_len = 8192;
    const LayerWork w = block("llama3-8b", shape);
    const Collectives ring = collectives(w.forward, CollectiveKind::SendRecv, Axis::Cp);
    EXPECT_EQ(ring.count, 3);
    EXPECT_DOUBLE_EQ(ring.bytes, 3 * 2.0 * 2048 * 8 * 128 * 2);
    const auto core = std::find_if(w.forward.begin(), w.forward.end(),
                                   [](const Op& op) { return std::holds_alternative<Attention>(op.body); });
    ASSERT_NE(core, w.forward.end());
    EXPECT_EQ(std::get<Attention>(core->body).seq_q, 2048);
    EXPECT_EQ(std::get<Attention>(core->body).seq_kv, 8192);
    shape.cp_kind = WorkShape::Cp::AllToAll;
    const LayerWork swapped = block("llama3-8b", shape);
    EXPECT_EQ(collectives(swapped.forward, CollectiveKind::AllToAll, Axis::Cp).count, 2);
}

// All ranks' cores together do the work of one rank's.
// A checkpointed core holds its exchanges (Megatron-LM core/transformer/attention.py,
// _checkpointed_attention_forward): c - 1 of a ring, or both all-to-alls.
TEST(TransformerWork, SelectiveRecomputeExchangesAgain) {
    WorkShape shape;
    shape.cp = 4;
    for (const auto kind : {WorkShape::Cp::Ring, WorkShape::Cp::AllToAll}) {
        shape.cp_kind = kind;
        int exchanges = 0;
        for (const Op& op : block("llama3-8b", shape).forward) {
            if (!std::holds_alternative<CollectiveOp>(op.body)) continue;
            ++exchanges;
            EXPECT_EQ(op.recompute, RecomputeLevel::Selective) << op.name;
        }
        EXPECT_EQ(exchanges, kind == WorkShape::Cp::Ring ? 3 : 2);
    }
}

TEST(TransformerWork, ContextParallelismSplitsTheCore) {
    const auto flops = [](const LayerWork& w) {
        double sum = 0;
        for (const Op& op : w.forward) {
            if (std::holds_alternative<Attention>(op.body)) sum += op_flops(op).value;
        }
        return sum;
    };
    for (const char* name : {"llama3-8b", "mistral-7b"}) {
        WorkShape shape;
        shape.seq_len = 16384;
        const double whole = flops(block(name, shape));
        for (const auto kind : {WorkShape::Cp::Ring, WorkShape::Cp::AllToAll}) {
            shape.cp = 4;
            shape.cp_kind = kind;
            EXPECT_DOUBLE_EQ(4 * flops(block(name, shape)), whole);
            shape.cp = 1;
        }
    }
}

TEST(TransformerWork, ExpertsAreDispatchedAndCombined) {
    WorkShape shape;
    shape.microbatch = 1;
    shape.seq_len = 4096;
    shape.ep = 8;
    const LayerWork w = block("mixtral-8x7b", shape);
    const double routed = 4096.0 * 2 * 4096 * 2;
    const Collectives forward = collectives(w.forward, CollectiveKind::AllToAll, Axis::Ep);
    EXPECT_EQ(forward.count, 2);
    EXPECT_DOUBLE_EQ(forward.bytes, 2 * routed);
    EXPECT_EQ(collectives(w.backward, CollectiveKind::AllToAll, Axis::Ep).count, 2);
    const auto up = gemms(w.forward, "moe.up");
    ASSERT_EQ(up.size(), 1u);
    EXPECT_EQ(up[0].groups, 1);
    EXPECT_EQ(up[0].m, 8192);  // one expert of eight takes an eighth of the eight ranks' 2 x 4096 copies
    EXPECT_EQ(up[0].n, 2 * 14336);
    shape.expert_imbalance = 1.5;
    EXPECT_EQ(gemms(block("mixtral-8x7b", shape).forward, "moe.up")[0].m, 12288);
    EXPECT_EQ(w.expert_parameters, 3LL * 4096 * 14336);
    shape.expert_imbalance = 1;
    shape.ep = 1;
    EXPECT_EQ(gemms(block("mixtral-8x7b", shape).forward, "moe.up")[0].groups, 8);
    EXPECT_EQ(gemms(block("mixtral-8x7b", shape).forward, "moe.up")[0].m, 1024);
}

// 1.0: no expert takes more than an even routing gives it, whatever the imbalance; 0.5: half of all copies
// are dropped before they travel.
TEST(TransformerWork, ExpertsDropWhatIsBeyondTheirCapacity) {
    auto config = *load_model("mixtral-8x7b")->config;
    WorkShape shape;
    shape.microbatch = 1;
    shape.seq_len = 4096;
    shape.ep = 8;
    shape.expert_imbalance = 1.5;
    const auto work = [&](double factor) {
        config.expert_capacity_factor = factor;
        const auto graph = build_model(config);
        return graph->layer(1).model->work(shape);
    };
    const auto sent = [](const LayerWork& w) {
        return collectives(w.forward, CollectiveKind::AllToAll, Axis::Ep).bytes;
    };
    const auto saved = [](const LayerWork& w, const std::string& name) {
        for (const SavedTensor& t : w.saved) {
            if (t.name == name) return t.bytes;
        }
        return -1.0;
    };
    const LayerWork whole = work(0), even = work(1), half = work(0.5);
    EXPECT_EQ(gemms(whole.forward, "moe.up")[0].m, 12288);
    EXPECT_EQ(gemms(work(2).forward, "moe.up")[0].m, 12288) << "room for the most loaded one";
    EXPECT_EQ(gemms(even.forward, "moe.up")[0].m, 8192);
    EXPECT_EQ(gemms(half.forward, "moe.up")[0].m, 4096);
    EXPECT_DOUBLE_EQ(sent(even), sent(whole) / 1.5);
    EXPECT_DOUBLE_EQ(sent(half), sent(whole) / 3);
    EXPECT_DOUBLE_EQ(saved(even, "moe.tokens"), saved(whole, "moe.tokens") / 1.5);
    EXPECT_DOUBLE_EQ(saved(half, "moe.out"), saved(whole, "moe.out") / 2);
    EXPECT_EQ(even.expert_parameters, whole.expert_parameters);
}

TEST(TransformerWork, LatentAttentionProjects) {
    WorkShape shape;
    shape.tp = 4;
    const LayerWork w = block("deepseek-v3", shape);
    EXPECT_EQ(gemms(w.forward, "attn.q_down")[0].n, 1536);
    EXPECT_EQ(gemms(w.forward, "attn.q_up")[0].n, 128 * 192 / 4);
    EXPECT_EQ(gemms(w.forward, "attn.kv_down")[0].n, 576);
    EXPECT_EQ(gemms(w.forward, "attn.kv_up")[0].n, 128 * 256 / 4);
    EXPECT_EQ(gemms(w.forward, "attn.proj")[0].k, 128 * 128 / 4);
}

TEST(TransformerWork, CrossEntropyOverShardedVocabulary) {
    WorkShape shape;
    shape.tp = 8;
    const LayerGraph graph = graph_of("gpt3-175b");
    const LayerWork head = graph.layer(graph.size() - 1).model->work(shape);
    const Collectives small = collectives(head.forward, CollectiveKind::AllReduce, Axis::Tp);
    EXPECT_EQ(small.count, 3);
    EXPECT_DOUBLE_EQ(small.bytes, 3 * 2048 * 4);
    EXPECT_EQ(gemms(head.forward, "head.logits")[0].n, 51200 / 8);
}

TEST(TransformerWork, UnfusedAttentionIsTwoBatchedProducts) {
    WorkShape shape;
    shape.microbatch = 2;
    shape.attention = AttentionKernel::Unfused;
    shape.tp = 8;
    const LayerWork w = block("gpt3-175b", shape);
    const auto qk = gemms(w.forward, "attn.qk");
    ASSERT_EQ(qk.size(), 1u);
    EXPECT_EQ(qk[0].batch, 2 * 96 / 8);
    EXPECT_EQ(qk[0].m, 2048);
    EXPECT_EQ(qk[0].n, 2048);
    EXPECT_EQ(qk[0].k, 128);
    for (const Op& op : w.forward) {
        if (op.name == "attn.softmax") {
            EXPECT_EQ(op.recompute, RecomputeLevel::Selective);
        }
        if (op.name == "attn.qkv") {
            EXPECT_EQ(op.recompute, RecomputeLevel::Full);
        }
    }
}

// Narayanan 2021, equation 3, for one iteration without recomputation: 72 b s l h^2 (1 + s/(6h) + V/(12 l
// h)); forward is a third. With causal attention halved, the middle term halves.
TEST(ModelFlops, MegatronConvention) {
    const LayerGraph graph = graph_of("gpt3-175b");
    const double b = 4, s = 2048, l = 96, h = 12288, v = 51200;
    const double full = 24 * b * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
    EXPECT_NEAR(graph.model_flops(4, 2048, false).value / full, 1, 1e-12);
    const double half = 24 * b * s * l * h * h * (1 + s / (12 * h) + v / (12 * l * h));
    EXPECT_NEAR(graph.model_flops(4, 2048, true).value / half, 1, 1e-12);
}

// Megatron-LM, num_floating_point_operations: gated MLPs count three products, grouped queries their own
// width.
TEST(ModelFlops, GroupedQueriesAndGatedMlp) {
    const LayerGraph graph = graph_of("llama3-8b");
    const double tokens = 8192, h = 4096, f = 14336, v = 128256;
    const double layer = h * (h + 2 * 1024) + h * h + 3 * h * f + 2 * h * tokens / 2;
    EXPECT_NEAR(graph.model_flops(1, 8192).value / (2 * tokens * (32 * layer + h * v)), 1, 1e-12);
}

// The forward's products, summed over ops, are what model_flops says, for every family without padding or
// parallelism.
TEST(ModelFlops, AgreesWithTheOperations) {
    for (const std::string& name : model_names()) {
        const auto model = load_model(name);
        if (!model || model->graph.hidden == 0) continue;
        const LayerGraph& graph = model->graph;
        for (int i = 0; i < graph.size(); ++i) {
            WorkShape shape;
            shape.seq_len = 15360;  // a multiple of every number of experts over top-k: no group is padded
            double forward = 0, backward = 0, router = 0;
            const LayerWork w = graph.layer(i).model->work(shape);
            for (const Op& op : w.forward) {
                if (std::holds_alternative<MemoryOp>(op.body)) continue;
                (op.name == "moe.router" ? router : forward) += op_flops(op).value;
            }
            for (const Op& op : w.backward) {
                if (std::holds_alternative<Gemm>(op.body) && op.name != "moe.router")
                    backward += op_flops(op).value;
            }
            const double stated = graph.layer(i).model->model_flops(1, 15360, true).value;
            EXPECT_NEAR(forward, stated, 1e-3 * stated) << name << " " << graph.layer(i).name;
            if (graph.layer(i).role == LayerRole::Block) {
                EXPECT_GT(backward, 0);
            }
        }
    }
}

// Full recomputation runs blocks again, embeddings and heads never: the logits stay.
TEST(TransformerWork, EmbeddingsAndHeadsAreNotRecomputed) {
    const LayerGraph graph = graph_of("gpt3-175b");
    for (const int i : {0, graph.size() - 1}) {
        const LayerWork w = graph.layer(i).model->work({});
        for (const Op& op : w.forward)
            EXPECT_EQ(op.recompute, RecomputeLevel::None) << op.name;
        for (const SavedTensor& t : w.saved)
            EXPECT_EQ(t.keep, SavedTensor::Keep::Boundary) << t.name;
    }
    int again = 0;
    for (const Op& op : graph.layer(1).model->work({}).forward)
        again += op.recompute != RecomputeLevel::None ? 1 : 0;
    EXPECT_GT(again, 8);
}

TEST(LayerGraph, CutBytes) {
    const LayerGraph gpt = graph_of("gpt3-175b");
    WorkShape shape;
    shape.microbatch = 2;
    EXPECT_DOUBLE_EQ(gpt.cut_bytes(1, shape), 2 * 2048.0 * 12288 * 2);
    shape.tp = 8;
    EXPECT_DOUBLE_EQ(gpt.cut_bytes(50, shape), 2 * 2048.0 * 12288 * 2);
    shape.sequence_parallel = true;
    EXPECT_DOUBLE_EQ(gpt.cut_bytes(50, shape), 2 * 2048.0 * 12288 * 2 / 8);
}

TEST(LayerGraph, EncoderOutputCrossesEveryDecoderCut) {
    const LayerGraph t5 = graph_of("t5-11b");
    EXPECT_EQ(t5.blocks, 48);
    WorkShape shape;
    shape.seq_len = 512;
    const double one = 512.0 * 1024 * 2;
    int decoder = 0;
    for (int i = 0; i < t5.size(); ++i) {
        if (t5.layer(i).name == "decoder.0") decoder = i;
    }
    ASSERT_GT(decoder, 0);
    EXPECT_DOUBLE_EQ(t5.cut_bytes(10, shape), one);
    EXPECT_DOUBLE_EQ(t5.cut_bytes(decoder + 1, shape), 2 * one);  // the encoder's output and the decoder's
    EXPECT_DOUBLE_EQ(t5.cut_bytes(t5.size() - 1, shape), one);    // before the head: nobody needs the encoder
}

TEST(LayerGraph, EqualLayersShareAClass) {
    EXPECT_EQ(graph_of("gpt3-175b").layer_classes(), 3);
    EXPECT_EQ(graph_of("gemma2-9b").layer_classes(), 4);    // sliding and global
    EXPECT_EQ(graph_of("deepseek-v3").layer_classes(), 4);  // dense and sparse
}

TEST(LayerModel, Divisibility) {
    const LayerGraph graph = graph_of("llama3-70b");
    const auto rules = graph.layer(1).model->divisibility();
    const auto find = [&](std::string_view name) {
        const auto it =
            std::find_if(rules.begin(), rules.end(), [&](const auto& rule) { return rule.name == name; });
        return it == rules.end() ? -1 : it->value;
    };
    EXPECT_EQ(find("num_attention_heads"), 64);
    EXPECT_EQ(find("num_key_value_heads"), 8);
    EXPECT_EQ(find("intermediate_size"), 28672);
}

TEST(LayerModel, WorkIsCheap) {
    const LayerGraph graph = graph_of("mixtral-8x7b");
    WorkShape shape;
    shape.tp = 2;
    shape.ep = 4;
    shape.sequence_parallel = true;
    const auto start = std::chrono::steady_clock::now();
    std::int64_t sum = 0;
    for (int i = 0; i < 2000; ++i) {
        shape.microbatch = 1 + i % 8;
        sum += graph.layer(1).model->work(shape).largest_weight;
    }
    const double us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / 2000;
    EXPECT_GT(sum, 0);
    EXPECT_LT(us, 200) << "a search asks for thousands of shapes; about 5 us on an idle machine";
}

// transformers 5.17's grouped experts, listed by PyTorch's dispatcher: a forward moves each routed row times
// the hidden size 4 e (gathered, filled), then 3 e + 8 (filled, weighted in fp32) and 8 (put back); fused
// code 2 e and e.
TEST(TransformerWork, EagerExpertsMoveTheirRowsManyTimes) {
    WorkShape shape;
    shape.seq_len = 1024;
    shape.fused_elementwise = false;
    const auto moved = [&](bool composite) {
        shape.composite_norms = composite;
        double bytes = 0;
        for (const Op& op : block("mixtral-8x7b", shape).forward) {
            const auto* memory = std::get_if<MemoryOp>(&op.body);
            if (memory != nullptr && (op.name == "moe.permute" || op.name == "moe.unpermute"))
                bytes += memory->bytes;
        }
        return bytes;
    };
    const double tokens = 1024.0 * 4096, routed = 2 * tokens;
    EXPECT_DOUBLE_EQ(moved(false), (4 + 2) * routed + 2 * tokens);
    EXPECT_DOUBLE_EQ(moved(true), (8 + (6 + 8) + 8) * routed + (8 + 2) * tokens);
}

}  // namespace
}  // namespace tw

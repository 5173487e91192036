// LayerGraph: what a model computes, layer by layer, before any plan. Vertices are the units that pipeline
// partitioning may not cut (an embedding, a transformer block, a head; a profiled layer); edges are the
// tensors between them, so the bytes that cross a pipeline cut follow from the graph (T5's encoder output, a
// CNN's skip connections).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/graph/adjacency_list.hpp>

#include "base/result.hpp"
#include "models/graph/op.hpp"

namespace tw {

// How one rank runs a layer: everything about a plan that changes a layer's own kernels, sizes or
// collectives.
struct WorkShape {
    std::int64_t microbatch = 1;  // sequences (or images)
    std::int64_t seq_len = 2048;
    int tp = 1, cp = 1, ep = 1, etp = 1;  // etp: tensor parallel of experts
    bool sequence_parallel = false;       // Korthikanti 2022; only where tp > 1
    enum class Cp : std::uint8_t { Ring, AllToAll } cp_kind = Cp::Ring;
    Precision precision = Precision::Bf16;  // of matrix products and activations
    AttentionKernel attention = AttentionKernel::Flash2;
    bool dropout = false;  // dropout masks kept and applied (hidden and attention)
    bool fused_elementwise =
        true;               // bias-gelu, bias-dropout-add, softmax fused (Megatron); false: one kernel an op
    bool autocast = false;  // fp32 parameters cast at use (torch.autocast): cast ops and cached casts
    // FSDP gathers the parameters in the compute precision (MixedPrecision's param_dtype): torch.autocast has
    // none to cast and keeps no copy, and the residual stream is in that precision.
    bool gathered_parameters = false;
    bool grad_accumulation_fused =
        true;                   // wgrad GEMM adds into fp32 main gradients (Megatron); else separate kernels
    bool gradient_fp32 = true;  // gradients accumulated in fp32 (4 bytes), else in `precision`
    // RMS norms as transformers' LlamaRMSNorm writes them: an fp32 copy of 16-bit inputs and the normalised
    // product are kept for the backward.
    bool composite_norms = false;
    // Norms read an fp32 copy of their 16-bit input that nobody keeps: copy and norm run again in the
    // backward.
    bool norms_of_copies = false;
    // Separate: logits, their fp32 copy and its gradient are three tensors. InPlace: the copy turns into
    // probabilities and those into the gradient. Fused: one kernel on the logits, which turn into their
    // gradient. LogSoftmax: PyTorch's eager cross entropy of the fp32 copy, of logits that are let go before
    // the backward, whatever runs compiled around it.
    enum class Loss : std::uint8_t { Separate, InPlace, Fused, LogSoftmax } loss = Loss::Separate;
    std::int64_t padded_vocab =
        0;  // rows of the embedding and the head, all ranks together; 0: the model's own
    // How tokens reach their experts: a message for each, or one for a node (NodeSpread).
    enum class ExpertDispatch : std::uint8_t { AllToAll, PerNode } expert_dispatch = ExpertDispatch::AllToAll;
    double expert_imbalance = 1.0;  // tokens of the most loaded expert-parallel rank over the mean, >= 1
    bool by_op = false;             // fill in what recomputation by operation needs (RecomputeByOp)
    RecomputeModules modules = {};  // what RecomputeMode::Modules runs again

    friend bool operator==(const WorkShape&, const WorkShape&) = default;
};

// An activation kept from forward to backward, per microbatch and rank.
struct SavedTensor {
    std::string name;
    double bytes = 0;
    // What recompute frees: Boundary is the layer's input, kept even by full recompute; Selective is dropped
    // by selective and full recompute (the attention core); Full is dropped by full recompute alone; Restart
    // is a layer's input that the backward does not read, kept by full recompute alone.
    enum class Keep : std::uint8_t { Boundary, Full, Selective, Restart } keep = Keep::Full;
    RecomputeModules modules = {};  // whose recomputation drops it
};

// Recomputation operation by operation: the outputs of fused attention, of the reduce-scatters of sequence
// parallelism and of every other matrix product are kept, everything else runs again (torchtitan,
// parallelize_llama.py, _save_list and _get_custom_policy: selective_ac_option = 'op').
struct RecomputeByOp {
    std::vector<Op> again;  // forward operations of the backward pass, in execution order
    double kept_bytes = 0;  // outputs, beside the tensors of Keep::Boundary
};

struct LayerWork {
    std::vector<Op> forward;   // in execution order
    std::vector<Op> backward;  // in execution order; phase tells input and weight gradients apart
    std::vector<SavedTensor> saved;
    double transient_forward_bytes = 0;     // largest temporaries alive inside the layer beyond `saved`
    double transient_backward_bytes = 0;    // (fp32 logits and their gradient in the head)
    double loose_bytes = 0;                 // holes among the temporaries that no tensor of the layer fits
    std::int64_t largest_weight = 0;        // parameters of the largest tensor
    std::int64_t dense_parameters = 0;      // held by one rank, sharded over tp; gradients reduced over dp*cp
    std::int64_t expert_parameters = 0;     // held by one rank, sharded over ep and etp; reduced over edp
    std::int64_t quantised_parameters = 0;  // of both, weights of the products that run in fp8 or nvfp4
    std::optional<RecomputeByOp> by_op;     // of blocks, where WorkShape::by_op asks for it
    RecomputeModules modules = {};          // WorkShape's, where the layer is one that recomputes
};

// A layer's arithmetic. One implementation a layer type (models/families); stateless and thread-safe.
class LayerModel {
  public:
    virtual ~LayerModel() = default;
    [[nodiscard]] virtual LayerWork work(const WorkShape& shape) const = 0;
    // Parameters of the whole layer, unsharded: exact, equal to the published count summed over the model.
    [[nodiscard]] virtual std::int64_t parameters() const = 0;
    // Parameters one token uses (MoE: top-k of the experts); equal to parameters() for dense layers.
    [[nodiscard]] virtual std::int64_t active_parameters() const { return parameters(); }
    // Forward matrix-product FLOPs of one microbatch, unsharded, by Megatron's convention: head included,
    // embedding look-up not, causal attention halved where `causal_half`. MFU = 3 x this x microbatches /
    // time / peak.
    [[nodiscard]] virtual FlopCount model_flops(std::int64_t microbatch, std::int64_t seq_len,
                                                bool causal_half) const = 0;
    // Tensor-parallel degrees that are legal: every quantity that tp must divide, as (name, value) pairs; kv
    // heads may be replicated (Megatron: kv % tp == 0 or tp % kv == 0).
    struct Divisibility {
        std::string name;  // "num_attention_heads"
        std::int64_t value = 0;
        enum class Rule : std::uint8_t { TpDivides, TpDividesOrMultiple, EpDivides } rule = Rule::TpDivides;
    };
    [[nodiscard]] virtual std::vector<Divisibility> divisibility() const { return {}; }
};

enum class LayerRole : std::uint8_t { Embedding, Block, Head, Other };

struct Layer {
    std::string name;  // "embedding", "block.0", "head"
    LayerRole role = LayerRole::Block;
    int layer_class =
        0;  // equal class: equal arithmetic; dense numbers from 0, so that work is computed once a class
    std::shared_ptr<const LayerModel> model;
};

struct TensorEdge {
    double elements_per_token = 0;  // boundary activation: elements per token (or per image, CNNs)
};

using LayerDag = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Layer, TensorEdge>;

// The model as the planner sees it. Vertices are stored in execution order: vertex i never depends on a later
// one.
struct LayerGraph {
    std::string name;
    std::string family;  // "llama", "gpt", "moe", ... (a key of the family registry)
    LayerDag dag;
    std::int64_t hidden = 0, vocab = 0, heads = 0, kv_heads = 0, experts = 0;
    std::int64_t blocks = 0;  // what users call layers: vertices with role Block
    std::int64_t default_seq_len = 2048;
    bool causal = true;
    bool tied_embeddings =
        false;  // head reuses the embedding's rows: with pp > 1 both ends hold them and all-reduce
    std::int64_t tied_parameters = 0;  // counted once in parameters()
    // Of the table that multi-token-prediction modules look up beside the embedding; 0: there are none. A
    // stage that has them without the embedding holds it again (Megatron-LM core/models/gpt/gpt_model.py:
    // pre_process or mtp_process).
    std::int64_t mtp_table_parameters = 0;
    bool counts_tokens = true;  // false: samples are images (CNN profiles), "tokens" are images
    // Set where the graph came from measurements on one device (PipeDream profiles): kernels carry seconds.
    std::string measured_on;

    [[nodiscard]] int size() const { return static_cast<int>(boost::num_vertices(dag)); }
    [[nodiscard]] const Layer& layer(int i) const { return dag[static_cast<LayerDag::vertex_descriptor>(i)]; }
    [[nodiscard]] int layer_classes() const;  // 1 + the largest layer_class
    // The parts that some of its layers have, so that a plan may recompute them.
    [[nodiscard]] RecomputeModules recompute_modules() const;
    [[nodiscard]] std::int64_t parameters() const;
    [[nodiscard]] std::int64_t active_parameters() const;
    // Parameters that both ends of a pipeline hold, so that their gradients are all-reduced: a tied table, or
    // the copy beside multi-token-prediction modules (Megatron-LM core/distributed/finalize_model_grads.py,
    // _allreduce_word_embedding_grads; language_module.py, setup_embeddings_and_output_layer).
    [[nodiscard]] std::int64_t shared_by_ends() const {
        return tied_embeddings ? tied_parameters : mtp_table_parameters;
    }
    [[nodiscard]] FlopCount model_flops(std::int64_t microbatch, std::int64_t seq_len,
                                        bool causal_half = true) const;
    // Bytes of all tensors that cross the cut before vertex `cut` (1 <= cut < size()), per microbatch and
    // rank.
    [[nodiscard]] double cut_bytes(int cut, const WorkShape& shape) const;
};

// Rows of the embedding after padding: ceil(vocab / (divisor * tp)) * divisor * tp (Megatron
// _vocab_size_with_padding).
std::int64_t padded_vocab(std::int64_t vocab, std::int64_t divisor, int tp);

}  // namespace tw

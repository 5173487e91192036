#include "plan/stage_program/layer_sheet.hpp"

#include <algorithm>

#include "plan/frameworks/executor_work.hpp"
#include "plan/stage_program/stage_program.hpp"

namespace tw {
namespace {

PassSheet sum_of(const std::vector<Op>& ops, Phase phase) {
    PassSheet sum;
    for (const Op& op : ops) {
        if (op.phase != phase) continue;
        if (const auto* call = std::get_if<CollectiveOp>(&op.body)) {
            sum.collective_bytes[static_cast<std::size_t>(call->axis)] += call->bytes;
            continue;
        }
        const bool bound_by_memory = std::holds_alternative<MemoryOp>(op.body);
        (bound_by_memory ? sum.other_flops : sum.product_flops) += op_flops(op).value;
        sum.bytes += op_bytes(op);
    }
    return sum;
}

// "block.0-79" of neighbours; with gaps the first and the last.
std::string name_of(const LayerGraph& graph, const std::vector<int>& layers) {
    const std::string& first = graph.layer(layers.front()).name;
    const std::string& last = graph.layer(layers.back()).name;
    if (layers.size() == 1) return first;
    if (static_cast<std::size_t>(layers.back() - layers.front()) + 1 != layers.size())
        return first + (layers.size() > 2 ? ", ... " : ", ") + last;
    const std::size_t stem = first.rfind('.');
    const bool same = stem != std::string::npos && last.compare(0, stem + 1, first, 0, stem + 1) == 0;
    return first + "-" + (same ? last.substr(stem + 1) : last);
}

}  // namespace

double PassSheet::all_collective_bytes() const {
    double sum = 0;
    for (const double bytes_of_axis : collective_bytes)
        sum += bytes_of_axis;
    return sum;
}

PassSheet& PassSheet::operator+=(const PassSheet& other) {
    product_flops += other.product_flops;
    other_flops += other.other_flops;
    bytes += other.bytes;
    for (std::size_t a = 0; a < collective_bytes.size(); ++a)
        collective_bytes[a] += other.collective_bytes[a];
    return *this;
}

std::vector<LayerSheet> layer_sheets(const LayerGraph& graph, const WorkShape& shape, bool own_executor) {
    WorkShape wanted = shape;
    wanted.by_op = true;
    std::vector<LayerWork> works;
    if (own_executor) {
        for (ExecutorLayer& layer : executor_layers(graph, wanted))
            works.push_back(std::move(layer.work));
    } else {
        works = layer_works(graph, wanted);
    }
    std::vector<LayerSheet> sheets;
    std::vector<int> sheet_of(works.size(), -1);
    for (int i = 0; i < graph.size(); ++i) {
        const Layer& layer = graph.layer(i);
        const auto c = static_cast<std::size_t>(layer.layer_class);
        if (sheet_of[c] < 0) {
            sheet_of[c] = static_cast<int>(sheets.size());
            LayerSheet& sheet = sheets.emplace_back();
            sheet.role = layer.role;
            sheet.parameters = layer.model->parameters();
            sheet.active_parameters = layer.model->active_parameters();
            sheet.model_flops = layer.model->model_flops(shape.microbatch, shape.seq_len, graph.causal);
            sheet.work = std::move(works[c]);
            sheet.forward = sum_of(sheet.work.forward, Phase::Forward);
            sheet.input_gradient = sum_of(sheet.work.backward, Phase::BackwardInput);
            sheet.weight_gradient = sum_of(sheet.work.backward, Phase::BackwardWeight);
        }
        sheets[static_cast<std::size_t>(sheet_of[c])].layers.push_back(i);
    }
    for (LayerSheet& sheet : sheets)
        sheet.name = name_of(graph, sheet.layers);
    return sheets;
}

std::vector<WorkFormula> work_formulas(const LayerGraph& graph, const WorkShape& shape) {
    std::vector<WorkFormula> formulas{
        {"product", "2 m n k FLOP; e (m k + k n + m n) bytes, 8 an output that adds to an fp32 gradient",
         "Narayanan et al. 2021 (arXiv 2104.04473), appendix; Megatron-LM core/tensor_parallel/layers.py"},
        {"its forms",
         "forward tokens x outputs x inputs; input gradient tokens x inputs x outputs; weight "
         "gradient outputs x inputs x tokens",
         "Narayanan et al. 2021, appendix: backward is two products of the same size"},
        {"model FLOP", "products of the whole layer, forward; a causal attention counts half",
         "Megatron-LM training/training.py, num_floating_point_operations"},
        {"other kernels", "bytes read and written once by each kernel of the framework",
         "models/families, beside each kernel"}};
    if (graph.heads > 0) {
        if (shape.attention == AttentionKernel::Unfused) {
            formulas.push_back({"attention core", "two batched products, softmax between them; s x s kept",
                                "Korthikanti et al. 2022 (arXiv 2205.05198), section 4.1"});
        } else {
            formulas.push_back({"attention core",
                                "2 b heads pairs (d_qk + d_v) FLOP, backward 2.5 times; keeps its statistics",
                                "Dao et al. 2022 (arXiv 2205.14135), algorithm 1; Dao 2023 (2307.08691)"});
        }
        formulas.push_back({"activations",
                            "what each operation's backward reads; in 16 bits with dropout "
                            "sbh (34 + 5 a s / h) a layer of GPT's",
                            "Korthikanti et al. 2022 (arXiv 2205.05198), equations 1, 2 and 4"});
    }
    if (shape.tp > 1) {
        formulas.push_back(
            {"tensor parallel",
             shape.sequence_parallel
                 ? "all-gather into a region, reduce-scatter out of it; norms and dropout split"
                 : "all-reduce out of a region forward, into it backward",
             "Korthikanti et al. 2022, figures 4 and 5"});
    }
    if (shape.cp > 1) {
        if (shape.cp_kind == WorkShape::Cp::Ring) {
            formulas.push_back({"context parallel", "keys and values go round a ring beside the core",
                                "Liu et al. 2023, Ring Attention (arXiv 2310.01889)"});
        } else {
            formulas.push_back({"context parallel", "all-to-all of q, k, v and of the core's output",
                                "Jacobs et al. 2023, DeepSpeed Ulysses (arXiv 2309.14509)"});
        }
    }
    if (graph.experts > 0) {
        formulas.push_back({"experts", "tokens x top k rows travel twice through an all-to-all over ep",
                            "Megatron-LM core/transformer/moe/token_dispatcher.py"});
    }
    if (graph.vocab > 0) {
        formulas.push_back({"loss", "fp32 logits, their copy and its gradient as the framework keeps them",
                            "Megatron-LM core/tensor_parallel/cross_entropy.py; models/families/head.cpp"});
    }
    return formulas;
}

}  // namespace tw

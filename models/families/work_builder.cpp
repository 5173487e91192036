#include "models/families/work_builder.hpp"

#include <algorithm>
#include <utility>

namespace tw {
namespace {

double d(std::int64_t v) {
    return static_cast<double>(v);
}

// Moved by the kernels that cast an element of 16 bits. To fp8 it is read once. To nvfp4 it is read for its
// largest value, plain and behind a random Hadamard transform, for the cast along rows, and for the one along
// columns, which is transformed (Transformer Engine pytorch/csrc/quantizer.cpp, NVFP4Quantizer::quantize_impl
// with the recipe's defaults; later versions fuse the last two).
double cast_bytes(Precision to) {
    constexpr double kRead = 2;
    return to == Precision::Nvfp4 ? 3 * kRead + 2 * bytes_per_element(to) : kRead + bytes_per_element(to);
}

}  // namespace

WorkBuilder::WorkBuilder(const WorkShape& s) : shape(s) {
    tokens = ceil_div(s.microbatch * s.seq_len, s.cp);
    tensor_parallel = s.tp > 1;
    sequence_parallel = tensor_parallel && s.sequence_parallel;
    rows = sequence_parallel ? ceil_div(tokens, s.tp) : tokens;
    e = activation_bytes(s.precision);
    casts = s.autocast && !s.gathered_parameters;
    r = casts ? 4 : e;
    gemm_input = bytes_per_element(s.precision);
    work.modules = s.modules;
    work.forward.reserve(40);
    work.backward.reserve(64);
    work.saved.reserve(20);
}

Op& WorkBuilder::push(const char* name) {
    std::vector<Op>& list = phase_ == Phase::Forward ? work.forward : work.backward;
    Op& op = list.emplace_back();
    op.name = name;
    op.phase = phase_;
    op.recompute = recompute_;
    if (phase_ == Phase::Forward) op.modules = modules_;
    op.joins = join_next_;
    join_next_ = false;
    return op;
}

void WorkBuilder::push_gemm(const char* name, Gemm gemm) {
    gemm.accumulate = phase_ == Phase::BackwardWeight && shape.grad_accumulation_fused && shape.gradient_fp32;
    push(name).body = gemm;
}

void WorkBuilder::gemm(const char* name, std::int64_t m, std::int64_t n, std::int64_t k, GemmForm form,
                       std::int64_t batch) {
    push_gemm(name, {m, n, k, batch, 1, form, activation_precision(shape.precision)});
}

void WorkBuilder::cast_before_gather() {
    std::vector<Op>& list = phase_ == Phase::Forward ? work.forward : work.backward;
    if (list.size() < 2) return;
    Op& cast = list.back();
    Op& before = list[list.size() - 2];
    const auto* gather = std::get_if<CollectiveOp>(&before.body);
    if (gather == nullptr || gather->kind != CollectiveKind::AllGather || gather->axis != Axis::Tp ||
        gather->overlaps || before.phase != cast.phase)
        return;
    std::swap(cast, before);
    std::swap(cast.joins, before.joins);
}

void WorkBuilder::product(const Linear& l, std::int64_t m, GemmForm form, std::int64_t groups) {
    const bool narrow = l.quantised && quantised(shape.precision);
    const bool forward = form == GemmForm::Forward;
    if (narrow && forward) work.quantised_parameters += groups * l.local_n * l.local_k;
    if (narrow && form != GemmForm::WeightGrad) {
        memory(l.name, MemoryOpKind::Cast,
               cast_bytes(shape.precision) * d(m) * d(groups) * d(forward ? l.local_k : l.local_n));
        if (forward) work.forward.back().modules.add(input_of_);
        cast_before_gather();
    }
    if (forward) input_of_ = {};
    Gemm g{m,
           l.local_n,
           l.local_k,
           1,
           groups,
           form,
           narrow ? shape.precision : activation_precision(shape.precision)};
    if (form == GemmForm::InputGrad) std::swap(g.n, g.k);
    if (form == GemmForm::WeightGrad) {
        g.m = l.local_n, g.n = l.local_k, g.k = m;
    }
    push_gemm(l.name, g);
}

void WorkBuilder::memory(const char* name, MemoryOpKind kind, double bytes, double flops,
                         double host_dispatches) {
    Op& op = push(name);
    op.body = MemoryOp{kind, bytes, flops, phase_ != Phase::Forward, shape.precision};
    op.host_dispatches = host_dispatches;
}

void WorkBuilder::attention(const char* name, const Attention& a) {
    push(name).body = a;
}

void WorkBuilder::collective(const char* name, CollectiveKind kind, Axis axis, double bytes, bool overlaps) {
    collective(name, CollectiveOp{kind, axis, bytes, overlaps});
}

void WorkBuilder::collective(const char* name, const CollectiveOp& call) {
    push(name).body = call;
}

void WorkBuilder::gather(const char* name, std::int64_t width, bool quantised) {
    if (sequence_parallel)
        collective(name, CollectiveKind::AllGather, Axis::Tp,
                   d(tokens) * d(width) * (quantised ? gemm_input : e));
}

void WorkBuilder::reduce(const char* name, std::int64_t width) {
    if (!tensor_parallel) return;
    collective(name, sequence_parallel ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce, Axis::Tp,
               d(tokens) * d(width) * e);
}

void WorkBuilder::linear_forward(const Linear& l, std::int64_t m) {
    if (casts) {
        // torch.autocast: the fp32 weight is cast at its first use of a step and the copy kept until the
        // step's end.
        memory(l.name, MemoryOpKind::Cast, 6 * d(l.local_parameters()));
        save(l.name, 2 * d(l.local_parameters()), SavedTensor::Keep::Full);
    }
    product(l, m, GemmForm::Forward);
    work.largest_weight = std::max(work.largest_weight, l.local_n * l.local_k);
    if (shape.by_op) {
        products_.resize(work.forward.size());
        products_.back() = l.products;
    }
}

void WorkBuilder::linear_backward(const Linear& l, std::int64_t m, bool reduce_input) {
    const bool reduces = reduce_input && tensor_parallel;
    if (reduces && sequence_parallel) {
        collective(l.name, CollectiveKind::AllGather, Axis::Tp,
                   d(tokens) * d(l.k) * (l.quantised ? gemm_input : e), true);
    }
    product(l, m, GemmForm::InputGrad);
    if (reduces) {
        if (sequence_parallel) join_next();
        collective(l.name, sequence_parallel ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce,
                   Axis::Tp, d(tokens) * d(l.k) * e, true);
    }
    set_phase(Phase::BackwardWeight);
    product(l, m, GemmForm::WeightGrad);
    if (l.bias > 0) memory(l.name, MemoryOpKind::Other, d(m) * d(l.local_bias) * e);
    weight_grad_extras(l);
    set_phase(Phase::BackwardInput);
    if (reduces) join_next();
}

void WorkBuilder::weight_grad_extras(const Linear& l, std::int64_t copies) {
    const double parameters = d(l.local_parameters()) * d(copies);
    if (casts) {
        memory(l.name, MemoryOpKind::Cast,
               6 * parameters);  // the gradient of the cast: bf16 read, fp32 written
    } else if (!shape.grad_accumulation_fused) {
        // Read the new gradient, read and write the sum.
        const double sum = shape.gradient_fp32 ? 4 : e;
        memory(l.name, MemoryOpKind::GradAccumulate, parameters * (e + 2 * sum));
    } else if (!shape.gradient_fp32) {
        // The product reads the 16-bit sum that it adds to.
        memory(l.name, MemoryOpKind::GradAccumulate, parameters * e, 0, 0);
    }
}

void WorkBuilder::save(const char* name, double bytes, SavedTensor::Keep keep) {
    if (bytes > 0) work.saved.push_back({name, bytes, keep, modules_});
}

void WorkBuilder::save_norm_stats(const char* name, const NormSpec& norm, std::int64_t row_count) {
    if (unfused()) save(name, d(row_count) * (norm.kind == NormKind::Layer ? 8 : 4), SavedTensor::Keep::Full);
}

void WorkBuilder::norm_forward(const char* name, const NormSpec& norm, std::int64_t width) {
    const double elements = d(rows) * d(width);
    // A decomposed RMS norm is six framework operations (power, mean, add, rsqrt, two products); a layer norm
    // is one.
    // Their bytes in fp32: the square 8, the mean 4, the two products 16; of 16-bit elements also the casts
    // to fp32 and back, 6 each, and 4 less for the last product (PyTorch aten/src/ATen/native/layer_norm.cpp,
    // rms_norm, composite until 2.8; transformers modeling_llama.py, LlamaRMSNorm).
    if (unfused() && norm.kind == NormKind::Rms) {
        memory(name, MemoryOpKind::Other, (r < 4 ? 36 : 28) * elements, 5 * elements, 6);
    } else if (shape.norms_of_copies) {
        norm_of_copy(name, elements);
    } else {
        memory(name, MemoryOpKind::Norm, 2 * r * elements, 5 * elements);
    }
    if (casts) memory(name, MemoryOpKind::Cast, (r + e) * elements);
}

void WorkBuilder::norm_of_copy(const char* name, double elements) {
    memory(name, MemoryOpKind::Cast, (r + 4) * elements);
    memory(name, MemoryOpKind::Norm, (4 + e) * elements, 5 * elements);
}

void WorkBuilder::norm_backward(const char* name, const NormSpec& norm, std::int64_t width,
                                const char* add_name) {
    const double elements = d(rows) * d(width);
    if (casts) memory(name, MemoryOpKind::Cast, (r + e) * elements);
    // Decomposed, in fp32: the weight's product 8 for the input, 12 and 4 for the weight; the other product 8
    // for the input, 12 and 4 for the factor; the square 12; the sum of both paths 12. 16-bit elements halve
    // the first three and add two casts of 6.
    if (unfused() && norm.kind == NormKind::Rms) {
        memory(name, MemoryOpKind::Other, 72 * elements, 8 * elements, 9);
    } else if (shape.norms_of_copies) {
        const std::size_t first = work.backward.size();
        norm_of_copy(name, elements);
        for (std::size_t i = first; i < work.backward.size(); ++i)
            work.backward[i].unless_recomputed = true;
        memory(name, MemoryOpKind::Norm, (e + 8) * elements, 8 * elements);  // x and dx in fp32
        memory(name, MemoryOpKind::Cast, (4 + r) * elements);
    } else {
        memory(name, MemoryOpKind::Norm, 3 * r * elements, 8 * elements);  // dy and x read, dx written
    }
    if (add_name != nullptr) memory(add_name, MemoryOpKind::Add, 3 * r * elements);
}

void WorkBuilder::residual_forward(const char* name, std::int64_t width) {
    const double elements = d(rows) * d(width);
    const double mask = shape.dropout ? 1 : 0;
    if (shape.fused_elementwise) {
        memory(name, MemoryOpKind::BiasDropoutAdd, (e + 2 * r + mask) * elements);
        return;
    }
    if (shape.dropout) memory(name, MemoryOpKind::Dropout, (2 * e + mask) * elements);
    memory(name, MemoryOpKind::Add, (e + 2 * r) * elements);
}

void WorkBuilder::residual_backward(const char* name, std::int64_t width) {
    const double elements = d(rows) * d(width);
    if (casts) memory(name, MemoryOpKind::Cast, (r + e) * elements);
    if (shape.dropout) memory(name, MemoryOpKind::Dropout, (2 * e + 1) * elements);
}

void WorkBuilder::separate_inputs_forward(const char* name, int modules, std::int64_t width) {
    const double more = modules - 1;
    if (!unfused() || !casts || more <= 0) return;
    memory(name, MemoryOpKind::Cast, more * (r + e) * d(rows) * d(width), 0, more);
    save_rows(name, width, more * gemm_input, SavedTensor::Keep::Full);
}

void WorkBuilder::separate_inputs_backward(const char* name, int modules, std::int64_t width) {
    const double more = modules - 1;
    if (!unfused() || more <= 0) return;
    const double elements = more * d(rows) * d(width);
    if (casts) memory(name, MemoryOpKind::Cast, (r + e) * elements, 0, more);
    memory(name, MemoryOpKind::Add, 3 * r * elements, 0, more);
}

void WorkBuilder::recompute_by_op() {
    if (!shape.by_op) return;
    RecomputeByOp by_op;
    products_.resize(work.forward.size());
    int products = 0;  // counted over the block; every second one runs again
    // The outputs that nothing in the backward reads (of the projections that end a branch) are kept by an
    // eager policy and dropped by a compiler (functorch/partitioners.py saves what the backward needs).
    const auto ends_branch = [&](std::size_t i) {
        for (std::size_t k = i + 1; k < work.forward.size(); ++k) {
            if (std::holds_alternative<CollectiveOp>(work.forward[k].body)) continue;
            const auto* next = std::get_if<MemoryOp>(&work.forward[k].body);
            return next != nullptr &&
                   (next->kind == MemoryOpKind::BiasDropoutAdd || next->kind == MemoryOpKind::Add ||
                    next->kind == MemoryOpKind::Dropout);
        }
        return true;
    };
    for (std::size_t i = 0; i < work.forward.size(); ++i) {
        const Op& op = work.forward[i];
        if (op.recompute == RecomputeLevel::None) continue;
        if (const auto* a = std::get_if<Attention>(&op.body)) {
            const double queries = d(a->batch) * d(a->heads) * d(a->seq_q);
            by_op.kept_bytes += queries * (d(a->head_dim_v) * e + 4);  // and the softmax's statistics
            continue;
        }
        if (const auto* c = std::get_if<CollectiveOp>(&op.body);
            c != nullptr && c->kind == CollectiveKind::ReduceScatter) {
            if (unfused() || !ends_branch(i)) by_op.kept_bytes += c->bytes / shape.tp;
            continue;
        }
        const auto* g = std::get_if<Gemm>(&op.body);
        if (g == nullptr || g->batch > 1 || g->groups > 1) {  // batched and grouped products have other names
            by_op.again.push_back(op);
            continue;
        }
        std::array<std::int64_t, 3> parts = products_[i];
        if (parts[0] == 0) parts[0] = g->n;
        std::int64_t again = 0;
        for (const std::int64_t n : parts) {
            if (n == 0) continue;
            if (++products % 2 == 0) {
                again += n;
            } else if (unfused() || !ends_branch(i)) {
                by_op.kept_bytes += d(g->m) * d(n) * e;
            }
        }
        if (again == 0) continue;
        Op part = op;
        std::get<Gemm>(part.body).n = again;
        by_op.again.push_back(std::move(part));
    }
    work.by_op = std::move(by_op);
}

void WorkBuilder::never_recomputed() {
    for (Op& op : work.forward)
        op.recompute = RecomputeLevel::None;
    work.modules = {};
    for (SavedTensor& tensor : work.saved)
        tensor.keep = SavedTensor::Keep::Boundary;
}

}  // namespace tw

#include "sim/validate/ablate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

namespace tw {
namespace {

// True where the value differed.
template <class T>
bool set(T& field, T neutral) {
    const bool changed = field != neutral;
    field = neutral;
    return changed;
}

using F = FrameworkDefaults;
using Change = bool (*)(F&);

struct Choice {
    std::string_view name, neutral;
    Change change;  // says whether the row had another value
};

constexpr AttentionKernel kFlash2 = AttentionKernel::Flash2;

// Neutral: what a plain PyTorch loop without options does.
constexpr std::array kChoices = {
    Choice{"attention kernel", "FlashAttention-2 everywhere",
           [](F& f) {
               const bool a = set(f.attention, kFlash2), b = set(f.flash, kFlash2);
               return set(f.flash_hopper, kFlash2) || a || b;
           }},
    Choice{"fused element-wise kernels", "one kernel an operation",
           [](F& f) { return set(f.fused_elementwise, false); }},
    Choice{"compiled", "eager", [](F& f) { return set(f.compiled, false); }},
    Choice{"dropout", "none", [](F& f) { return set(f.dropout, false); }},
    Choice{"loss", "three tensors of logits", [](F& f) { return set(f.loss, WorkShape::Loss::Separate); }},
    Choice{"autocast", "off", [](F& f) { return set(f.autocast, false); }},
    Choice{"gradient accumulation in the product", "a kernel of its own",
           [](F& f) { return set(f.grad_accumulation_fused, false); }},
    Choice{"fp32 gradients", "in the parameters' precision",
           [](F& f) { return set(f.gradient_fp32, false); }},
    Choice{"gradients sent in fp32", "in the compute precision",
           [](F& f) { return set(f.reduce_fp32, false); }},
    Choice{"fp32 optimizer", "fp32 states and master weights",
           [](F& f) { return set(f.fp32_optimizer, true); }},
    Choice{"fp32 parameters", "in the compute precision", [](F& f) { return set(f.fp32_parameters, false); }},
    Choice{"gradient buffer", "gradients made and freed", [](F& f) { return set(f.gradient_buffer, false); }},
    Choice{"allocations of the optimizer's step", "none", [](F& f) { return set(f.step_bytes, 0.0); }},
    Choice{"ZeRO stage", "0", [](F& f) { return set(f.zero_stage, 0); }},
    Choice{"gradient bucket", "25 MiB",
           [](F& f) {
               const bool a = set(f.bucket_bytes, 25.0 * 1024 * 1024);
               return set(f.bucket_parameters_per_dp, 0.0) || a;
           }},
    Choice{"overlap of gradients", "none", [](F& f) { return set(f.overlap_grad_reduce, false); }},
    Choice{"overlap of parameters", "none", [](F& f) { return set(f.overlap_param_gather, false); }},
    Choice{"overlap of pipeline transfers", "none", [](F& f) { return set(f.overlap_p2p, false); }},
    Choice{"overlap of tensor-parallel communication", "none", [](F& f) { return set(f.overlap_tp, false); }},
    Choice{"pipeline transfers that block", "posted",
           [](F& f) { return set(f.p2p_calls, LoweringOptions::P2pCalls::Posted); }},
    Choice{"sizes of the batch read back", "not",
           [](F& f) { return set(f.batch_read_back, StageSet::None); }},
    Choice{"scatter and gather of transfers", "every rank sends all",
           [](F& f) { return set(f.scatter_gather, false); }},
    Choice{"sequence parallel", "off", [](F& f) { return set(f.sequence_parallel, false); }},
    Choice{"recomputation", "none", [](F& f) { return set(f.full_recompute, false); }},
    Choice{"padded vocabulary", "the model's own rows",
           [](F& f) { return set(f.vocab_divisor, std::int64_t{1}); }},
    Choice{"the host beside layers", "a transfer a dispatch",
           [](F& f) { return set(f.host_extras, HostExtras{}); }},
    Choice{"heads", "of 128", [](F& f) { return set(f.heads, std::int64_t{0}); }},
    Choice{"vocabulary", "GPT-2's, 50257", [](F& f) { return set(f.vocab, std::int64_t{50257}); }},
};

constexpr double kFree = 1e30;  // bytes/s

void free_kernels(HardwareProfile& profile, std::initializer_list<MemoryOpKind> kinds) {
    for (const MemoryOpKind kind : kinds) {
        std::erase_if(profile.memory_ops, [&](const MemoryEntry& e) { return e.kind == kind; });
        MemoryEntry none;
        none.kind = kind;
        none.efficiency = 1e15;
        profile.memory_ops.push_back(none);
    }
}

struct Mechanism {
    std::string_view name, neutral;
    void (*change)(ValidationCase&, PredictOptions&);
};
using Case = ValidationCase;
using Options = PredictOptions;

// A constant share of the peak that simple models take (Narayanan et al. 2021, table 1: 44 to 52 % of a whole
// step; of a product's own time, three quarters).
constexpr double kPlainEfficiency = 0.75;

constexpr std::array kMechanisms = {
    Mechanism{"tiles, waves and latency of products", "75 % of the peak, or the memory's rate",
              [](Case& c, Options&) {
                  const Device& device = c.cluster.groups.front().device;
                  for (GemmEntry& e : c.profile.gemm) {
                      GemmCurve plain;
                      plain.rate = kPlainEfficiency * device.peak(e.precision).value;
                      plain.bandwidth = device.memory_bandwidth.value;
                      plain.blend = 20;
                      plain.slack = 1;
                      plain.sms = e.curve.sms;
                      plain.largest_tile = e.curve.largest_tile;
                      e.curve = plain;
                      e.residual = {};
                  }
                  c.profile.sustained = {};
              }},
    Mechanism{"residual grid of products", "the curve alone",
              [](Case& c, Options&) {
                  for (GemmEntry& e : c.profile.gemm)
                      e.residual = {};
              }},
    Mechanism{"gradient forms of products", "as the forward",
              [](Case& c, Options&) { c.profile.gemm_forms.clear(); }},
    Mechanism{"sustained clocks", "no throttling",
              [](Case& c, Options&) {
                  c.profile.sustained = {};
                  for (GemmEntry& e : c.profile.gemm)
                      e.curve.throttle = 0;
                  for (AttentionEntry& e : c.profile.attention)
                      e.curve.throttle = 0;
              }},
    Mechanism{"alignment of products", "no loss",
              [](Case& c, Options&) {
                  for (GemmEntry& e : c.profile.gemm)
                      e.curve.unaligned = e.curve.scalar = 1;
              }},
    Mechanism{"memory-bound kernels", "free",
              [](Case& c, Options&) {
                  c.profile.memory_ops.clear();
                  c.profile.memory = {0, kFree, kFree, 0};
              }},
    Mechanism{"classes of memory-bound kernels", "all as a copy",
              [](Case& c, Options&) { c.profile.memory_ops.clear(); }},
    Mechanism{"softmax and dropout", "free",
              [](Case& c, Options&) {
                  free_kernels(c.profile, {MemoryOpKind::Softmax, MemoryOpKind::Dropout});
              }},
    Mechanism{"cross-entropy", "free",
              [](Case& c, Options&) { free_kernels(c.profile, {MemoryOpKind::CrossEntropy}); }},
    Mechanism{"optimizer", "free",
              [](Case& c, Options&) { free_kernels(c.profile, {MemoryOpKind::Optimizer}); }},
    Mechanism{"host dispatch", "free", [](Case& c, Options&) { c.profile.host.clear(); }},
    Mechanism{"measured collectives", "NCCL's model alone",
              [](Case& c, Options&) { c.profile.collectives.clear(); }},
    Mechanism{"tensor- and context-parallel communication", "free",
              [](Case&, Options& o) {
                  o.free_axes = {Axis::Tp, Axis::Cp};
              }},
    Mechanism{"expert-parallel communication", "free",
              [](Case&, Options& o) {
                  o.free_axes = {Axis::Ep, Axis::Etp};
              }},
    Mechanism{"data-parallel communication", "free",
              [](Case&, Options& o) {
                  o.free_axes = {Axis::Dp, Axis::Edp};
              }},
    Mechanism{"pipeline transfers", "free", [](Case&, Options& o) { o.free_axes = {Axis::Pp}; }},
    Mechanism{"pipeline bubble", "none", [](Case&, Options& o) { o.bubble = false; }},
};

bool moved(double a, double b) {
    return std::abs(a - b) > 1e-3 * std::abs(b);
}

class Ablator {
  public:
    explicit Ablator(const ValidationReport& report) : report_(report) {
        for (const ValidationRow& row : report.rows) {
            if (row.compared && (row.has_time() || row.has_memory())) rows_.push_back(&row);
        }
    }

    AblationReport run() {
        AblationReport all;
        all.base =
            score([](const ValidationRow& row) { return std::optional<Prediction>(row.blind); }, nullptr);
        for (const Choice& choice : kChoices) {
            AblationResult result{choice.name, choice.neutral, true, {}, 0};
            result.sources =
                score([&](const ValidationRow& row) { return with_choice(row, choice); }, &result.refused);
            all.results.push_back(std::move(result));
        }
        for (const Mechanism& mechanism : kMechanisms) {
            AblationResult result{mechanism.name, mechanism.neutral, false, {}, 0};
            result.sources =
                score([&](const ValidationRow& row) { return without(row, mechanism); }, &result.refused);
            all.results.push_back(std::move(result));
        }
        return all;
    }

  private:
    static std::optional<Prediction> prediction(Result<Prediction> p) {
        if (!p) return std::nullopt;
        return std::move(*p);
    }

    static std::optional<Prediction> with_choice(const ValidationRow& row, const Choice& choice) {
        const auto defaults = framework_of(row.truth);
        if (!defaults) return std::nullopt;
        FrameworkDefaults changed = **defaults;
        if (!choice.change(changed)) return row.blind;
        const std::string name = fmt::format("{} without its {}", (*defaults)->name, choice.name);
        auto c = make_case(row.truth, &add_framework_variant(changed, name));
        if (!c) return std::nullopt;
        return prediction(predict(*c, row.truth));
    }

    static std::optional<Prediction> without(const ValidationRow& row, const Mechanism& mechanism) {
        auto c = make_case(row.truth);
        if (!c) return std::nullopt;
        PredictOptions options;
        mechanism.change(*c, options);
        return prediction(predict(*c, row.truth, options));
    }

    template <class Predict>
    std::vector<AblatedSource> score(const Predict& predict_row, int* refused) const {
        std::vector<AblatedSource> sources;
        for (const SourceScore& source : report_.sources) {
            AblatedSource s{source.file, 0, {}, {}};
            std::vector<Pair> time, memory;
            for (const ValidationRow* row : rows_) {
                if (row->truth.file != source.file) continue;
                std::optional<Prediction> p = predict_row(*row);
                if (!p && refused != nullptr) ++*refused;
                if (!p) p = row->blind;
                const bool other_time = row->has_time() && moved(p->step_time_s, row->blind.step_time_s);
                const bool other_memory =
                    row->has_memory() && moved(p->memory_bytes, row->blind.memory_bytes);
                if (other_time || other_memory) ++s.changed;
                if (row->has_time()) time.push_back({p->step_time_s, row->truth.step_time_s});
                if (row->has_memory()) memory.push_back({p->memory_bytes, row->truth.memory_bytes});
            }
            if (time.empty() && memory.empty()) continue;
            s.time = score_errors(time);
            s.memory = score_errors(memory);
            sources.push_back(std::move(s));
        }
        return sources;
    }

    const ValidationReport& report_;
    std::vector<const ValidationRow*> rows_;
};

}  // namespace

AblationReport ablate(const ValidationReport& report) {
    return Ablator(report).run();
}

}  // namespace tw

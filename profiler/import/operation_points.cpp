#include "profiler/import/operation_points.hpp"

#include <algorithm>
#include <array>

namespace tw {
namespace {

using Sizes = std::vector<std::int64_t>;

bool contains(std::string_view text, std::string_view word) {
    return text.find(word) != std::string_view::npos;
}

std::optional<Precision> precision_of(const KinetoOperation& o, std::size_t input) {
    if (input >= o.types.size()) return std::nullopt;
    const std::string& type = o.types[input];
    if (type == "c10::BFloat16") return Precision::Bf16;
    if (type == "c10::Half") return Precision::Fp16;
    if (type.starts_with("c10::Float8")) return Precision::Fp8;
    if (type != "float") return std::nullopt;
    // Tensor cores or not is the kernel's to say: "tf32", "s1688" (fp32 accumulators over 16x8x8 tiles)
    // against "sgemm", "ffma", "simt".
    if (contains(o.kernel, "tf32") || contains(o.kernel, "s1688")) return Precision::Tf32;
    if (contains(o.kernel, "sgemm") || contains(o.kernel, "ffma") || contains(o.kernel, "simt") ||
        contains(o.kernel, "f32f32_f32f32"))
        return Precision::Fp32;
    return std::nullopt;
}

// The last two dimensions: rows next to each other (false), columns (true), or neither.
std::optional<bool> transposed(const KinetoOperation& o, std::size_t input) {
    if (input >= o.strides.size()) return std::nullopt;
    const Sizes &stride = o.strides[input], &size = o.dims[input];
    if (stride.size() != size.size() || stride.size() < 2) return std::nullopt;
    const std::size_t last = stride.size() - 1;
    if (stride[last] == 1) return false;
    if (stride[last - 1] == 1) return true;
    return std::nullopt;
}

// Of a tensor that a device holds: up to 2^24 a dimension and 2^40 elements. Damaged traces have others.
bool is_tensor(const Sizes& sizes) {
    double elements = 1;
    for (const std::int64_t size : sizes) {
        if (size < 1 || size > std::int64_t{1} << 24) return false;
        elements *= static_cast<double>(size);
    }
    return elements <= 1099511627776.0;
}

// Where an attention operation has its queries, its mask's flag, and whether heads come before positions.
struct AttentionForm {
    std::string_view name;
    std::size_t query, causal;
    bool heads_first, backward;
    AttentionKernel kernel;
};
constexpr auto kFlash = AttentionKernel::Flash2, kCuDnn = AttentionKernel::CuDnn;
// PyTorch, aten/src/ATen/native/native_functions.yaml: the order of arguments.
constexpr std::array<AttentionForm, 8> kAttention = {
    {{"aten::_scaled_dot_product_flash_attention", 0, 4, true, false, kFlash},
     {"aten::_scaled_dot_product_flash_attention_backward", 1, 11, true, true, kFlash},
     {"aten::_scaled_dot_product_cudnn_attention", 0, 6, true, false, kCuDnn},
     {"aten::_scaled_dot_product_cudnn_attention_backward", 1, 14, true, true, kCuDnn},
     {"aten::_flash_attention_forward", 0, 8, false, false, kFlash},
     {"aten::_flash_attention_backward", 1, 11, false, true, kFlash},
     {"aten::_cudnn_attention_forward", 0, 10, true, false, kCuDnn},
     {"aten::_cudnn_attention_backward", 1, 14, true, true, kCuDnn}}};

}  // namespace

OperationClass class_of(const KinetoOperation& operation) {
    if (contains(operation.name, "attention")) return OperationClass::Attention;
    return contains(operation.name, "norm") ? OperationClass::Norm : OperationClass::Product;
}

std::optional<Gemm> product_of(const KinetoOperation& o) {
    const bool adds = contains(o.name, "addmm") || contains(o.name, "baddbmm");
    const std::size_t first = adds ? 1 : 0;
    if (o.dims.size() < first + 2) return std::nullopt;
    const Sizes &a = o.dims[first], &b = o.dims[first + 1];
    if (a.size() != b.size() || a.size() < 2 || a.size() > 3 || !is_tensor(a) || !is_tensor(b))
        return std::nullopt;
    const std::size_t rows = a.size() - 2;
    if (a[rows + 1] != b[rows] || (rows == 1 && a[0] != b[0])) return std::nullopt;
    if (!is_tensor({rows == 1 ? a[0] : 1, a[rows], b[rows + 1]})) return std::nullopt;
    const auto precision = precision_of(o, first);
    const auto left = transposed(o, first), right = transposed(o, first + 1);
    if (!precision || !left || !right) return std::nullopt;
    Gemm gemm;
    gemm.m = a[rows], gemm.k = a[rows + 1], gemm.n = b[rows + 1];
    gemm.batch = rows == 1 ? a[0] : 1;
    gemm.precision = *precision;
    if (*left && *right) {
        // The transposed result of rows times rows.
        std::swap(gemm.m, gemm.n);
        gemm.form = GemmForm::InputGrad;
    } else {
        gemm.form = *left ? GemmForm::WeightGrad : *right ? GemmForm::Forward : GemmForm::InputGrad;
    }
    return gemm;
}

std::optional<Attention> attention_of(const KinetoOperation& o) {
    const auto form = std::find_if(kAttention.begin(), kAttention.end(),
                                   [&](const AttentionForm& f) { return f.name == o.name; });
    if (form == kAttention.end() || o.dims.size() < form->query + 3 || form->causal >= o.values.size())
        return std::nullopt;
    const Sizes &q = o.dims[form->query], &k = o.dims[form->query + 1], &v = o.dims[form->query + 2];
    const std::string& causal = o.values[form->causal];
    const bool flagged = causal == "True" || causal == "False";
    if (q.size() != 4 || k.size() != 4 || v.size() != 4 || !is_tensor(q) || !is_tensor(k) || !is_tensor(v) ||
        !flagged)
        return std::nullopt;
    const auto precision = precision_of(o, form->query);
    if (!precision || bytes_per_element(*precision) != 2) return std::nullopt;
    const std::size_t head = form->heads_first ? 1 : 2, position = form->heads_first ? 2 : 1;
    Attention attention;
    attention.batch = q[0], attention.heads = q[head], attention.seq_q = q[position];
    attention.kv_heads = k[head], attention.seq_kv = k[position];
    attention.head_dim_qk = q[3], attention.head_dim_v = v[3];
    attention.causal = causal == "True";
    attention.backward = form->backward;
    attention.kernel = form->kernel;
    attention.precision = *precision;
    return attention;
}

std::optional<MemoryOp> norm_of(const KinetoOperation& o) {
    const bool backward = o.name.ends_with("_backward");
    const std::size_t input = backward ? 1 : 0;
    if (o.dims.size() <= input || o.types.size() <= input || o.dims[input].empty()) return std::nullopt;
    if (!is_tensor(o.dims[input])) return std::nullopt;
    double elements = 1;
    for (const std::int64_t size : o.dims[input])
        elements *= static_cast<double>(size);
    const std::string& type = o.types[input];
    const double bytes = type == "float" ? 4 : type == "c10::BFloat16" || type == "c10::Half" ? 2 : 0;
    if (bytes == 0 || elements < 1) return std::nullopt;
    MemoryOp op;
    op.kind = MemoryOpKind::Norm;
    op.backward = backward;
    op.bytes = (backward ? 3 : 2) * bytes * elements;
    return op;
}

}  // namespace tw

#include "models/graph/op.hpp"

#include <algorithm>

namespace tw {
namespace {

// (query, key) pairs that a fused attention evaluates for one sequence and head. Context parallelism hands a
// rank seq_q < seq_kv queries spread evenly over the sequence (zigzag), so it owns seq_q / seq_kv of all
// pairs.
double attended_pairs(const Attention& a, bool causal_half) {
    const double q = static_cast<double>(a.seq_q);
    const double kv = static_cast<double>(a.seq_kv);
    const double w = static_cast<double>(a.window);
    const bool windowed = a.window > 0 && a.window < a.seq_kv;
    if (windowed) return a.causal ? q / kv * (kv * w - w * (w - 1) / 2) : q * w;
    return a.causal && causal_half ? q * kv / 2 : q * kv;
}

struct Flops {
    bool causal_half;
    double operator()(const Gemm& g) const {
        return 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) *
               static_cast<double>(g.batch) * static_cast<double>(g.groups);
    }
    double operator()(const Attention& a) const {
        const double forward = 2.0 * static_cast<double>(a.batch * a.heads) * attended_pairs(a, causal_half) *
                               static_cast<double>(a.head_dim_qk + a.head_dim_v);
        return a.backward ? 2.5 * forward : forward;
    }
    double operator()(const MemoryOp& m) const { return m.flops; }
    double operator()(const Convolution& c) const {
        return 2.0 * static_cast<double>(c.batch * c.out_height * c.out_width) *
               static_cast<double>(c.in_channels * c.out_channels / std::max<std::int64_t>(c.groups, 1)) *
               static_cast<double>(c.kernel_h * c.kernel_w);
    }
    double operator()(const MeasuredOp&) const { return 0; }
    double operator()(const CollectiveOp&) const { return 0; }
};

struct DeviceBytes {
    double operator()(const Gemm& g) const {
        const double e = bytes_per_element(g.precision);
        const double m = static_cast<double>(g.m), n = static_cast<double>(g.n), k = static_cast<double>(g.k);
        const double out = g.accumulate ? 8.0 : e;  // fp32 main gradients: read and written
        return (e * (m * k + k * n) + out * m * n) * static_cast<double>(g.batch * g.groups);
    }
    // q, k, v read and the output written once; the backward reads these and the output's gradient and writes
    // three.
    double operator()(const Attention& a) const {
        const double e = bytes_per_element(a.precision);
        const double b = static_cast<double>(a.batch);
        const double q = b * static_cast<double>(a.seq_q * a.heads * a.head_dim_qk);
        const double o = b * static_cast<double>(a.seq_q * a.heads * a.head_dim_v);
        const double k = b * static_cast<double>(a.seq_kv * a.kv_heads * a.head_dim_qk);
        const double v = b * static_cast<double>(a.seq_kv * a.kv_heads * a.head_dim_v);
        return a.backward ? e * (2 * q + 2 * k + 2 * v + 2 * o) : e * (q + k + v + o);
    }
    double operator()(const MemoryOp& m) const { return m.bytes; }
    double operator()(const Convolution& c) const {
        const double e = bytes_per_element(c.precision);
        const double pixels = static_cast<double>(c.batch * c.out_height * c.out_width);
        const double in = pixels * static_cast<double>(c.in_channels * c.stride * c.stride);
        const double out = pixels * static_cast<double>(c.out_channels);
        const double weights = static_cast<double>(c.in_channels * c.out_channels * c.kernel_h * c.kernel_w) /
                               static_cast<double>(std::max<std::int64_t>(c.groups, 1));
        return e * (in + out + weights);
    }
    double operator()(const MeasuredOp&) const { return 0; }
    double operator()(const CollectiveOp&) const { return 0; }
};

}  // namespace

FlopCount op_flops(const Op& op, bool causal_half) {
    return FlopCount(std::visit(Flops{causal_half}, op.body));
}

double op_bytes(const Op& op) {
    return std::visit(DeviceBytes{}, op.body);
}

double bytes_per_element(Precision precision) {
    switch (precision) {
        case Precision::Fp32:
        case Precision::Tf32:
            return 4;
        case Precision::Fp16:
        case Precision::Bf16:
            return 2;
        case Precision::Fp8:
            return 1;
        case Precision::Nvfp4:
            return 9.0 / 16;
    }
    return 4;
}

bool quantised(Precision precision) {
    return precision == Precision::Fp8 || precision == Precision::Nvfp4;
}

Precision activation_precision(Precision precision) {
    return quantised(precision) ? Precision::Bf16 : precision;
}

int activation_bytes(Precision precision) {
    return static_cast<int>(bytes_per_element(activation_precision(precision)));
}

std::string_view to_string(Precision precision) {
    switch (precision) {
        case Precision::Fp32:
            return "fp32";
        case Precision::Tf32:
            return "tf32";
        case Precision::Fp16:
            return "fp16";
        case Precision::Bf16:
            return "bf16";
        case Precision::Fp8:
            return "fp8";
        case Precision::Nvfp4:
            return "nvfp4";
    }
    return "?";
}

std::string_view to_string(CollectiveKind kind) {
    switch (kind) {
        case CollectiveKind::AllReduce:
            return "all_reduce";
        case CollectiveKind::AllGather:
            return "all_gather";
        case CollectiveKind::ReduceScatter:
            return "reduce_scatter";
        case CollectiveKind::AllToAll:
            return "all_to_all";
        case CollectiveKind::Broadcast:
            return "broadcast";
        case CollectiveKind::Reduce:
            return "reduce";
        case CollectiveKind::SendRecv:
            return "send_recv";
    }
    return "?";
}

std::string_view to_string(Axis axis) {
    switch (axis) {
        case Axis::Tp:
            return "tp";
        case Axis::Cp:
            return "cp";
        case Axis::Ep:
            return "ep";
        case Axis::Etp:
            return "etp";
        case Axis::Dp:
            return "dp";
        case Axis::Edp:
            return "edp";
        case Axis::Pp:
            return "pp";
    }
    return "?";
}

std::string_view to_string(AttentionKernel kernel) {
    switch (kernel) {
        case AttentionKernel::Unfused:
            return "unfused";
        case AttentionKernel::Flash1:
            return "flash1";
        case AttentionKernel::Flash2:
            return "flash2";
        case AttentionKernel::Flash3:
            return "flash3";
        case AttentionKernel::CuDnn:
            return "cudnn";
    }
    return "?";
}

}  // namespace tw

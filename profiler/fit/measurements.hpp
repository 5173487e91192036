// The published microbenchmarks that the shipped profiles are fitted to, read from a folder of exported
// tables. Each reader names its file; formats are those of the tables' own projects.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "models/graph/op.hpp"
#include "models/hardware/curves/attention_curve.hpp"
#include "models/hardware/curves/gemm_curve.hpp"

namespace tw {

using Folder = std::filesystem::path;

struct GemmPoint {
    GemmShape shape;
    Precision precision = Precision::Bf16;
    GemmForm form = GemmForm::Forward;
    double seconds = 0;
};

struct AttentionPoint {
    AttentionShape shape;
    std::string kernel;  // "flash", "cudnn", "trtllm"
    double seconds = 0;
};

struct SizePoint {
    double bytes = 0;
    double seconds = 0;
};

struct CollectiveSeries {
    CollectiveKind kind = CollectiveKind::AllReduce;
    int group_size = 2;
    std::string version;            // of NCCL
    std::vector<SizePoint> points;  // ascending sizes; the median where a size was measured several times
};

struct ConvolutionPoint {
    Convolution convolution;
    double seconds = 0;
};

// A kernel bound by memory traffic, by its name in the source ("gelu_fwd", "add").
struct TrafficPoint {
    std::string name;
    double rows = 0, columns = 0;
    double seconds = 0;
};

// ai-dynamo/aiconfigurator: gemm_<system>.csv.gz, attn_context_<system>.csv.gz, nccl_all.csv.gz.
// `cache_bytes`: of the device's level-2 cache, where the table's collector chose by it how many weights take
// turns; 0: always five, as earlier versions did.
Result<std::vector<GemmPoint>> read_gemm_table(const Folder& hw, const std::string& system,
                                               double cache_bytes = 0);
Result<std::vector<AttentionPoint>> read_attention_table(const Folder& hw, const std::string& system);
// One series per kind, group size: that of the newest NCCL version measured on the system.
Result<std::vector<CollectiveSeries>> read_nccl_table(const Folder& hw, const std::string& system);

// baidu-research/DeepBench training sheets of the V100: mixed precision (fp16 inputs) or fp32.
Result<std::vector<GemmPoint>> read_deepbench_gemm(const Folder& hw, Precision precision);
Result<std::vector<ConvolutionPoint>> read_deepbench_convolution(const Folder& hw, Precision precision);

// VIA-Research/vTrain: all-reduce look-up tables, 2..8 devices of a node, "a100" or "v100".
Result<std::vector<CollectiveSeries>> read_vtrain_all_reduce(const Folder& hw, const std::string& device);

// microsoft/vidur: send_recv between two devices of a node ("a100_dgx").
Result<CollectiveSeries> read_vidur_send_recv(const Folder& hw, const std::string& node);
// microsoft/vidur: kernels of a transformer's MLP and norms on "a100" or "h100": names add, input_layernorm,
// mlp_act, attn_rope; columns = elements a token that the kernel writes.
Result<std::vector<TrafficPoint>> read_vidur_kernels(const Folder& hw, const std::string& device);
// microsoft/vidur: the four products of a transformer layer, fp16 under PyTorch, by tokens and tensor
// parallelism; a gated MLP's first two are one product of twice the columns.
Result<std::vector<GemmPoint>> read_vidur_products(const Folder& hw, const std::string& device);

// One H200 under PyTorch 2.11: h200_torch/micro_rows.jsonl.
struct TorchRows {
    std::vector<GemmPoint> gemm;
    std::vector<AttentionPoint> attention;
    std::vector<TrafficPoint> traffic;                     // element-wise kernels, norms, cross-entropy
    std::vector<SizePoint> copies;                         // device to device; bytes copied
    std::vector<SizePoint> adamw;                          // bytes = parameters
    std::vector<std::pair<std::string, double>> dispatch;  // op, host seconds
    double kernel_in_graph_s = 0;
};
Result<TorchRows> read_torch_rows(const Folder& hw);

// te42kyfo/gpu-benches: scale kernel, bytes read plus written against seconds, launched from a graph
// ("a100_80_graph").
Result<std::vector<SizePoint>> read_small_kernels(const Folder& hw, const std::string& key);
// The same project's STREAM-like rates in bytes/s ("v100", "triad").
Result<double> read_stream_rate(const Folder& hw, const std::string& device, const std::string& kernel);

}  // namespace tw

// Constants of NCCL's own cost model, as facts: NVIDIA/nccl, src/graph/tuning.cc and src/tuning/nvls.cc
// (latencies, bandwidth caps, efficiencies; snapshot 2026-06) and src/graph/topo.h (rates of links). What is
// measured here instead says so. Latencies in seconds, rates in bytes per second, rows by NcclAlgorithm,
// columns LL, LL128, Simple.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "sim/collectives/algorithm.hpp"

namespace tw {

// NCCL's protocols. Plain: an alpha-beta model without any (MPI, or a measured curve).
enum class Protocol : std::uint8_t { Ll, Ll128, Simple, Plain };

// By compute capability 7, 8, 9, 10; decides caps and the share of a link that NCCL reaches.
enum class GpuGeneration : std::uint8_t { Volta, Ampere, Hopper, Blackwell };

namespace nccl {

inline constexpr double kMicro = 1e-6;
inline constexpr double kGB = 1e9;

using PerProtocol = std::array<double, 3>;

// baseLatencies; CollNet and NVLS have none. LL and P2p are measured (kLlBase, kP2pBase below).
inline constexpr std::array<PerProtocol, 7> kBaseLatency = {{
    {6.8 * kMicro, 14.0 * kMicro, 8.4 * kMicro},  // Tree
    {6.6 * kMicro, 14.0 * kMicro, 8.4 * kMicro},  // Ring
    {0, 0, 0},                                    // CollNet
    {0, 0, 0},                                    // NVLS
    {0, 0, 0},                                    // NVLSTree
    {8.0 * kMicro, 8.0 * kMicro, 8.0 * kMicro},   // PAT
    {0, 0, 0},                                    // P2p
}};

// hwLatencies, a hop. PAT between nodes: 14 us over 3.5 hops in flight. P2p between nodes: as Ring/Simple.
inline constexpr std::array<PerProtocol, 7> kNvlinkLatency = {{
    {0.6 * kMicro, 1.25 * kMicro, 4.0 * kMicro},
    {0.6 * kMicro, 1.9 * kMicro, 3.4 * kMicro},
    {0, 0, 3.7 * kMicro},
    {0, 0, 25 * kMicro},
    {0, 0, 25 * kMicro},
    {0, 0, 4.0 * kMicro},
    {0, 0, 0},
}};
inline constexpr std::array<PerProtocol, 7> kPciLatency = {{
    {1.0 * kMicro, 1.9 * kMicro, 4.0 * kMicro},
    {1.0 * kMicro, 2.5 * kMicro, 5.7 * kMicro},
    {0, 0, 3.7 * kMicro},
    {0, 0, 25 * kMicro},
    {0, 0, 25 * kMicro},
    {0, 0, 4.0 * kMicro},
    {0, 0, 0},
}};
inline constexpr std::array<PerProtocol, 7> kNetLatency = {{
    {5.0 * kMicro, 8.5 * kMicro, 14 * kMicro},
    {2.7 * kMicro, 4.0 * kMicro, 14 * kMicro},
    {0, 0, 31 * kMicro},
    {0, 0, 18 * kMicro},
    {0, 0, 20.9 * kMicro},
    {0, 0, 4.0 * kMicro},
    {0, 0, 14 * kMicro},
}};
inline constexpr double kPatRankLatency = 2.8 * kMicro;  // PAT: for each rank
inline constexpr double kLlMultiNode = 1.8;  // LL hops inside a node cost this much more on several nodes
inline constexpr double kRingPlateau[4] = {1.9, 1.4, 1.4,
                                           1.4};  // Ring/Simple all-reduce on several nodes, large sizes

// Caps by generation and 1, 2, more than 2 nodes.
using PerScale = std::array<double, 3>;
inline constexpr std::array<PerScale, 4> kLlMaxRate = {{
    {39.0 * kGB, 39.0 * kGB, 20.4 * kGB},
    {87.7 * kGB, 22.5 * kGB, 19.0 * kGB},
    {141.0 * kGB, 45.0 * kGB, 35.0 * kGB},
    {282.0 * kGB, 90.0 * kGB, 70.0 * kGB},
}};
inline constexpr std::array<double, 4> kRingLl128PerChannel = {20.0 * kGB, 20.0 * kGB, 36.7 * kGB,
                                                               40.0 * kGB};
inline constexpr std::array<PerScale, 4> kTreeLl128PerChannel = {{
    {20.0 * kGB, 20.0 * kGB, 20.0 * kGB},
    {20.0 * kGB, 20.0 * kGB, 20.0 * kGB},
    {36.7 * kGB, 36.7 * kGB, 29.0 * kGB},
    {55.6 * kGB, 31.67 * kGB, 20.0 * kGB},
}};
inline constexpr std::array<PerScale, 4> kTreePerChannel = {{
    {26.5 * kGB, 18.5 * kGB, 10.0 * kGB},
    {24.0 * kGB, 23.6 * kGB, 17.8 * kGB},
    {38.7 * kGB, 41.4 * kGB, 36.0 * kGB},
    {70.0 * kGB, 42.8 * kGB, 24.0 * kGB},
}};
// Channels that NCCL_DEBUG=INFO reports on 8-way NVLink nodes of the generation ("24 coll channels" on DGX
// A100, "16 coll channels, 16 nvls channels" on DGX H100); 12 on DGX-1V.
inline constexpr std::array<double, 4> kChannels = {12, 24, 16, 16};

// Share of a link's datasheet rate: topo.h counts 20.0, 20.0, 20.6 and 40.1 GB/s for NVLinks of 25, 25, 25
// and 50 GB/s.
inline constexpr std::array<double, 4> kNvlinkShare = {20.0 / 25, 20.0 / 25, 20.6 / 25, 40.1 / 50};
inline constexpr double kNetworkShare = 12.0 / 12.5;  // topo.h: 12.0 GB/s for 100 Gb/s

inline constexpr std::array<double, 4> kNvlsEfficiency = {0, 0, 0.85, 0.74};
// NVLSTree inside the node: 0.78 gives the 471, 478 and 487 GB/s of bus bandwidth that nccl-tests logs of two
// nodes of H100 and H200 show (OCI, Nebius and AWS p5, 16 GiB); Blackwell in NVLS's proportion.
inline constexpr std::array<double, 4> kNvlsTreeEfficiency = {0, 0, 0.78, 0.68};
inline constexpr double kTreeEfficiency = 0.92;
inline constexpr double kPatEfficiency = 0.75;

// Measured refinements, fitted to ai-dynamo/aiconfigurator's nccl_perf tables (A100, H100, H200 and B200 SXM,
// 2 to 8 devices, 512 B to 512 MB, NCCL 2.26 to 2.29; fp16 rows, out of place).
//
// LL's launch and hop by generation, from the smallest sizes of 2, 4 and 8 devices (all-reduce on
// A100: 9.9, 13.9, 21.3 us; H100: 6.2, 9.5, 15.5; B200: 8.7, 14.3, 24.9). NCCL's own 6.6 and 0.6 us where
// nothing was measured (Volta).
inline constexpr std::array<double, 4> kLlBase = {6.6 * kMicro, 8.0 * kMicro, 4.5 * kMicro, 6.8 * kMicro};
inline constexpr std::array<double, 4> kLlHop = {0.6 * kMicro, 0.95 * kMicro, 0.82 * kMicro, 1.32 * kMicro};
// The same for a group of sends and receives, per peer (all-to-all, 512 B: A100 10.5, 12.4, 12.4 us;
// H100 6.2, 6.5, 7.1; B200 8.3, 9.7, 10.1). Volta as Ampere.
inline constexpr std::array<double, 4> kP2pBase = {10.4 * kMicro, 10.4 * kMicro, 6.0 * kMicro, 8.3 * kMicro};
inline constexpr std::array<double, 4> kP2pPeer = {0.3 * kMicro, 0.3 * kMicro, 0.16 * kMicro, 0.26 * kMicro};
// A rank also copies its own share, which costs the sending kernels as much as (k / n) more bytes: k of the
// ring's all-gather and reduce-scatter, of its all-reduce, of sends and receives. 32 MB and more: errors 6, 3
// and 8 %.
inline constexpr double kOwnShareGather = 0.95;
inline constexpr double kOwnShareReduce = 0.4;
inline constexpr double kOwnShareP2p = 0.35;
// Simple reaches its rate only slowly: seconds more per square root of a byte that a port moves (2, 7 and 6
// us at 1 MB).
inline constexpr double kRampRing = 2.0e-9;
inline constexpr double kRampNvls = 7.0e-9;
inline constexpr double kRampP2p = 6.0e-9;
// The same for a node's network interfaces, all protocols, each way (an all-reduce goes both ways): two-node
// nccl-tests logs, 8 MB to 512 MB (DGX A100 HDR and AWS p5 all-reduce 17 to 36, GKE a3-ultra all-gather 5 to
// 9 us at 1 MB).
inline constexpr double kRampNetwork = 8.0e-9;

// treeCorrectionFactor: trees fall short of the model at medium sizes; powers of two from 64 B to 512 MB.
inline constexpr std::array<std::array<double, 24>, 3> kTreeCorrection = {{
    {1.0, 1.0, 1.0, 1.0, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1.0, 1.0, 1.0, 1.0, 1.0},
    {1.0, 1.0, 1.0, 1.0, 1.0, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1.0, 1.0, 1.0},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
}};

}  // namespace nccl
}  // namespace tw

// The matrix that `nvidia-smi topo -m` prints: how every GPU and NIC of one machine reaches every other. Also
// `nvidia-smi topo -p2p`, whose cells say whether peer access works instead of over what.
//
//           GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity
//   GPU0     X      NV12    PIX     0-31            0
//
// Terminal escapes are ignored; NICs may be called NIC0 with a "NIC Legend" below, or mlx5_0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace tw {

// Nearest first, as nvidia-smi's own legend orders them from bottom to top.
enum class TopoPath : std::uint8_t { Self, NvLink, Pix, Pxb, Phb, Node, Sys, PeerOk, PeerNo };

struct TopoCell {
    TopoPath path = TopoPath::Self;
    int nvlinks = 0;  // bonded links, NvLink only
    friend bool operator==(const TopoCell&, const TopoCell&) = default;
};

struct TopoDevice {
    std::string name;     // "GPU0", "NIC0", "mlx5_0"
    std::string adapter;  // of a NIC, from the NIC legend: "mlx5_0"; "" where there is none
    std::string cpus;     // "0-31,64-95"; "" where not printed
    std::string numa;     // "0", "N/A"
    bool gpu = false;
};

struct TopoMatrix {
    std::vector<TopoDevice> devices;
    std::vector<std::vector<TopoCell>> cells;  // cells[i][j]: from device i to device j
    std::vector<std::string> warnings;

    [[nodiscard]] int gpus() const;
    [[nodiscard]] bool peer_status() const;       // printed by topo -p2p
    [[nodiscard]] bool all_pairs_nvlink() const;  // two GPUs at least, each pair over NVLink
    // NVLinks of GPU i to other GPUs: through a switch every cell shows all of them, so it is the largest
    // cell where all cells are equal, else the sum of the cells.
    [[nodiscard]] int nvlinks_of(int gpu) const;
};

std::string to_string(const TopoCell& cell);  // "NV12", "PIX", ...

bool looks_like_topo_matrix(std::string_view text);

// Errors (Unreadable, with lines): no header, a row missing or short, an unknown cell, a diagonal that is not
// X. A matrix that is not symmetric is a warning.
Result<TopoMatrix> parse_topo_matrix(std::string_view text, std::string_view name);

}  // namespace tw

// NCCL's topology and graph documents (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE, NCCL_GRAPH_DUMP_FILE; NCCL
// src/graph/xml.cc and topo.h): <system> of <cpu>, nested <pci>, <gpu> with <nvlink> and <c2c>, <nic> with
// <net>; or <graphs>.
//
// Rates are as NCCL itself models them: a PCI link has width x speed / 80 GB/s, with speed in 100 Mb/s a lane
// (2.5 GT/s 15, 5 30, 8 60, 16 120, 32 240, 64 480, unknown 60; width 0 counts as 16); a net's speed is Mb/s;
// an NVLink carries 18 GB/s a direction on sm60, 20 on sm70 and sm80, 12 on sm86, 20.6 on sm90, 40.1 on
// sm100.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"

namespace tw {

struct NcclNvLink {
    std::string target;  // bus id of a GPU, of an NVSwitch, or of the CPU
    int count = 0;
    std::uint32_t target_class = 0;  // PCI class: 0x068000 NVSwitch, 0x0302.. GPU
};

struct NcclGpu {
    std::string bus_id;
    int numa = -1, dev = -1, sm = 0, rank = -1;
    BytesPerSecond pci;
    BytesPerSecond nvlink;  // all links, per direction; 0 where none or where the architecture is unknown
    std::vector<NcclNvLink> links;
    std::vector<int> path;   // PCI bridges above it, outermost first; numbered over the document
    bool described = false;  // false: only its PCI class says that it is a GPU
};

struct NcclNet {
    std::string name;
    int numa = -1, dev = -1, port = 0;
    BytesPerSecond speed;
    bool gdr = false;
    BytesPerSecond pci;     // of the link that its card is behind; 0 where not described
    std::vector<int> path;  // as a GPU's
};

struct NcclCpu {
    int numa = -1;
    std::string arch, vendor;
};

struct NcclTopology {
    std::vector<NcclCpu> cpus;
    std::vector<NcclGpu> gpus;
    std::vector<NcclNet> nets;
    int pci_devices = 0, pci_nics = 0;  // of any class; of a NIC's class (0x02....)
    std::vector<std::string> switches;  // NVSwitch bus ids that NVLinks lead to, sorted
    std::vector<std::string> warnings;  // elements that were not understood, values out of range
};

struct NcclGraph {
    int id = 0, pattern = 0, channels = 0;
    double speed_intra = 0, speed_inter = 0;  // GB/s a channel
    std::string type_intra, type_inter;
    int gpus = 0;  // of the first channel
};

struct NcclGraphs {
    std::vector<NcclGraph> graphs;
    std::vector<std::string> warnings;
};

std::string nccl_pattern_name(int pattern);  // 4: "ring", 1: "balanced tree", ... NCCL src/include/graph.h

bool looks_like_nccl_topology(std::string_view text);  // XML whose root is <system>
bool looks_like_nccl_graphs(std::string_view text);    // XML whose root is <graphs>

// Errors: Unreadable with line; XML that does not parse, another root, a number that is none, nesting
// beyond 64.
Result<NcclTopology> parse_nccl_topology(std::string_view text, std::string_view name);
Result<NcclGraphs> parse_nccl_graphs(std::string_view text, std::string_view name);

}  // namespace tw

// A profile document out of what others measured: logs of nccl-tests, topologies, traces, the files of other
// tools.
//
//   logs and traces       collective curves (fit_collective), by kind, group and nodes
//   topologies            the node: devices, links, network ports, and which port is next to which device
//   Kineto traces         copies to the device, arrival skew between ranks; products, attention and norms
//   whose
//                         shapes are recorded
//   SimuMax systems       matrix products of measured shapes
//
// What nobody measured is taken from a base device's shipped profile and marked as such
// (FitRecord::scaled_from), and listed. Every source is checked alone and against the others.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "models/formats/finding.hpp"
#include "models/hardware/profile_document.hpp"

namespace tw {

struct ImportOptions {
    std::string device;  // base device or node type: "h100", "p5"; "": that which the sources name
    std::string name;    // of the profile and its cluster; "": the base's, "imported-h100"
    // Bytes read and to be read of the file at hand; false stops.
    std::function<bool(const std::string& file, std::int64_t read, std::int64_t size)> progress;
};

// What was read from one file.
struct ImportedSource {
    std::string file, kind;
    std::string read;         // "all_reduce of 16 on 2 nodes, 28 sizes"
    std::int64_t points = 0;  // measurements that became part of the profile
    std::vector<Finding> findings;
};

struct ImportResult {
    ProfileDocument document;
    std::vector<ImportedSource> sources;  // as given
    std::vector<Finding> findings;        // between sources
    std::vector<std::string> taken;    // what came from the sources: "8 network ports of 50 GB/s: topo.xml"
    std::vector<std::string> assumed;  // what came from the base: "matrix products: shipped profile of h100"
    std::vector<std::string> absent;   // what neither has
};

// Errors: every file that cannot be read, or that holds nothing of a machine (Unreadable); no device, or an
// unknown one (Usage); Interrupted.
Result<ImportResult> import_profile(const std::vector<std::filesystem::path>& files,
                                    const ImportOptions& options);

}  // namespace tw

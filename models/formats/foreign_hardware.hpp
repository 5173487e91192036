// What the files of other simulators and planners say about a machine: figures they were given or measured,
// in our units. One reader a format; each names in `about` where its units are from. What a file does not say
// stays empty.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "models/formats/document.hpp"
#include "models/formats/finding.hpp"
#include "models/graph/op.hpp"
#include "models/hardware/curves/gemm_curve.hpp"

namespace tw {

// A rate that the file states; no measurement of ours behind it.
struct ForeignLink {
    std::string name;          // "inside a node", "between nodes"
    int devices = 0;           // that it joins; 0: unknown
    BytesPerSecond bandwidth;  // per device and direction
    double efficiency = 1;     // share of it that the file says is reached
    double latency_s = 0;      // 0: the file says none
};

struct ForeignSeries {
    CollectiveKind kind = CollectiveKind::AllReduce;
    int group_size = 0, nodes = 1;  // 0: unknown
    struct Point {
        double bytes = 0, seconds = 0;  // bytes as nccl-tests' size column
    };
    std::vector<Point> points;  // by size
};

// A rate that was measured at a size which the file does not tell: no curve can be fitted to it.
struct ForeignRate {
    CollectiveKind kind = CollectiveKind::AllReduce;
    int group_size = 0, nodes = 1;
    BusBandwidth busbw;
};

struct ForeignProduct {
    GemmShape shape;
    Precision precision = Precision::Bf16;
    GemmForm form = GemmForm::Forward;
    double seconds = 0;
};

struct ForeignHardware {
    std::string title;   // "Calculon system: 312 TFLOP/s fp16, 80 GB"
    std::string about;   // source of the format and of its units
    std::string device;  // as the file calls it; "" where it does not
    int devices_per_node = 0;
    Bytes memory;
    BytesPerSecond memory_bandwidth;
    std::vector<std::pair<Precision, FlopRate>> peaks;
    std::vector<ForeignLink> links;
    std::vector<ForeignSeries> series;
    std::vector<ForeignRate> rates;
    std::vector<ForeignProduct> products;
    std::vector<Finding> findings;
};

struct ForeignHardwareKind {
    std::string_view name;
    bool (*sniff)(std::string_view text);
    Result<ForeignHardware> (*read)(std::string_view text, std::string_view name);
};

// calculon_system.cpp: calculon-ai/calculon, calculon/system.py.
bool is_calculon_system(std::string_view text);
Result<ForeignHardware> read_calculon_system(std::string_view text, std::string_view name);
// simumax_system.cpp: MooreThreads/SimuMax, configs/system.
bool is_simumax_system(std::string_view text);
Result<ForeignHardware> read_simumax_system(std::string_view text, std::string_view name);
// galvatron_hardware.cpp: PKU-DAIR/Hetu-Galvatron, profile_hardware.
bool is_galvatron_hardware(std::string_view text);
Result<ForeignHardware> read_galvatron_hardware(std::string_view text, std::string_view name);
// nnscaler_comm.cpp: microsoft/nnscaler, resources/profile/*/comm.
bool is_nnscaler_comm(std::string_view text);
Result<ForeignHardware> read_nnscaler_comm(std::string_view text, std::string_view name);
// astra_network.cpp: astra-sim/astra-sim, network/analytical.
bool is_astra_network(std::string_view text);
Result<ForeignHardware> read_astra_network(std::string_view text, std::string_view name);

std::span<const ForeignHardwareKind> foreign_hardware_kinds();
const ForeignHardwareKind* foreign_hardware_kind(std::string_view text);  // null: none of them

DocumentSummary describe(const ForeignHardware& hardware);

}  // namespace tw

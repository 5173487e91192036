#include "profiler/bench/machine.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/version.hpp"
#include "models/hardware/sample_statistics.hpp"

namespace tw {
namespace {

// The value of "key : value" in a file of the system's; empty where there is none.
std::string value_of(const char* file, std::string_view key) {
    std::ifstream in(file);
    std::string line;
    while (std::getline(in, line)) {
        if (std::string_view(line).substr(0, key.size()) != key) continue;
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
        return begin == std::string::npos ? "" : line.substr(begin);
    }
    return "";
}

std::string processor() {
    const std::string model = value_of("/proc/cpuinfo", "model name");
    const std::string family = value_of("/proc/cpuinfo", "cpu family");
    const std::string number = value_of("/proc/cpuinfo", "model\t");
    if (model.empty()) return "unknown processor";
    return family.empty() ? model : fmt::format("{} (family {}, model {})", model, family, number);
}

// The best rate of a precision's measured products.
double best_rate(const std::vector<SampleSeries>& samples, std::string_view precision) {
    double best = 0;
    for (const SampleSeries& s : samples) {
        if (s.benchmark != "gemm" || s.variant.rfind(precision, 0) != 0) continue;
        const double seconds = median_of(s.values);
        if (seconds > 0) best = std::max(best, 2 * s.at("m") * s.at("n") * s.at("k") / seconds);
    }
    return best;
}

struct Link {
    double latency_s = 0, bandwidth = 0;
};

// From messages there and back: the smallest's time and the largest's rate, one way; within a host or between
// two.
Link measured_link(const std::vector<SampleSeries>& samples, int nodes) {
    const SampleSeries* small = nullptr;
    const SampleSeries* large = nullptr;
    for (const SampleSeries& s : samples) {
        if (s.benchmark != "collective" || s.variant != "send_recv" || s.at("nodes", 1) != nodes) continue;
        if (small == nullptr || s.at("bytes") < small->at("bytes")) small = &s;
        if (large == nullptr || s.at("bytes") > large->at("bytes")) large = &s;
    }
    if (small == nullptr || small == large) return {};
    return {median_of(small->values) / 2, large->at("bytes") / (median_of(large->values) / 2)};
}

}  // namespace

MeasuredEnvironment describe_machine() {
    MeasuredEnvironment e;
    e.tool = std::string("trainwright ") + kVersion;
    char name[256] = {};
    gethostname(name, sizeof name - 1);
    e.host = name;
    utsname system{};
    if (uname(&system) == 0)
        e.system = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
    e.processor = processor();
#ifdef __clang__
    e.compiler = fmt::format("clang {}", __clang_version__);
#else
    e.compiler = fmt::format("gcc {}", __VERSION__);
#endif
    e.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    return e;
}

std::optional<Cluster> measured_cluster(const HardwareProfile& profile,
                                        const std::vector<SampleSeries>& samples,
                                        const MeasuredEnvironment& environment) {
    const double fp32 = best_rate(samples, "fp32");
    if (fp32 <= 0 || profile.memory.bandwidth <= 0 || profile.memory_fit.points == 0) return std::nullopt;
    const std::string source =
        fmt::format("measured: {}, {}", environment.processor, environment.date.substr(0, 10));
    const auto memory =
        static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
    NodeGroup group;
    Device& device = group.device;
    device.name = "cpu-local";
    device.description = "one core of " + environment.processor;
    device.architecture = "cpu";
    device.default_node = "cpu-local";
    device.memory = Bytes(static_cast<std::int64_t>(memory / environment.cores));
    device.memory_bandwidth = BytesPerSecond(profile.memory.bandwidth);
    device.peak_fp32 = FlopRate(fp32);
    device.peak_bf16 = FlopRate(best_rate(samples, "bf16"));
    device.source = source;
    NodeType& node = group.type;
    node.name = "cpu-local";
    node.description = environment.host;
    node.device = device.name;
    node.devices = environment.cores;
    node.host_memory = Bytes(static_cast<std::int64_t>(memory));
    node.pcie_bandwidth = BytesPerSecond(profile.memory.bandwidth / 2);
    node.link = environment.cores > 1 ? IntraNodeLink::SharedMemory : IntraNodeLink::None;
    Link link = measured_link(samples, 1);
    // Not measured (one rank alone): as fast as a copy in memory, read and written.
    if (link.bandwidth <= 0) link = {1e-6, profile.memory.bandwidth / 2};
    node.link_bandwidth = BytesPerSecond(link.bandwidth);
    node.link_latency_s = link.latency_s;
    const Link network = measured_link(samples, 2);
    node.nics = network.bandwidth > 0 ? 1 : 0;
    node.nic_bandwidth = BytesPerSecond(network.bandwidth);
    node.nic_latency_s = network.latency_s;
    node.source = source;
    Cluster cluster;
    cluster.name = "cpu-local";
    cluster.groups.push_back(std::move(group));
    return cluster;
}

}  // namespace tw

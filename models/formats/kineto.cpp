#include "models/formats/kineto.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <unordered_map>

#include "models/formats/json_slice.hpp"
#include "models/formats/kineto_args.hpp"
#include "models/formats/kineto_operations.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

namespace js = json_slice;

constexpr std::int64_t kLargeCopy = 1 << 20;
constexpr std::size_t kMostNames = 100'000;  // different kernels; more is no trace of a program

struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
using NameIndex = std::unordered_map<std::string, std::size_t, NameHash, std::equal_to<>>;

bool same_word(std::string_view text, std::string_view lower) {
    return text.size() == lower.size() &&
           std::equal(text.begin(), text.end(), lower.begin(),
                      [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

// Time in which at least one interval runs. Traces list events by stream, so that nothing is known before the
// end: 16 bytes an event of the device, a twentieth of its text.
class BusyTime {
  public:
    void add(std::int64_t start_ns, std::int64_t end_ns) { intervals_.push_back({start_ns, end_ns}); }
    double seconds() {
        std::sort(intervals_.begin(), intervals_.end());
        double sum = 0;
        std::int64_t until = std::numeric_limits<std::int64_t>::min();
        for (const auto& [start, end] : intervals_) {
            if (end <= until) continue;
            std::int64_t length = 0;
            if (__builtin_sub_overflow(end, std::max(start, until), &length)) return 0;  // centuries
            sum += static_cast<double>(length) * 1e-9;
            until = end;
        }
        return sum;
    }

  private:
    std::vector<std::pair<std::int64_t, std::int64_t>> intervals_;
};

class Collector : public TraceVisitor {
  public:
    void on_member(std::string_view key, std::string_view value) override {
        if (key == "distributedInfo") {
            if (const auto rank = js::integer(js::find(value, "rank")); rank && *rank >= 0 && *rank < 1 << 24)
                trace.rank = static_cast<int>(*rank);
            if (const auto world = js::integer(js::find(value, "world_size"));
                world && *world > 0 && *world < 1 << 24)
                trace.world_size = static_cast<int>(*world);
            trace.backend = excerpt(js::text_of(js::find(value, "backend")));
            read_groups(js::find(value, "pg_config"));
        } else if (key == "deviceProperties") {
            js::Members devices(value);
            while (devices.next() && trace.devices.size() < 1024) {
                KinetoDevice device;
                device.name = excerpt(js::text_of(js::find(devices.value(), "name")));
                device.memory_bytes = js::integer(js::find(devices.value(), "totalGlobalMem")).value_or(0);
                device.multiprocessors = static_cast<int>(std::clamp<std::int64_t>(
                    js::integer(js::find(devices.value(), "numSms")).value_or(0), 0, 1 << 20));
                trace.devices.push_back(std::move(device));
            }
        } else if (key == "baseTimeNanoseconds") {
            base_ns_ = js::integer(value).value_or(0);
        }
    }

    void on_event(const ForeignEvent& event) override {
        if (!event.timed) return;
        first_ns_ = std::min(first_ns_, event.start_ns);
        const bool complete = event.phase == 'X' && event.duration_ps >= 0;
        const std::int64_t length_ns = complete ? event.duration_ps / 1000 : 0;
        std::int64_t end_ns = 0;
        if (__builtin_add_overflow(event.start_ns, length_ns, &end_ns))
            end_ns = std::numeric_limits<std::int64_t>::max();
        // The profiler's own record of the whole window ("Trace") reaches beyond the work.
        if (event.category != "Trace") last_ns_ = std::max(last_ns_, end_ns);
        if (!complete) return;
        const std::string_view category = event.category;
        // mtia_ccp_events: kernels of Meta's accelerator.
        if (same_word(category, "kernel") || category == "mtia_ccp_events") {
            on_kernel(event, end_ns);
        } else if (same_word(category, "gpu_memcpy")) {
            on_copy(event, end_ns);
        } else if (same_word(category, "gpu_memset")) {
            on_device(event, end_ns);
        } else if (category == "cpu_op" || category == "Operator") {
            ++trace.host_ops;
            if (event.name == "record_param_comms") remember_host_args(event);
            if (is_timed_operation(event.name)) operations_.on_operation(event, end_ns);
        } else if (category == "cuda_runtime" || category == "Runtime" || category == "cuda_driver") {
            if (event.name.find("Launch") == std::string_view::npos) return;
            ++trace.launches;
            operations_.on_launch(event);
        } else if (event.name.starts_with("ProfilerStep#") && category == "user_annotation") {
            trace.steps_s.push_back(static_cast<double>(event.duration_ps) * 1e-12);
        }
    }

    void finish() {
        for (KinetoCollective& c : trace.collectives)
            c.start_ns += base_ns_;
        if (last_ns_ > first_ns_)
            trace.span_s = (static_cast<double>(last_ns_) - static_cast<double>(first_ns_)) * 1e-9;
        trace.busy_s = busy_.seconds();
        resolve_host_args();
        std::stable_sort(trace.collectives.begin(), trace.collectives.end(),
                         [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
        trace.operations = operations_.finish(trace.kernels);
        trace.operations_without_shapes = operations_.without_shapes();
        std::sort(trace.kernels.begin(), trace.kernels.end(), [](const auto& a, const auto& b) {
            return a.total_s != b.total_s ? a.total_s > b.total_s : a.name < b.name;
        });
        std::sort(trace.copies.begin(), trace.copies.end(), [](const auto& a, const auto& b) {
            return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
        });
    }

    KinetoTrace trace;

  private:
    void read_groups(std::string_view list) {
        js::Members groups(list);
        while (groups.next() && trace.groups.size() < 4096) {
            KinetoGroup group;
            group.name = excerpt(js::text_of(js::find(groups.value(), "pg_name")), 80);
            js::Members ranks(js::find(groups.value(), "ranks"));
            while (ranks.next()) {
                const auto rank = js::integer(ranks.value());
                if (rank && *rank >= 0 && *rank < 1 << 24) group.ranks.push_back(static_cast<int>(*rank));
            }
            trace.groups.push_back(std::move(group));
        }
    }

    void on_device(const ForeignEvent& event, std::int64_t end_ns) {
        ++trace.device_events;
        busy_.add(event.start_ns, end_ns);
    }

    void on_kernel(const ForeignEvent& event, std::int64_t end_ns) {
        on_device(event, end_ns);
        const double seconds = static_cast<double>(event.duration_ps) * 1e-12;
        if (is_collective_kernel(event.name)) {
            KinetoCollective collective = collective_of(event.name, event.args);
            collective.start_ns = event.start_ns;
            collective.duration_s = seconds;
            if (collective.bytes == 0 && !host_args_wanted_full()) {
                if (const auto id = external_id(event.args))
                    wanted_.push_back({*id, trace.collectives.size()});
            }
            trace.collectives.push_back(std::move(collective));
        }
        auto found = kernel_index_.find(event.name);
        if (found == kernel_index_.end()) {
            if (trace.kernels.size() >= kMostNames) return;
            found = kernel_index_.emplace(std::string(event.name), trace.kernels.size()).first;
            trace.kernels.push_back({js::decoded(event.name), 0, 0, seconds, seconds});
        }
        operations_.on_kernel(event, found->second);
        KinetoKernel& kernel = trace.kernels[found->second];
        ++kernel.count;
        kernel.total_s += seconds;
        kernel.shortest_s = std::min(kernel.shortest_s, seconds);
        kernel.longest_s = std::max(kernel.longest_s, seconds);
    }

    void on_copy(const ForeignEvent& event, std::int64_t end_ns) {
        on_device(event, end_ns);
        auto found = copy_index_.find(event.name);
        if (found == copy_index_.end()) {
            if (trace.copies.size() >= kMostNames) return;
            found = copy_index_.emplace(std::string(event.name), trace.copies.size()).first;
            trace.copies.push_back({excerpt(js::decoded(event.name), 80), 0, 0, 0, 0});
        }
        KinetoCopy& copy = trace.copies[found->second];
        const double seconds = static_cast<double>(event.duration_ps) * 1e-12;
        const std::int64_t bytes = std::clamp<std::int64_t>(
            js::integer(js::find(event.args, "bytes")).value_or(0), 0, std::int64_t{1} << 44);
        ++copy.count;
        copy.bytes += bytes;
        copy.total_s += seconds;
        if (bytes >= kLargeCopy && seconds > 0)
            copy.best_rate = std::max(copy.best_rate, static_cast<double>(bytes) / seconds);
    }

    [[nodiscard]] bool host_args_wanted_full() const { return wanted_.size() > (std::size_t{1} << 20); }

    void remember_host_args(const ForeignEvent& event) {
        if (host_args_.size() > (std::size_t{1} << 20)) return;
        const auto id = external_id(event.args);
        if (!id) return;
        KinetoCollective said = collective_of("", event.args);
        if (said.kind || said.bytes > 0) host_args_.emplace(*id, std::move(said));
    }

    void resolve_host_args() {
        for (const auto& [id, index] : wanted_) {
            const auto said = host_args_.find(id);
            if (said == host_args_.end()) continue;
            KinetoCollective& collective = trace.collectives[index];
            if (said->second.kind) collective.kind = said->second.kind;
            collective.bytes = said->second.bytes;
            if (collective.group_size == 0) collective.group_size = said->second.group_size;
            if (collective.group.empty()) collective.group = said->second.group;
        }
    }

    std::int64_t base_ns_ = 0;
    std::int64_t first_ns_ = std::numeric_limits<std::int64_t>::max();
    std::int64_t last_ns_ = std::numeric_limits<std::int64_t>::min();
    BusyTime busy_;
    OperationTimes operations_;
    NameIndex kernel_index_, copy_index_;
    std::unordered_map<std::int64_t, KinetoCollective> host_args_;  // by External id; only looked up
    std::vector<std::pair<std::int64_t, std::size_t>> wanted_;
};

Result<KinetoTrace> collected(Collector& collector, const Result<TraceReadSummary>& read) {
    if (!read) return read.errors();
    collector.finish();
    KinetoTrace& trace = collector.trace;
    trace.events = read->events;
    trace.bytes = read->bytes;
    for (const std::string& warning : read->warnings)
        trace.findings.push_back({read->truncated ? "truncated" : "numbers-missing", warning});
    return std::move(trace);
}

}  // namespace

double KinetoTrace::median_step_s() const {
    if (steps_s.empty()) return 0;
    std::vector<double> sorted = steps_s;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
}

Result<KinetoTrace> read_kineto(const std::filesystem::path& path, const TraceReadOptions& options) {
    Collector collector;
    return collected(collector, read_trace_events(path, collector, options));
}

Result<KinetoTrace> read_kineto_text(std::string_view text, std::string_view name) {
    Collector collector;
    return collected(collector, read_trace_events_text(text, name, collector));
}

}  // namespace tw

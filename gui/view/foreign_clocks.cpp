// Several files on one axis: each has the clock of its own host.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "gui/view/trace_model_builder.hpp"

namespace tw {
namespace {

constexpr std::size_t kFewest = 3;        // collectives that must agree
constexpr SimTime kWorthIt = 20'000'000;  // 20 us: what clocks of one host differ by is left
constexpr double kAgree = 0.25;           // of the offset: how far the collectives may disagree

SimTime median(std::vector<SimTime> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

void TraceModelBuilder::shift_file(std::uint32_t file, SimTime by) {
    if (by == 0) return;
    for (Thread& thread : threads_) {
        if (thread.process.first != file) continue;
        for (ForeignTask& task : thread.tasks) {
            task.start = saturating_add(task.start, by);
            task.finish = saturating_add(task.finish, by);
        }
    }
    for (auto& [key, process] : processes_) {
        if (key.first != file) continue;
        for (MemorySample& sample : process.memory)
            sample.time = saturating_add(sample.time, by);
    }
    for (ForeignFlow& end : flows_)
        if (threads_[end.thread].process.first == file) end.time = saturating_add(end.time, by);
}

// All ranks of a collective leave it together. Those of one kernel are matched in their order, where all
// files have as many.
void TraceModelBuilder::align_files(std::uint32_t files) {
    std::vector<std::map<std::uint32_t, std::vector<SimTime>>> ends(files);  // by name
    for (const Thread& thread : threads_) {
        if (thread.process.first >= files) continue;
        for (const ForeignTask& task : thread.tasks)
            if (task.kind == TaskKind::Communication)
                ends[thread.process.first][task.name].push_back(task.finish);
    }
    for (auto& file : ends)
        for (auto& [name, times] : file)
            std::sort(times.begin(), times.end());
    for (std::uint32_t f = 1; f < files; ++f) {
        std::vector<SimTime> offsets;
        for (const auto& [name, times] : ends[f]) {
            const auto same = ends[0].find(name);
            if (same == ends[0].end() || same->second.size() != times.size()) continue;
            for (std::size_t k = 0; k < times.size(); ++k)
                offsets.push_back(saturating_add(times[k], -same->second[k]));
        }
        if (offsets.size() < kFewest) continue;
        const SimTime offset = median(offsets);
        const std::size_t count = offsets.size();
        for (SimTime& one : offsets)
            one = std::abs(one - offset);
        if (std::abs(offset) < kWorthIt ||
            static_cast<double>(median(std::move(offsets))) > kAgree * static_cast<double>(std::abs(offset)))
            continue;
        shift_file(f, -offset);
        const auto name = files_.find(f);
        warn(
            fmt::format("{}: its clock is {} {} that of the first file by the ends of {} collectives; it was "
                        "shifted by as much",
                        name == files_.end() ? fmt::format("file {}", f + 1) : name->second,
                        format_sim_time(std::abs(offset), 4), offset > 0 ? "ahead of" : "behind", count));
    }
}

}  // namespace tw

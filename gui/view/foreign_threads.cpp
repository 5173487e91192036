// TraceModelBuilder for foreign traces: processes become ranks, threads lanes, files nodes.
#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "base/let_go.hpp"
#include "gui/view/lane_filler.hpp"
#include "gui/view/trace_model_builder.hpp"

namespace tw {

void TraceModelBuilder::set_title(std::string title, std::string origin) {
    title_ = std::move(title);
    origin_ = std::move(origin);
}

std::uint32_t TraceModelBuilder::intern(std::string_view name) {
    if (const auto known = name_ids_.find(name); known != name_ids_.end()) return known->second;
    names_.emplace_back(name);
    const auto id = static_cast<std::uint32_t>(names_.size() - 1);
    name_ids_.emplace(names_.back(), id);
    return id;
}

TraceModelBuilder::ThreadId TraceModelBuilder::thread(std::uint32_t file, std::int64_t process_number,
                                                      std::int64_t number, bool spans) {
    const auto [entry, is_new] = thread_ids_.emplace(std::tuple(file, process_number, number, spans),
                                                     static_cast<ThreadId>(threads_.size()));
    if (is_new) {
        Thread thread;
        thread.process = {file, process_number};
        thread.number = number;
        thread.spans = spans;
        thread.sort = number;
        threads_.push_back(std::move(thread));
        process(file, process_number).threads.push_back(entry->second);
    }
    return entry->second;
}

void TraceModelBuilder::name_file(std::uint32_t file, std::string_view name) {
    files_[file] = name;
}

void TraceModelBuilder::name_process(std::uint32_t file, std::int64_t number, std::string_view name) {
    process(file, number).name = name;
}

void TraceModelBuilder::label_process(std::uint32_t file, std::int64_t number, std::string_view label) {
    process(file, number).label = label;
}

void TraceModelBuilder::sort_process(std::uint32_t file, std::int64_t number, std::int64_t index) {
    process(file, number).sort = index;
}

void TraceModelBuilder::name_thread(std::uint32_t file, std::int64_t process_number, std::int64_t number,
                                    std::string_view name) {
    threads_[thread(file, process_number, number)].name = name;
}

void TraceModelBuilder::sort_thread(std::uint32_t file, std::int64_t process_number, std::int64_t number,
                                    std::int64_t index) {
    threads_[thread(file, process_number, number)].sort = index;
}

void TraceModelBuilder::memory(std::uint32_t file, std::int64_t number, SimTime time,
                               std::string_view category, std::int64_t bytes) {
    auto known = std::find(memory_categories_.begin(), memory_categories_.end(), category);
    if (known == memory_categories_.end()) known = memory_categories_.emplace(known, category);
    const auto c = static_cast<std::size_t>(known - memory_categories_.begin());
    std::vector<MemorySample>& samples = process(file, number).memory;
    if (samples.empty() || samples.back().time != time) {
        MemorySample next;
        if (!samples.empty()) next.bytes = samples.back().bytes;
        next.time = time;
        samples.push_back(std::move(next));
    }
    std::vector<std::int64_t>& values = samples.back().bytes;
    if (values.size() <= c) values.resize(c + 1);
    values[c] = bytes;
}

std::size_t TraceModelBuilder::size() const {
    std::size_t sum = 0;
    for (const Thread& thread : threads_)
        sum += thread.tasks.size();
    return sum;
}

void TraceModelBuilder::add_rank(TraceModel& model, const ProcessKey& key, Process& process) {
    const auto index = static_cast<std::uint32_t>(model.ranks_.size());
    ModelRank rank;
    rank.rank = static_cast<int>(std::clamp<std::int64_t>(key.second, std::numeric_limits<int>::min(),
                                                          std::numeric_limits<int>::max()));
    rank.name = process.name.empty() ? fmt::format("process {}", key.second) : process.name;
    if (!process.label.empty() && process.label != process.name) rank.name += " " + process.label;
    rank.lane_begin = static_cast<std::uint32_t>(model.lanes_.size());
    rank.source = index;
    // The lane with most device work first: it stands for the rank.
    const auto device_work = [&](ThreadId id) {
        SimTime sum = 0;
        for (const ForeignTask& task : threads_[id].tasks)
            if (is_device_work(task.kind)) sum = saturating_add(sum, task.finish - task.start);
        return sum;
    };
    std::vector<ThreadId> order;
    for (const ThreadId id : process.threads)
        if (!threads_[id].tasks.empty()) order.push_back(id);
    std::stable_sort(order.begin(), order.end(), [&](ThreadId a, ThreadId b) {
        return std::tuple(threads_[a].spans, threads_[a].sort) <
               std::tuple(threads_[b].spans, threads_[b].sort);
    });
    std::vector<SimTime> work(order.size());
    std::transform(order.begin(), order.end(), work.begin(), device_work);
    if (!order.empty()) {
        const auto main = std::max_element(work.begin(), work.end()) - work.begin();
        std::rotate(order.begin(), order.begin() + main, order.begin() + main + 1);
    }
    Filler filler{model, {}, {}, {}};
    for (const ThreadId id : order) {
        Thread& thread = threads_[id];
        filler.tasks.reserve(thread.tasks.size());
        for (const ForeignTask& t : thread.tasks)
            filler.tasks.push_back({t.start, t.finish, t.name, t.microbatch, t.stage, t.kind});
        let_go(thread.tasks);
        Lane lane;
        lane.rank = index;
        lane.name = thread.name.empty() ? fmt::format("thread {}", thread.number) : thread.name;
        if (thread.spans) lane.name += " spans";
        thread.lane_begin = static_cast<std::uint32_t>(model.lanes_.size());
        filler.flush(lane);
        thread.lane_end = static_cast<std::uint32_t>(model.lanes_.size());
        filler.tasks = {};
    }
    rank.lane_end = static_cast<std::uint32_t>(model.lanes_.size());
    std::stable_sort(process.memory.begin(), process.memory.end(),
                     [](const MemorySample& a, const MemorySample& b) { return a.time < b.time; });
    for (MemorySample& sample : process.memory)
        sample.bytes.resize(memory_categories_.size());
    rank.memory = std::move(process.memory);
    model.ranks_.push_back(std::move(rank));
}

std::shared_ptr<const TraceModel> TraceModelBuilder::build(const LoadProgress& progress) {
    auto model = std::make_shared<TraceModel>();
    model->title_ = title_;
    model->origin_ = origin_;
    model->memory_categories_ = memory_categories_;
    Filler filler{*model, {}, {}, {}};
    filler.reserve(size());
    std::vector<std::map<ProcessKey, Process>::iterator> order;
    for (auto at = processes_.begin(); at != processes_.end(); ++at) {
        const auto& threads = at->second.threads;
        if (!at->second.memory.empty() || std::any_of(threads.begin(), threads.end(), [&](ThreadId id) {
                return !threads_[id].tasks.empty();
            }))
            order.push_back(at);
    }
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
        return std::tuple(a->first.first, a->second.sort) < std::tuple(b->first.first, b->second.sort);
    });
    std::size_t done = 0;
    for (const auto& at : order) {
        if (progress && !progress(static_cast<double>(done++) / static_cast<double>(order.size()))) return {};
        add_rank(*model, at->first, at->second);
    }
    // Files are the nodes.
    for (std::uint32_t r = 0; r < model->ranks_.size(); ++r) {
        const std::uint32_t file = order[r]->first.first;
        const bool is_new = r == 0 || order[r - 1]->first.first != file;
        if (is_new) {
            const auto name = files_.find(file);
            model->nodes_.push_back({name == files_.end() ? std::string() : name->second, r, r});
        }
        model->nodes_.back().rank_end = r + 1;
        model->ranks_[r].node = static_cast<std::uint32_t>(model->nodes_.size() - 1);
    }
    // The first task is at time 0.
    SimTime first = kNever;
    for (const Lane& lane : model->lanes_)
        if (lane.begin < lane.end) first = std::min(first, model->start_[lane.begin]);
    if (first == kNever) first = 0;
    for (SimTime& t : model->start_)
        t -= first;
    for (SimTime& t : model->finish_)
        t -= first;
    for (ModelRank& rank : model->ranks_)
        for (MemorySample& sample : rank.memory)
            sample.time -= first;
    std::sort(step_ends_.begin(), step_ends_.end());
    for (const SimTime end : step_ends_)
        model->step_ends_.push_back(end - first);
    model->names_.assign(std::make_move_iterator(names_.begin()), std::make_move_iterator(names_.end()));
    filler.finish();
    bind_flows(*model, first);
    model->warnings_ = std::move(warnings_);
    *this = TraceModelBuilder();
    return model;
}

}  // namespace tw

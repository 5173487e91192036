// Collects tasks in any order and makes a TraceModel of them: sorts each lane by time, moves what overlaps to
// lanes of greater depth, and groups lanes by rank and node.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gui/view/trace_model.hpp"

namespace tw {

// Called now and then with the share that is done; false cancels.
using LoadProgress = std::function<bool(double share)>;

struct ForeignTask {
    SimTime start = 0, finish = 0;
    std::uint32_t name = 0;  // TraceModelBuilder::intern
    std::int32_t microbatch = kNoMicrobatch;
    std::uint16_t stage = 0;
    TaskKind kind = TaskKind::Annotation;
};

// An end of an arrow between two tasks of a foreign trace, as its file has it: an instant on a thread.
struct ForeignFlow {
    enum class Part : std::uint8_t { Begin, Step, End, EndAtNext };  // the last: at the next task to begin
    SimTime time = 0;
    std::uint64_t key = 0;  // the same for the ends of one arrow
    std::uint32_t thread = 0;
    Part part = Part::Begin;
};

// Foreign traces: threads of processes, named as they come.
class TraceModelBuilder {
  public:
    using ThreadId = std::uint32_t;

    void set_title(std::string title, std::string origin);
    std::uint32_t intern(std::string_view name);
    // The thread of a process of one file (a node of the timeline); made when it is first asked for.
    // `spans` keeps the named spans of a device stream apart from its kernels.
    ThreadId thread(std::uint32_t file, std::int64_t process, std::int64_t thread, bool spans = false);
    void add(ThreadId thread, const ForeignTask& task) { threads_[thread].tasks.push_back(task); }
    void add_flow(const ForeignFlow& end) { flows_.push_back(end); }
    void name_file(std::uint32_t file, std::string_view name);
    void name_process(std::uint32_t file, std::int64_t process, std::string_view name);
    void label_process(std::uint32_t file, std::int64_t process, std::string_view label);
    void sort_process(std::uint32_t file, std::int64_t process, std::int64_t index);
    void name_thread(std::uint32_t file, std::int64_t process, std::int64_t thread, std::string_view name);
    void sort_thread(std::uint32_t file, std::int64_t process, std::int64_t thread, std::int64_t index);
    // A memory counter of a process; categories by name.
    void memory(std::uint32_t file, std::int64_t process, SimTime time, std::string_view category,
                std::int64_t bytes);
    void step_end(SimTime time) { step_ends_.push_back(time); }
    // Everything of a file that has been added so far, later by `by`.
    void shift_file(std::uint32_t file, SimTime by);
    // Shifts the files whose collectives end at other times than those of file 0, with a warning each.
    void align_files(std::uint32_t files);
    void warn(std::string warning) { warnings_.push_back(std::move(warning)); }
    [[nodiscard]] std::size_t size() const;

    // Null where progress said to cancel. Time begins at 0 with the first task. The builder is empty then.
    std::shared_ptr<const TraceModel> build(const LoadProgress& progress = {});

    // Our own traces.
    static std::shared_ptr<const TraceModel> build(std::shared_ptr<const Trace> trace);

  private:
    using ProcessKey = std::pair<std::uint32_t, std::int64_t>;
    struct Thread {
        ProcessKey process;
        std::int64_t number = 0;
        bool spans = false;
        std::string name;
        std::int64_t sort = 0;
        std::vector<ForeignTask> tasks;
        std::uint32_t lane_begin = 0, lane_end = 0;  // in the model, once it is built
    };
    struct Process {
        std::string name, label;
        std::int64_t sort = 0;
        std::vector<ThreadId> threads;
        std::vector<MemorySample> memory;
    };

    struct Filler;
    Process& process(std::uint32_t file, std::int64_t number) { return processes_[{file, number}]; }
    void add_rank(TraceModel& model, const ProcessKey& key, Process& process);
    void bind_flows(TraceModel& model, SimTime shift);
    [[nodiscard]] TaskId task_of(const TraceModel& model, const ForeignFlow& end) const;

    std::string title_, origin_;
    std::map<ProcessKey, Process> processes_;
    std::map<std::uint32_t, std::string> files_;
    std::map<std::tuple<std::uint32_t, std::int64_t, std::int64_t, bool>, ThreadId> thread_ids_;
    std::deque<Thread> threads_;
    std::deque<std::string> names_;
    std::unordered_map<std::string_view, std::uint32_t> name_ids_;
    std::vector<std::string> memory_categories_;
    std::vector<SimTime> step_ends_;
    std::vector<ForeignFlow> flows_;
    std::vector<std::string> warnings_;
};

}  // namespace tw

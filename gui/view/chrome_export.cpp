#include "gui/view/chrome_export.hpp"

#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "base/json.hpp"
#include "plan/trace/chrome.hpp"

namespace tw {
namespace {

std::string quoted(const std::string& text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Microseconds: 1234567 ps is "1.234567".
std::string microseconds(SimTime time) {
    const SimTime size = time < 0 ? -time : time;
    return fmt::format("{}{}.{:06}", time < 0 ? "-" : "", size / 1'000'000, size % 1'000'000);
}

// The category from which foreign_kind makes the kind again.
std::string_view category_of(TaskKind kind) {
    if (static_cast<int>(kind) < kWorkKinds) return short_name(static_cast<Work>(kind));
    switch (kind) {
        case TaskKind::CpuOp:
            return "cpu_op";
        case TaskKind::Annotation:
            return "user_annotation";
        default:
            return "kernel";
    }
}

class ModelWriter {
  public:
    ModelWriter(const TraceModel& model, std::ostream& out) : model_(model), out_(out) {}

    void write() {
        out_ << "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"title\":" << quoted(model_.title())
             << ",\"origin\":" << quoted(model_.origin()) << "},\n\"traceEvents\":[";
        for (std::size_t r = 0; r < model_.ranks().size(); ++r)
            write_rank(r);
        write_arrows();
        for (std::size_t s = 0; s < model_.step_ends().size(); ++s)
            emit(fmt::format(R"({{"ph":"i","s":"g","name":"end of step {}","pid":0,"tid":0,"ts":{}}})", s,
                             microseconds(model_.step_ends()[s])));
        out_ << "\n]}\n";
    }

  private:
    void emit(const std::string& event) {
        out_ << (any_ ? ",\n" : "\n") << event;
        any_ = true;
    }
    void name(std::string_view what, std::size_t process, std::size_t thread, const std::string& text,
              std::size_t order) {
        emit(fmt::format(R"({{"ph":"M","name":"{}_name","pid":{},"tid":{},"args":{{"name":{}}}}})", what,
                         process, thread, quoted(text)));
        emit(
            fmt::format(R"({{"ph":"M","name":"{}_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
                        what, process, thread, order));
    }

    void write_rank(std::size_t r) {
        const ModelRank& rank = model_.ranks()[r];
        const std::string& node = model_.nodes()[rank.node].name;
        name("process", r, 0, node.empty() ? rank.name : node + ": " + rank.name, r);
        for (std::uint32_t l = rank.lane_begin; l < rank.lane_end; ++l) {
            const Lane& lane = model_.lanes()[l];
            // Greater depths are of the thread before them.
            if (lane.depth == 0 || l == rank.lane_begin) {
                thread_ = l - rank.lane_begin;
                name("thread", r, thread_, lane.name, thread_);
            }
            thread_of_lane_.push_back(thread_);
            for (TaskId task = lane.begin; task < lane.end; ++task)
                emit(fmt::format(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":{}}})",
                                 quoted(model_.name(task)), category_of(model_.kind(task)), r, thread_,
                                 microseconds(model_.start(task)), microseconds(model_.duration(task))));
        }
        const std::vector<std::string>& categories = model_.memory_categories();
        for (const MemorySample& sample : model_.memory(r)) {
            std::string args;
            for (std::size_t c = 0; c < std::min(categories.size(), sample.bytes.size()); ++c)
                args += fmt::format("{}{}:{}", c > 0 ? "," : "", quoted(categories[c]), sample.bytes[c]);
            emit(fmt::format(
                R"x({{"ph":"C","name":"memory (bytes)","pid":{},"tid":0,"ts":{},"args":{{{}}}}})x", r,
                microseconds(sample.time), args));
        }
    }

    void write_arrows() {
        if (model_.flows() == nullptr) return;
        const Meetings& met = *model_.flows();
        for (std::size_t m = 0; m + 1 < met.begin.size(); ++m)
            for (std::uint32_t at = met.begin[m]; at < met.begin[m + 1]; ++at) {
                const bool first = at == met.begin[m], last = at + 1 == met.begin[m + 1];
                const TaskId task = met.members[at];
                const std::uint32_t lane = model_.lane_of(task);
                emit(fmt::format(
                    R"({{"ph":"{}","id":{},"name":"arrow","cat":"flow","pid":{},"tid":{},"ts":{}{}}})",
                    first  ? 's'
                    : last ? 'f'
                           : 't',
                    m, model_.lanes()[lane].rank, thread_of_lane_[lane], microseconds(model_.start(task)),
                    last ? R"(,"bp":"e")" : ""));
            }
    }

    const TraceModel& model_;
    std::ostream& out_;
    std::size_t thread_ = 0;
    std::vector<std::size_t> thread_of_lane_;
    bool any_ = false;
};

}  // namespace

void write_chrome(const TraceModel& model, std::ostream& out) {
    if (model.source() != nullptr) return write_chrome_trace(*model.source(), out);
    ModelWriter(model, out).write();
}

}  // namespace tw

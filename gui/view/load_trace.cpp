#include "gui/view/load_trace.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <unordered_set>

#include <fmt/format.h>

#include "models/formats/json_slice.hpp"
#include "models/formats/kineto_args.hpp"
#include "models/formats/trace_events.hpp"
#include "plan/trace/trace_json.hpp"

namespace tw {
namespace {

constexpr std::string_view kOwnSchema = "\"trainwright/trace\"";

// Events of one file into a builder.
class ChromeLoader final : public TraceVisitor {
  public:
    ChromeLoader(TraceModelBuilder& builder, std::uint32_t file, std::optional<std::int64_t>& origin_ns)
        : builder_(builder), file_(file), origin_ns_(origin_ns) {}

    void on_event(const ForeignEvent& event) override {
        switch (event.phase) {
            case 'X':
                if (event.timed) complete(event);
                break;
            case 'B':
                if (event.timed) begin(event);
                break;
            case 'E':
                if (event.timed) end(event);
                break;
            case 'i':
            case 'I':
                if (event.timed) instant(event);
                break;
            case 'C':
                if (event.timed) counter(event);
                break;
            case 'M':
                metadata(event);
                break;
            case 's':
                if (event.timed) flow(event, ForeignFlow::Part::Begin);
                break;
            case 't':
                if (event.timed) flow(event, ForeignFlow::Part::Step);
                break;
            case 'f':
                if (event.timed)
                    flow(event,
                         event.binds_enclosing ? ForeignFlow::Part::End : ForeignFlow::Part::EndAtNext);
                break;
            default:
                break;
        }
    }

    void on_member(std::string_view key, std::string_view value) override {
        if (key == "distributedInfo") rank_ = json_slice::integer(json_slice::find(value, "rank"));
        if (key == "baseTimeNanoseconds") base_ns_ = json_slice::integer(value).value_or(0);
        if (key == "otherData") {
            title_ = json_slice::text_of(json_slice::find(value, "title"));
            origin_ = json_slice::text_of(json_slice::find(value, "origin"));
        }
        if (key == "schemaVersion") origin_ = "PyTorch";
    }

    void finish() {
        std::size_t open = 0;
        for (const auto& [thread, stack] : open_)
            open += stack.size();
        if (open > 0) builder_.warn(fmt::format("{} spans that begin and do not end were left out", open));
    }

    [[nodiscard]] std::optional<std::int64_t> rank() const { return rank_; }
    [[nodiscard]] std::int64_t base_ns() const { return base_ns_; }  // that all times are relative to
    [[nodiscard]] const std::string& title() const { return title_; }
    [[nodiscard]] const std::string& origin() const { return origin_; }

  private:
    struct Known {  // what a name means under a category
        std::string category;
        TaskKind kind = TaskKind::Annotation;
        NamedPlace place;
    };

    SimTime time_of(const ForeignEvent& event) {
        if (!origin_ns_) origin_ns_ = event.start_ns;
        return event.start_since_ps(*origin_ns_);
    }

    // Numbers as they are; words get numbers of their own.
    std::int64_t number_of(std::string_view text, bool process) {
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc{} && end == text.data() + text.size()) return value;
        constexpr std::int64_t kFirst = std::int64_t{1} << 40;
        const auto [known, is_new] =
            words_.emplace(std::string(text), kFirst + static_cast<std::int64_t>(words_.size()));
        if (is_new && process && !text.empty())
            builder_.name_process(file_, known->second, json_slice::decoded(text));
        return known->second;
    }

    TraceModelBuilder::ThreadId thread_of(const ForeignEvent& event, bool spans) {
        // Most events come from few threads: a small cache by their text.
        const std::size_t hash = std::hash<std::string_view>()(event.tid) * 31 +
                                 std::hash<std::string_view>()(event.pid) * 2 + (spans ? 1 : 0);
        CachedThread& slot = cache_[hash % cache_.size()];
        if (slot.used && slot.spans == spans && slot.pid == event.pid && slot.tid == event.tid)
            return slot.id;
        slot.used = true;
        slot.spans = spans;
        slot.pid = event.pid;
        slot.tid = event.tid;
        const std::int64_t process = number_of(event.pid, true);
        slot.id = builder_.thread(file_, process, number_of(event.tid, false), spans);
        return slot.id;
    }

    ForeignTask task_of(const ForeignEvent& event) {
        ForeignTask task;
        task.start = time_of(event);
        // Most names need no decoding, and an escaped name is another name than its decoded form only in the
        // table.
        const bool escaped = event.name.find('\\') != std::string_view::npos;
        task.name = escaped ? builder_.intern(json_slice::decoded(event.name)) : builder_.intern(event.name);
        if (known_.size() <= task.name) known_.resize(task.name + 1);
        Known& known = known_[task.name];
        if (known.category != event.category || known.category.empty()) {
            known.category = event.category;
            known.kind = foreign_kind(event.category, event.name);
            known.place = place_in_name(event.name);
        }
        task.kind = known.kind;
        if (known.place.microbatch >= 0) task.microbatch = known.place.microbatch;
        if (known.place.stage >= 0) task.stage = static_cast<std::uint16_t>(known.place.stage);
        return task;
    }

    void complete(const ForeignEvent& event) {
        ForeignTask task = task_of(event);
        if (task.kind == TaskKind::Communication && sends_or_receives(event))
            task.kind = TaskKind::PipelineTransfer;
        if (task.kind == TaskKind::CpuOp) remember_operation(event);
        task.finish = task.start + std::max<std::int64_t>(0, event.duration_ps);
        const auto thread = thread_of(event, event.category == "gpu_user_annotation");
        builder_.add(thread, task);
        if (event.bind_id.empty() || !(event.flow_in || event.flow_out)) return;
        const auto part = event.flow_in && event.flow_out ? ForeignFlow::Part::Step
                          : event.flow_in                 ? ForeignFlow::Part::End
                                                          : ForeignFlow::Part::Begin;
        builder_.add_flow({task.start, flow_key({"bind", event.bind_id}), thread, part});
    }

    // A SendRecv kernel is a pipeline's transfer where its collective, or the operation that launched it,
    // sends or receives.
    bool sends_or_receives(const ForeignEvent& event) const {
        if (event.name.find("SendRecv") == std::string_view::npos) return false;
        const std::string_view said = json_slice::find(event.args, "Collective name");
        if (!said.empty()) return is_send_or_receive(json_slice::unquoted(said));
        const auto id = external_id(event.args);
        return id && transfers_.contains(*id);
    }

    void remember_operation(const ForeignEvent& event) {
        const bool record = event.name == "record_param_comms";
        if (!record && !is_send_or_receive(event.name)) return;
        if (record &&
            !is_send_or_receive(json_slice::unquoted(json_slice::find(event.args, "Collective name"))))
            return;
        if (const auto id = external_id(event.args)) transfers_.insert(*id);
    }

    void flow(const ForeignEvent& event, ForeignFlow::Part part) {
        // Arrows of one number are apart where category or name differ.
        const std::uint64_t key = flow_key({event.category, event.name, event.id});
        builder_.add_flow({time_of(event), key, thread_of(event, false), part});
    }

    // FNV-1a: the same on every machine.
    [[nodiscard]] std::uint64_t flow_key(std::initializer_list<std::string_view> words) const {
        std::uint64_t hash = 14695981039346656037ULL ^ file_;
        const auto mix = [&hash](unsigned char c) { hash = (hash ^ c) * 1099511628211ULL; };
        for (const std::string_view word : words) {
            for (const char c : word)
                mix(static_cast<unsigned char>(c));
            mix(0);
        }
        return hash;
    }

    void begin(const ForeignEvent& event) { open_[thread_of(event, false)].push_back(task_of(event)); }

    void end(const ForeignEvent& event) {
        const auto thread = thread_of(event, false);
        std::vector<ForeignTask>& stack = open_[thread];
        if (stack.empty()) {
            builder_.warn("spans that end without having begun were left out");
            return;
        }
        stack.back().finish = std::max(stack.back().start, time_of(event));
        builder_.add(thread, stack.back());
        stack.pop_back();
    }

    void instant(const ForeignEvent& event) {
        if (event.name.starts_with("end of step ")) {
            builder_.step_end(time_of(event));
        } else if (event.name == "[memory]") {
            kineto_memory(event);
        }
    }

    void kineto_memory(const ForeignEvent& event) {
        const auto device = json_slice::integer(json_slice::find(event.args, "Device Id"));
        const auto allocated = json_slice::integer(json_slice::find(event.args, "Total Allocated"));
        const auto reserved = json_slice::integer(json_slice::find(event.args, "Total Reserved"));
        if (!device || *device < 0 || !allocated) return;
        const SimTime time = time_of(event);
        builder_.memory(file_, *device, time, "allocated", *allocated);
        if (reserved) {
            builder_.memory(file_, *device, time, "reserved beyond that",
                            std::max<std::int64_t>(0, *reserved - *allocated));
        }
    }

    void counter(const ForeignEvent& event) {
        if (event.name.find("memory") == std::string_view::npos &&
            event.name.find("bytes") == std::string_view::npos)
            return;
        const SimTime time = time_of(event);
        const std::int64_t process = number_of(event.pid, true);
        json_slice::Members members(event.args);
        while (members.next()) {
            if (const auto bytes = json_slice::integer(members.value()))
                builder_.memory(file_, process, time, json_slice::decoded(members.key()), *bytes);
        }
    }

    void metadata(const ForeignEvent& event) {
        const std::int64_t process = number_of(event.pid, true);
        const std::string name = json_slice::text_of(json_slice::find(event.args, "name"));
        const auto sort = json_slice::integer(json_slice::find(event.args, "sort_index"));
        if (event.name == "process_name") builder_.name_process(file_, process, name);
        if (event.name == "process_labels")
            builder_.label_process(file_, process,
                                   json_slice::text_of(json_slice::find(event.args, "labels")));
        if (event.name == "process_sort_index" && sort) builder_.sort_process(file_, process, *sort);
        if (event.name != "thread_name" && event.name != "thread_sort_index") return;
        const std::int64_t thread = number_of(event.tid, false);
        if (event.name == "thread_name") builder_.name_thread(file_, process, thread, name);
        if (event.name == "thread_sort_index" && sort) builder_.sort_thread(file_, process, thread, *sort);
    }

    struct CachedThread {
        bool used = false, spans = false;
        std::string pid, tid;
        TraceModelBuilder::ThreadId id = 0;
    };

    TraceModelBuilder& builder_;
    std::uint32_t file_;
    std::optional<std::int64_t>& origin_ns_;
    std::optional<std::int64_t> rank_;
    std::int64_t base_ns_ = 0;
    std::unordered_set<std::int64_t> transfers_;  // external ids of sends and receives; asked, never walked
    std::string title_, origin_;
    std::map<std::string, std::int64_t, std::less<>> words_;
    std::vector<Known> known_;  // by interned name
    std::map<TraceModelBuilder::ThreadId, std::vector<ForeignTask>> open_;
    std::array<CachedThread, 256> cache_;
};

Result<std::string> head_of(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return Error{ErrorCode::Unreadable, "cannot be opened", path.string(), {}};
    std::string head(std::size_t{64} << 10U, '\0');
    in.read(head.data(), static_cast<std::streamsize>(head.size()));
    head.resize(static_cast<std::size_t>(in.gcount()));
    return head;
}

Result<std::shared_ptr<const TraceModel>> load_own(const std::filesystem::path& path,
                                                   const LoadProgress& progress) {
    if (progress && !progress(0)) return Error{ErrorCode::Interrupted, "given up", path.string(), {}};
    Result<Trace> trace = read_trace(path.string());
    if (!trace) return trace.errors();
    if (progress && !progress(0.9)) return Error{ErrorCode::Interrupted, "given up", path.string(), {}};
    auto aligned = std::make_shared<Trace>(align_clocks(std::move(*trace)));
    if (aligned->title.empty()) aligned->title = path.filename().string();
    return make_trace_model(std::move(aligned));
}

}  // namespace

std::optional<TracedRank> traced_rank(std::string_view head) {
    const std::size_t at = head.find("\"distributedInfo\"");
    if (at == std::string_view::npos || !looks_like_trace_events(head)) return std::nullopt;
    std::string_view value = head.substr(head.find(':', at) + 1);
    value = value.substr(std::min(value.find('{'), value.size()));
    value = value.substr(0, std::min(value.find('}'), value.size()));  // before the groups, which nest
    const auto number = [&](std::string_view key) -> std::optional<std::int64_t> {
        const std::size_t found = value.find("\"" + std::string(key) + "\"");
        if (found == std::string_view::npos) return std::nullopt;
        const std::size_t digits = value.find_first_of("0123456789-", value.find(':', found));
        if (digits == std::string_view::npos) return std::nullopt;
        const std::size_t end = value.find_first_not_of("0123456789-", digits);
        return json_slice::integer(value.substr(digits, end - digits));
    };
    const auto rank = number("rank"), world = number("world_size");
    if (!rank || !world || *rank < 0 || *world < 2 || *rank >= *world) return std::nullopt;
    return TracedRank{*rank, *world};
}

bool looks_like_trace(std::string_view head) {
    return head.find(kOwnSchema) != std::string_view::npos || looks_like_trace_events(head);
}

Result<std::shared_ptr<const TraceModel>> load_trace_model(std::span<const std::filesystem::path> files,
                                                           const LoadProgress& progress) {
    TW_CHECK(!files.empty());
    const Result<std::string> head = head_of(files.front());
    if (!head) return head.errors();
    if (head->find(kOwnSchema) != std::string::npos) {
        if (files.size() > 1) {
            return Error{ErrorCode::Usage, "documents of ours hold all their ranks and open one at a time",
                         files[1].string(), "open them one after the other, or compare two"};
        }
        return load_own(files.front(), progress);
    }
    TraceModelBuilder builder;
    std::optional<std::int64_t> origin_ns, first_base_ns;
    std::string title;
    std::string origin = "a foreign trace";
    constexpr double kReading = 0.85;  // of the time; the rest sorts
    for (std::uint32_t f = 0; f < files.size(); ++f) {
        ChromeLoader loader(builder, f, origin_ns);
        TraceReadOptions options;
        if (progress) {
            options.progress = [&](std::int64_t read, std::int64_t size) {
                const double share = size > 0 ? static_cast<double>(read) / static_cast<double>(size) : 0;
                return progress(kReading * (f + std::min(share, 1.0)) / static_cast<double>(files.size()));
            };
        }
        const Result<TraceReadSummary> summary = read_trace_events(files[f], loader, options);
        if (!summary) return summary.errors();
        loader.finish();
        for (const std::string& warning : summary->warnings)
            builder.warn(warning);
        if (summary->truncated) builder.warn("the file ends before its events do");
        if (summary->untimed > 0)
            builder.warn(fmt::format("{} events without a time were left out", summary->untimed));
        const std::string name = files[f].filename().string();
        if (loader.rank()) {
            builder.name_file(f, fmt::format("rank {}", *loader.rank()));
        } else if (files.size() > 1) {
            builder.name_file(f, name);
        }
        if (!first_base_ns) first_base_ns = loader.base_ns();
        constexpr std::int64_t kFurthest_ns = 1'000'000'000'000'000;  // 11 days: no other part of a run
        if (const std::int64_t later = loader.base_ns() - *first_base_ns; std::abs(later) < kFurthest_ns)
            builder.shift_file(f, later * 1000);
        if (f == 0) title = loader.title().empty() ? name : loader.title();
        if (!loader.origin().empty()) origin = loader.origin();
    }
    if (builder.size() == 0) {
        return Error{ErrorCode::Unreadable, "holds no event that takes time", files.front().string(),
                     "complete events (\"ph\": \"X\") make a timeline"};
    }
    builder.set_title(files.size() > 1 ? fmt::format("{} and {} more", title, files.size() - 1) : title,
                      origin);
    if (files.size() > 1) builder.align_files(static_cast<std::uint32_t>(files.size()));
    const LoadProgress rest =
        progress ? LoadProgress([&](double share) { return progress(kReading + (1 - kReading) * share); })
                 : LoadProgress();
    auto model = builder.build(rest);
    if (model == nullptr) return Error{ErrorCode::Interrupted, "given up", files.front().string(), {}};
    return model;
}

}  // namespace tw

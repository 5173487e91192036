#include "gui/view/task_search.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <tuple>

#include <fmt/format.h>

#include "base/si_format.hpp"

namespace tw {
namespace {

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
}

bool read_int(std::string_view text, std::int64_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size();
}

Result<TaskQuery::Between> read_between(std::string_view key, std::string_view text) {
    TaskQuery::Between out;
    const std::size_t dash = text.find('-', 1);
    const bool good = dash == std::string_view::npos ? read_int(text, out.low) && read_int(text, out.high)
                                                     : read_int(text.substr(0, dash), out.low) &&
                                                           read_int(text.substr(dash + 1), out.high);
    if (good && out.low <= out.high) return out;
    return Error{ErrorCode::Usage, fmt::format("\"{}\" is no number and no range", text), std::string(key),
                 fmt::format("{}:3 or {}:2-5", key, key)};
}

bool any_holds(const std::vector<TaskQuery::Between>& wanted, std::int64_t value) {
    return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&](const TaskQuery::Between& b) {
               return value >= b.low && value <= b.high;
           });
}

// One word of a query; an error where it asks for something unknown.
Status read_word(std::string_view word, TaskQuery& query) {
    if (word.size() > 1 && (word.front() == '>' || word.front() == '<')) {
        const Result<double> limit = parse_duration(word.substr(1));
        if (!limit) return limit.errors();
        const SimTime time = to_sim_time(Seconds(*limit));
        query.durations.push_back(word.front() == '>' ? TaskQuery::Between{time + 1, kNever}
                                                      : TaskQuery::Between{-kNever, time - 1});
        return ok();
    }
    const std::size_t colon = word.find(':');
    if (colon == std::string_view::npos || colon == 0 || colon + 1 == word.size() ||
        word.find("::") != std::string_view::npos) {
        query.words.push_back(lower(word));
        return ok();
    }
    const std::string key = lower(word.substr(0, colon));
    const std::string_view value = word.substr(colon + 1);
    if (key == "kind") {
        TaskKind kind{};
        if (find_kind(lower(value), kind)) {
            query.kinds.push_back(kind);
            return ok();
        }
        std::string names;
        for (int k = 0; k < kTaskKinds; ++k)
            names += fmt::format("{}{}", k > 0 ? ", " : "", title(static_cast<TaskKind>(k)));
        return Error{ErrorCode::Usage, fmt::format("no kind \"{}\"", value), "kind", "one of " + names};
    }
    if (key == "lane") {
        query.lanes.push_back(lower(value));
        return ok();
    }
    std::vector<TaskQuery::Between>* where = key == "mb"      ? &query.microbatches
                                             : key == "stage" ? &query.stages
                                             : key == "rank"  ? &query.ranks
                                             : key == "step"  ? &query.steps
                                                              : nullptr;
    if (where == nullptr) {
        // Names of foreign tasks have colons of their own.
        query.words.push_back(lower(word));
        return ok();
    }
    Result<TaskQuery::Between> between = read_between(key, value);
    if (!between) return between.errors();
    where->push_back(*between);
    return ok();
}

}  // namespace

bool TaskQuery::empty() const {
    return words.empty() && microbatches.empty() && stages.empty() && ranks.empty() && steps.empty() &&
           durations.empty() && kinds.empty() && lanes.empty();
}

Result<TaskQuery> parse_query(std::string_view text) {
    TaskQuery query;
    Errors errors;
    while (!text.empty()) {
        const std::size_t first = text.find_first_not_of(' ');
        if (first == std::string_view::npos) break;
        const std::size_t last = std::min(text.find(' ', first), text.size());
        if (const Status status = read_word(text.substr(first, last - first), query); !status)
            errors.insert(errors.end(), status.errors().begin(), status.errors().end());
        text.remove_prefix(last);
    }
    if (!errors.empty()) return errors;
    return query;
}

TaskSearch::TaskSearch(std::shared_ptr<const TraceModel> model, TaskQuery query)
    : model_(std::move(model)), query_(std::move(query)) {}

bool TaskSearch::step(std::size_t budget) {
    if (model_ == nullptr) return true;
    const std::size_t last = std::min(model_->size(), next_ + budget);
    while (next_ < last) {
        const Lane& lane = model_->lanes()[lane_];
        if (next_ >= lane.end) {
            ++lane_;
            continue;
        }
        if (!lane_matches(lane)) {
            next_ = lane.end;
            continue;
        }
        const std::size_t stop = std::min<std::size_t>(last, lane.end);
        for (; next_ < stop; ++next_) {
            const auto task = static_cast<TaskId>(next_);
            if (matches(task, lane)) matches_.push_back(task);
        }
    }
    if (!done()) return false;
    std::sort(matches_.begin(), matches_.end(), [&](TaskId a, TaskId b) {
        return std::tuple(model_->start(a), a) < std::tuple(model_->start(b), b);
    });
    return true;
}

bool TaskSearch::lane_matches(const Lane& lane) const {
    if (!any_holds(query_.ranks, model_->ranks()[lane.rank].rank)) return false;
    return std::all_of(query_.lanes.begin(), query_.lanes.end(), [&](const std::string& word) {
        return lower(lane.name).find(word) != std::string::npos;
    });
}

bool TaskSearch::matches(TaskId task, const Lane&) const {
    if (!query_.kinds.empty() &&
        std::find(query_.kinds.begin(), query_.kinds.end(), model_->kind(task)) == query_.kinds.end())
        return false;
    if (!query_.durations.empty()) {
        const SimTime duration = model_->duration(task);
        for (const TaskQuery::Between& b : query_.durations)
            if (duration < b.low || duration > b.high) return false;
    }
    if (!any_holds(query_.microbatches, model_->microbatch(task))) return false;
    if (!any_holds(query_.stages, model_->stage(task))) return false;
    if (!query_.steps.empty()) {
        const TraceEvent* event = model_->event(task);
        if (event == nullptr || !any_holds(query_.steps, event->step)) return false;
    }
    return query_.words.empty() || name_matches(task);
}

bool TaskSearch::name_matches(TaskId task) const {
    const std::uint64_t key = model_->name_key(task);
    const auto known = names_.find(key);
    if (known != names_.end()) return known->second;
    const std::string name = lower(model_->name(task));
    const bool found = std::all_of(query_.words.begin(), query_.words.end(), [&](const std::string& word) {
        return name.find(word) != std::string::npos;
    });
    names_.emplace(key, found);
    return found;
}

std::size_t TaskSearch::after(TaskId task, SimTime time) const {
    const auto key =
        task == kNoTask ? std::tuple(time, TaskId{0}) : std::tuple(model_->start(task), task + 1);
    const auto at = std::partition_point(matches_.begin(), matches_.end(),
                                         [&](TaskId m) { return std::tuple(model_->start(m), m) < key; });
    return at == matches_.end() ? 0 : static_cast<std::size_t>(at - matches_.begin());
}

std::size_t TaskSearch::before(TaskId task, SimTime time) const {
    const auto key = task == kNoTask ? std::tuple(time, TaskId{0}) : std::tuple(model_->start(task), task);
    const auto at = std::partition_point(matches_.begin(), matches_.end(),
                                         [&](TaskId m) { return std::tuple(model_->start(m), m) < key; });
    return (at == matches_.begin() ? matches_.size() : static_cast<std::size_t>(at - matches_.begin())) - 1;
}

}  // namespace tw

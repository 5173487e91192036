#include "models/formats/kineto_operations.hpp"

#include <algorithm>
#include <array>

#include "models/formats/json_slice.hpp"
#include "models/formats/kineto_args.hpp"
#include "models/hardware/sample_statistics.hpp"

namespace tw {
namespace {

namespace js = json_slice;

constexpr std::size_t kMost = std::size_t{1} << 22;
constexpr std::size_t kMostShapes = 20'000;  // more is no training step
constexpr std::size_t kMostTimes = 256;      // of one shape: medians of so many suffice
constexpr std::size_t kMostInputs = 32, kMostDims = 8;

constexpr std::array<std::string_view, 17> kTimed = {"aten::mm",
                                                     "aten::addmm",
                                                     "aten::bmm",
                                                     "aten::baddbmm",
                                                     "aten::_scaled_mm",
                                                     "aten::_scaled_dot_product_flash_attention",
                                                     "aten::_scaled_dot_product_flash_attention_backward",
                                                     "aten::_scaled_dot_product_cudnn_attention",
                                                     "aten::_scaled_dot_product_cudnn_attention_backward",
                                                     "aten::_flash_attention_forward",
                                                     "aten::_flash_attention_backward",
                                                     "aten::_cudnn_attention_forward",
                                                     "aten::_cudnn_attention_backward",
                                                     "aten::native_layer_norm",
                                                     "aten::native_layer_norm_backward",
                                                     "aten::_fused_rms_norm",
                                                     "aten::_fused_rms_norm_backward"};

// "[[2, 3], [], [[1], [2]]]": lists of lists (of tensors) count as empty.
std::vector<std::vector<std::int64_t>> lists_of(std::string_view text) {
    std::vector<std::vector<std::int64_t>> lists;
    if (text.empty() || text.front() != '[') return lists;
    js::Members outer(text);
    while (outer.next() && lists.size() < kMostInputs) {
        lists.emplace_back();
        if (outer.value().empty() || outer.value().front() != '[') continue;
        js::Members inner(outer.value());
        while (inner.next() && lists.back().size() < kMostDims) {
            const auto number = js::integer(inner.value());
            if (!number || *number < 0 || *number > std::int64_t{1} << 40) {
                lists.back().clear();
                break;
            }
            lists.back().push_back(*number);
        }
    }
    return lists;
}

std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    if (text.empty() || text.front() != '[') return words;
    js::Members members(text);
    while (members.next() && words.size() < kMostInputs)
        words.push_back(js::text_of(members.value().substr(0, 64)));
    return words;
}

}  // namespace

bool is_timed_operation(std::string_view name) {
    return std::find(kTimed.begin(), kTimed.end(), name) != kTimed.end();
}

std::uint32_t OperationTimes::thread_of(const ForeignEvent& event) {
    std::string name(event.pid);
    name += ' ';
    name += event.tid;
    return threads_.emplace(std::move(name), static_cast<std::uint32_t>(threads_.size())).first->second;
}

void OperationTimes::on_operation(const ForeignEvent& event, std::int64_t end_ns) {
    const std::string_view dims = js::find(event.args, "Input Dims");
    if (dims.empty()) {
        ++without_shapes_;
        return;
    }
    if (operations_.size() >= kMost) return;
    const std::string_view types = js::find(event.args, "Input type");
    const std::string_view strides = js::find(event.args, "Input Strides");
    const std::string_view concrete = js::find(event.args, "Concrete Inputs");
    std::string key;
    for (const std::string_view part : {std::string_view(event.name), dims, types, strides, concrete})
        key.append(part).append("\n");
    auto known = keys_.find(key);
    if (known == keys_.end()) {
        if (shapes_.size() >= kMostShapes) return;
        known = keys_.emplace(std::move(key), static_cast<std::uint32_t>(shapes_.size())).first;
        KinetoOperation shape;
        shape.name = js::decoded(event.name);
        shape.dims = lists_of(dims);
        shape.strides = lists_of(strides);
        shape.types = words_of(types);
        shape.values = words_of(concrete);
        shapes_.push_back(std::move(shape));
    }
    Operation operation{};
    operation.thread = thread_of(event);
    operation.key = known->second;
    operation.start_ns = event.start_ns;
    operation.end_ns = end_ns;
    operation.id = external_id(event.args).value_or(-1);
    operations_.push_back(operation);
}

void OperationTimes::on_launch(const ForeignEvent& event) {
    const auto correlation = js::integer(js::find(event.args, "correlation"));
    if (correlation && launches_.size() < kMost)
        launches_.push_back({thread_of(event), event.start_ns, *correlation});
}

void OperationTimes::on_kernel(const ForeignEvent& event, std::size_t kernel) {
    if (kernels_.size() >= kMost) return;
    const auto correlation = js::integer(js::find(event.args, "correlation"));
    kernels_.push_back({correlation.value_or(-1), external_id(event.args).value_or(-1), event.duration_ps,
                        static_cast<std::uint32_t>(kernel)});
}

std::unordered_map<std::int64_t, std::size_t> OperationTimes::launched() {
    std::unordered_map<std::int64_t, std::size_t> by_correlation;
    std::sort(launches_.begin(), launches_.end(), [](const Launch& a, const Launch& b) {
        return a.thread != b.thread ? a.thread < b.thread : a.at_ns < b.at_ns;
    });
    // Operations of a thread are nested; of those that begin together the longer is the outer one.
    std::sort(operations_.begin(), operations_.end(), [](const Operation& a, const Operation& b) {
        if (a.thread != b.thread) return a.thread < b.thread;
        return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
    });
    std::vector<std::size_t> open;
    std::size_t next = 0;
    std::uint32_t thread = 0;
    for (const Launch& launch : launches_) {
        if (launch.thread != thread) open.clear(), thread = launch.thread;
        for (; next < operations_.size(); ++next) {
            const Operation& o = operations_[next];
            if (o.thread > thread || (o.thread == thread && o.start_ns > launch.at_ns)) break;
            if (o.thread < thread) continue;
            while (!open.empty() && operations_[open.back()].end_ns <= o.start_ns)
                open.pop_back();
            open.push_back(next);
        }
        while (!open.empty() && operations_[open.back()].end_ns < launch.at_ns)
            open.pop_back();
        if (!open.empty()) by_correlation.emplace(launch.correlation, open.back());
    }
    return by_correlation;
}

std::vector<KinetoOperation> OperationTimes::finish(const std::vector<KinetoKernel>& names) {
    if (operations_.empty()) return {};
    const bool has_launches = !launches_.empty();
    std::unordered_map<std::int64_t, std::size_t> by_number = launched();
    if (!has_launches) {
        for (std::size_t i = 0; i < operations_.size(); ++i) {
            if (operations_[i].id > 0) by_number.emplace(operations_[i].id, i);
        }
    }
    for (const Kernel& kernel : kernels_) {
        const auto owner = by_number.find(has_launches ? kernel.correlation : kernel.id);
        if (owner == by_number.end()) continue;
        Operation& operation = operations_[owner->second];
        operation.seconds += static_cast<double>(kernel.duration_ps) * 1e-12;
        if (kernel.duration_ps < operation.longest_ps) continue;
        operation.longest_ps = kernel.duration_ps;
        operation.kernel = kernel.name;
    }
    std::vector<std::vector<double>> times(shapes_.size());
    for (const Operation& operation : operations_) {
        if (operation.seconds <= 0) continue;
        KinetoOperation& shape = shapes_[operation.key];
        ++shape.count;
        shape.total_s += operation.seconds;
        if (times[operation.key].size() < kMostTimes) times[operation.key].push_back(operation.seconds);
        if (shape.kernel.empty() && operation.kernel < names.size())
            shape.kernel = names[operation.kernel].name.substr(0, 200);
    }
    std::vector<KinetoOperation> out;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
        if (shapes_[i].count == 0) continue;
        shapes_[i].median_s = median_of(std::move(times[i]));
        out.push_back(std::move(shapes_[i]));
    }
    std::stable_sort(out.begin(), out.end(), [](const KinetoOperation& a, const KinetoOperation& b) {
        return a.total_s != b.total_s ? a.total_s > b.total_s : a.name < b.name;
    });
    return out;
}

}  // namespace tw

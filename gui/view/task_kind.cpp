#include "gui/view/task_kind.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

namespace tw {
namespace {

constexpr std::array<std::string_view, kTaskKinds - kWorkKinds> kForeignTitles = {
    "kernel", "communication", "host operator", "named span"};

constexpr std::pair<std::string_view, TaskKind> kCategories[] = {
    {"kernel", TaskKind::Kernel},
    {"Kernel", TaskKind::Kernel},
    {"gpu_memcpy", TaskKind::Memory},
    {"gpu_memset", TaskKind::Memory},
    {"Memcpy", TaskKind::Memory},
    {"Memset", TaskKind::Memory},
    {"cpu_op", TaskKind::CpuOp},
    {"Operator", TaskKind::CpuOp},
    {"cuda_runtime", TaskKind::Host},
    {"cuda_driver", TaskKind::Host},
    {"hip_runtime", TaskKind::Host},
    {"Runtime", TaskKind::Host},
    {"cuda_sync", TaskKind::Host},
    {"overhead", TaskKind::Host},
    {"python_function", TaskKind::CpuOp},
    {"user_annotation", TaskKind::Annotation},
    {"gpu_user_annotation", TaskKind::Annotation},
};

// The number after a marker such as " mb", where the name has one that ends with it.
std::int32_t number_after(std::string_view name, std::string_view marker) {
    const std::size_t at = name.find(marker);
    if (at == std::string_view::npos) return -1;
    const char* first = name.data() + at + marker.size();
    const char* last = name.data() + name.size();
    std::int32_t value = -1;
    const auto [end, error] = std::from_chars(first, last, value);
    if (error != std::errc{} || value < 0 || (end != last && *end != ' ')) return -1;
    return value;
}

}  // namespace

std::string_view title(TaskKind kind) {
    const auto value = static_cast<std::size_t>(kind);
    if (value < kWorkKinds) return title(static_cast<Work>(kind));
    return kForeignTitles[value - kWorkKinds];
}

bool find_kind(std::string_view name, TaskKind& kind) {
    if (name.empty()) return false;
    for (int k = 0; k < kWorkKinds; ++k) {
        if (short_name(static_cast<Work>(k)) == name) {
            kind = static_cast<TaskKind>(k);
            return true;
        }
    }
    for (int k = 0; k < kTaskKinds; ++k) {
        if (title(static_cast<TaskKind>(k)).starts_with(name)) {
            kind = static_cast<TaskKind>(k);
            return true;
        }
    }
    return false;
}

TaskKind foreign_kind(std::string_view category, std::string_view name) {
    const auto* const known = std::find_if(std::begin(kCategories), std::end(kCategories),
                                           [&](const auto& entry) { return entry.first == category; });
    if (known != std::end(kCategories)) {
        if (known->second != TaskKind::Kernel) return known->second;
        return name.starts_with("nccl") || name.starts_with("rccl") ? TaskKind::Communication
                                                                    : TaskKind::Kernel;
    }
    for (int k = 0; k < kWorkKinds; ++k) {
        if (short_name(static_cast<Work>(k)) == category) return static_cast<TaskKind>(k);
    }
    return TaskKind::Annotation;
}

bool is_send_or_receive(std::string_view operation) {
    // "c10d::send", "nccl:recv 0<-1", "batch_isend_irecv": the last word before blanks, without the
    // library's.
    const std::string_view head = operation.substr(0, operation.find(' '));
    const std::size_t colon = head.rfind(':');
    std::string_view word = colon == std::string_view::npos ? head : head.substr(colon + 1);
    while (word.ends_with('_'))
        word.remove_suffix(1);
    for (const std::string_view known :
         {"send", "recv", "isend", "irecv", "recvanysource", "recv_any_source", "batch_isend_irecv"}) {
        if (word == known) return true;
    }
    return false;
}

NamedPlace place_in_name(std::string_view name) {
    NamedPlace place;
    place.microbatch = number_after(name, " mb");
    place.stage = number_after(name, " s");
    if (place.stage > 0xffff) place.stage = -1;
    return place;
}

}  // namespace tw

#include "real_exec/backend/make_backend.hpp"

#include <fmt/format.h>

#include "real_exec/backend/cuda_module.hpp"

namespace tw {

const std::vector<std::string_view>& backend_names() {
    static const std::vector<std::string_view> names = {"cpu", "cuda"};
    return names;
}

int visible_device(int local_rank, int visible, bool share) {
    return visible == 1 || (share && visible > 0) ? local_rank % visible : local_rank;
}

Status backend_present(std::string_view name) {
    if (name != "cuda") return ok();
    const Result<const cuda::Module*> module = cuda::load_module();
    if (!module) return module.errors();
    if ((*module)->device_count() > 0) return ok();
    // Without a device it says why there is none.
    const auto made = (*module)->make_backend(0, false);
    return made ? ok() : Status(made.errors());
}

Result<std::unique_ptr<Backend>> make_backend(std::string_view name, const BackendOptions& options) {
    if (name == "cpu") {
        CpuOptions cpu;
        cpu.threads = options.threads;
        return make_cpu_backend(cpu);
    }
    if (name == "cuda") {
        const Result<const cuda::Module*> module = cuda::load_module();
        if (!module) return module.errors();
        const int device = visible_device(options.device, (*module)->device_count(), options.share);
        return (*module)->make_backend(device, options.tf32);
    }
    return Error{ErrorCode::Usage, fmt::format("unknown backend '{}'", name), "backend",
                 fmt::format("{}", fmt::join(backend_names(), ", "))};
}

}  // namespace tw

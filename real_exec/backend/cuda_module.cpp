#include "real_exec/backend/cuda_module.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>

namespace tw::cuda {
namespace {

std::vector<std::filesystem::path> places() {
    if (const char* named = std::getenv("TRAINWRIGHT_CUDA_MODULE"); named != nullptr && *named != '\0')
        return {named};
    std::error_code ignored;
    const std::filesystem::path folder =
        std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
    return {folder / kModuleFile, folder.parent_path() / "lib" / kModuleFile};
}

Result<const Module*> open() {
    const std::vector<std::filesystem::path> paths = places();
    for (const std::filesystem::path& path : paths) {
        std::error_code ignored;
        if (!std::filesystem::exists(path, ignored)) continue;
        void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) {
            const char* why = dlerror();
            return Error{ErrorCode::Failure,
                         fmt::format("the CUDA module cannot be opened: {}", why != nullptr ? why : "?"),
                         path.string(), "it needs the CUDA runtime and cuBLASLt that it was built with"};
        }
        // The C way from an object's address to a function's.
        ModuleFunction function = nullptr;
        *reinterpret_cast<void**>(&function) = dlsym(handle, kModuleSymbol);
        const Module* module = function != nullptr ? function() : nullptr;
        if (module == nullptr || module->version != kModuleVersion ||
            module->backend_bytes != sizeof(Backend)) {
            return Error{ErrorCode::Failure, "the CUDA module is of another build of trainwright",
                         path.string(), "build both together"};
        }
        return module;
    }
    return Error{ErrorCode::Failure, fmt::format("no CUDA module: {} is not there", paths.front().string()),
                 "cuda", "build with -DTRAINWRIGHT_CUDA=ON, or run on --backend cpu"};
}

}  // namespace

Result<const Module*> load_module() {
    static const Result<const Module*> module = open();
    return module;
}

}  // namespace tw::cuda

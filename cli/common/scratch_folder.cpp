#include "cli/common/scratch_folder.hpp"

#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

namespace tw::cli {

namespace fs = std::filesystem;

Result<std::unique_ptr<ScratchFolder>> ScratchFolder::create(const std::string& name) {
    std::error_code failed;
    fs::path path = fs::temp_directory_path(failed);
    if (!failed) {
        path /= fmt::format("trainwright-{}-{}", name, getpid());
        fs::remove_all(path, failed);  // an earlier process with this number may have been killed
        fs::create_directory(path, failed);
    }
    if (failed)
        return Error{ErrorCode::Failure, "there is no folder for temporary files: " + failed.message(),
                     "TMPDIR", "a folder of yours, or leave it unset: /tmp"};
    return std::unique_ptr<ScratchFolder>(new ScratchFolder(std::move(path)));
}

ScratchFolder::~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

}  // namespace tw::cli

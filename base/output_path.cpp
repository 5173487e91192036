#include "base/output_path.hpp"

#include <system_error>

namespace tw {

namespace fs = std::filesystem;

fs::path output_path(const fs::path& path) {
    constexpr int kMostLinks = 40;  // as Linux (path_resolution(7)); of a circle the first link stays
    fs::path at = path;
    for (int links = 0; links < kMostLinks; ++links) {
        std::error_code failed;
        if (!fs::is_symlink(fs::symlink_status(at, failed))) return at;
        const fs::path target = fs::read_symlink(at, failed);
        if (failed) return at;
        at = at.parent_path() / target;  // an absolute target replaces all of it
    }
    return path;
}

bool written_in_place(const fs::path& path) {
    std::error_code failed;
    return fs::exists(path, failed) && !fs::is_regular_file(path, failed);
}

}  // namespace tw

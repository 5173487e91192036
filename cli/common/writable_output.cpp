#include "cli/common/writable_output.hpp"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "base/output_path.hpp"

namespace tw::cli {

namespace fs = std::filesystem;

Errors unwritable(const std::string& path, std::string_view option) {
    if (path.empty() || path == "-") return {};
    std::error_code ignored;
    const fs::path target = output_path(path);
    const fs::path folder = fs::absolute(target, ignored).parent_path();
    std::string why;
    if (fs::is_directory(target, ignored)) {
        why = "is a folder, expected a file";
    } else if (written_in_place(target)) {
        if (access(target.c_str(), W_OK) != 0) why = "cannot be written: it does not allow it";
    } else if (!fs::is_directory(folder, ignored)) {
        why = fmt::format("cannot be written: there is no folder {}", folder.string());
    } else if (access(folder.c_str(), W_OK) != 0) {
        why = fmt::format("cannot be written: {} does not allow it", folder.string());
    }
    if (why.empty()) return {};
    return {
        Error{ErrorCode::Failure, why, fmt::format("{} {}", option, path), "a file in a folder of yours"}};
}

Errors unwritable_outputs(const Command& command) {
    Errors errors;
    for (const OptionSpec& option : command.options()) {
        if (option.output == nullptr || !option.given) continue;
        const Errors some = unwritable(*option.output, option.long_name());
        errors.insert(errors.end(), some.begin(), some.end());
    }
    return errors;
}

}  // namespace tw::cli

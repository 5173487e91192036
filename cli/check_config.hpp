// `check` of another framework's configuration, and `inspect` of one.
#pragma once

#include <string>
#include <string_view>

#include "cli/common/console.hpp"
#include "models/formats/document.hpp"
#include "plan/frameworks/import/import_config.hpp"

namespace tw::cli {

struct CheckConfigOptions {
    std::string path;       // as typed; "-" is stdin
    std::string framework;  // whose rules apply; "": those of the configuration's own
    std::string model, cluster, output;
};

// What was read, whether it is legal in the framework's own keys, what it needs of the device, and what is
// missing to say so. The exit code.
int check_config(const ConfigReader& reader, std::string_view text, const CheckConfigOptions& options,
                 Console& console);

Result<DocumentSummary> describe_config(const ConfigReader& reader, std::string_view text,
                                        std::string_view path);

}  // namespace tw::cli

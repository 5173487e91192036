// trainwright.toml: defaults of options.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "cli/commands.hpp"
#include "cli/common/option_defaults.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

struct Scratch {
    std::filesystem::path file =
        std::filesystem::temp_directory_path() / ("trainwright-fuzz-" + std::to_string(getpid()) + ".toml");
    Scratch() { setenv("TRAINWRIGHT_CONFIG", file.c_str(), 1); }
    ~Scratch() {
        unsetenv("TRAINWRIGHT_CONFIG");
        std::error_code ignored;
        std::filesystem::remove(file, ignored);
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Scratch scratch;
    static const tw::cli::Commands commands = tw::cli::make_commands();
    std::ofstream(scratch.file, std::ios::binary) << tw::fuzz::text_of(data, size);
    const auto defaults = tw::cli::OptionDefaults::read(commands);
    tw::fuzz::require_value_or_refusal(defaults);
    if (!defaults) return 0;
    for (const auto& command : commands) {
        for (const tw::cli::OptionSpec& option : command->options())
            if (!option.positional) (void)defaults->find(*command, option.long_name());
    }
    return 0;
}

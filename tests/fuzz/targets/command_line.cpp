// The words of a command line, one a line. Nothing is run: parsing alone answers with errors of code Usage.
#include "cli/commands.hpp"
#include "cli/common/parse.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::vector<std::string> words(1);
    for (const char c : tw::fuzz::text_of(data, size)) {
        if (c == '\n') {
            words.emplace_back();
        } else if (c != '\0') {
            words.back() += c;
        }
    }
    const tw::cli::Commands commands = tw::cli::make_commands();
    const tw::cli::Invocation invocation = tw::cli::parse_command_line(commands, words);
    for (const tw::Error& error : invocation.errors) {
        tw::fuzz::require(error.code == tw::ErrorCode::Usage, "an error of another code",
                          tw::to_string(error));
        tw::fuzz::require(!error.message.empty(), "an error without a message");
    }
    return 0;
}

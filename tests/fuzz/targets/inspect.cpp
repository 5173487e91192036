// Whatever is inspected: the first line is the file's name, the rest its text.
#include "cli/own_documents.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input = tw::fuzz::text_of(data, size);
    const std::size_t end = input.find('\n');
    if (end == std::string_view::npos) return 0;
    const auto summary = tw::cli::describe_text(input.substr(end + 1), input.substr(0, end));
    if (!summary) {
        for (const tw::Error& error : summary.errors()) {
            tw::fuzz::require(error.code == tw::ErrorCode::Unreadable, "an error of another code",
                              tw::to_string(error));
            tw::fuzz::require(!error.message.empty(), "an error without a message");
        }
        return 0;
    }
    tw::fuzz::require(!summary->kind.empty() && !summary->title.empty(), "a summary that says nothing");
    return 0;
}

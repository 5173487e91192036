#include "cli/common/console.hpp"

#include <algorithm>
#include <cstdio>
#include <span>

#include <sys/ioctl.h>
#include <unistd.h>

namespace tw::cli {
namespace {

constexpr int kPipedWidth = 100;
constexpr int kNarrowest = 60;
constexpr int kWidest = 160;
constexpr std::size_t kMostErrors = 100;  // that a reader is shown

// Documents and file names may hold anything; a terminal gets nothing that it would obey.
void write_to(std::FILE* stream, std::string_view text, bool colour) {
    const std::string shown = printable(text, colour);
    std::fwrite(shown.data(), 1, shown.size(), stream);
}

}  // namespace

bool Console::out_colour() const {
    return colour_enabled(colour, STDOUT_FILENO);
}
bool Console::err_colour() const {
    return colour_enabled(colour, STDERR_FILENO);
}
bool Console::err_is_terminal() const {
    return isatty(STDERR_FILENO) == 1;
}

int Console::width() const {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kPipedWidth;
    return std::clamp(static_cast<int>(size.ws_col), kNarrowest, kWidest);
}

void Console::out(std::string_view text) {
    write_to(stdout, text, out_colour());
}

void Console::out_json(const Json& document) {
    out(document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void Console::out_table(const TextTable& table) {
    out(table.render(TableFormat::Terminal, out_colour()));
}

void Console::heading(std::string_view text) {
    out("\n" + styled(text, TextStyle::Bold, out_colour()) + "\n");
}

void Console::warn(std::string_view message) {
    flush();
    write_to(stderr, styled("warning:", TextStyle::Yellow, err_colour()) + " " + std::string(message) + "\n",
             err_colour());
}

void Console::note(std::string_view message) {
    flush();
    write_to(stderr, std::string(message) + "\n", err_colour());
}

int Console::fail(const Errors& errors) {
    flush();  // what stands on one terminal comes in the order in which it was said
    for (const Error& error : std::span(errors).first(std::min(errors.size(), kMostErrors))) {
        std::string line = styled("error:", TextStyle::Red, err_colour()) + " ";
        if (!error.context.empty()) line += error.context + ": ";
        line += error.message + "\n";
        if (!error.hint.empty())
            line += styled("   hint: ", TextStyle::Dim, err_colour()) + error.hint + "\n";
        write_to(stderr, line, err_colour());
    }
    if (errors.size() > kMostErrors)
        note("and " + std::to_string(errors.size() - kMostErrors) + " more errors");
    return exit_code(errors);
}

Status Console::write(const std::string& path, std::string_view text) {
    if (path != "-") return write_text_file(path, text);
    out(text);
    return ok();
}

bool Console::flush() {
    return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

Json document(std::string_view kind) {
    return Json{{"schema", "trainwright/" + std::string(kind)}, {"version", 1}};
}

Json errors_to_json(const Errors& errors) {
    Json list = Json::array();
    for (const Error& error : errors) {
        list.push_back(Json{{"context", error.context}, {"message", error.message}, {"hint", error.hint}});
    }
    return list;
}

}  // namespace tw::cli

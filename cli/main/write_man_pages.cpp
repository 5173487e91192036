// Build step: the manual pages of all commands, into the folder named (cmake/man_pages.cmake).
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/version.hpp"
#include "cli/commands.hpp"
#include "cli/common/man_page.hpp"

namespace {

bool write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    if (!out) std::cerr << "cannot write " << path << "\n";
    return static_cast<bool>(out);
}

}  // namespace

int main(int count, char** words) {
    if (count != 2) {
        std::cerr << "usage: write_man_pages FOLDER\n";
        return 2;
    }
    const std::filesystem::path folder = words[1];
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    const tw::cli::Commands commands = tw::cli::make_commands();
    bool written = write(folder / "trainwright.1", tw::cli::program_man_page(commands, tw::kVersion));
    for (const auto& command : commands) {
        written = write(folder / ("trainwright-" + command->name() + ".1"),
                        tw::cli::command_man_page(*command, tw::kVersion)) &&
                  written;
    }
    return written ? 0 : 1;
}

// Runs the program that was built and keeps what it said.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace tw::test {

struct ProgramOutput {
    std::string out, err;
    int code = -1;  // 128 + signal where one ended it
};

inline std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
}

// A folder of its own for each test process, gone when it ends.
inline const std::filesystem::path& scratch_folder() {
    struct Scratch {
        std::filesystem::path path =
            std::filesystem::temp_directory_path() / ("trainwright-test-" + std::to_string(getpid()));
        Scratch() { std::filesystem::create_directories(path); }
        ~Scratch() {
            std::error_code ignored;
            std::filesystem::remove_all(path, ignored);
        }
    };
    static const Scratch scratch;
    return scratch.path;
}
// A file of this name in it.
inline std::string scratch(const std::string& name) {
    return (scratch_folder() / name).string();
}

// `arguments` as a shell reads them, run in tests/golden/inputs; no terminal, no colour.
inline ProgramOutput run_program(const std::string& arguments, const std::string& environment = "",
                                 const std::string& program = "trainwright") {
    const auto out = scratch_folder() / "stdout", err = scratch_folder() / "stderr";
    const std::string command = "cd '" TW_SOURCE_DIR "/tests/golden/inputs' && (env -u NO_COLOR " +
                                environment + " '" TW_BINARY_DIR "/bin/" + program + "' " + arguments +
                                ") </dev/null >'" + out.string() + "' 2>'" + err.string() + "'";
    const int status = std::system(command.c_str());
    return {read_file(out), read_file(err), WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
}

}  // namespace tw::test

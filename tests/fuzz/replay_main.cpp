// fuzz_replay TARGET PATH…: runs a fuzz target on files, or on every file of a folder, by name. Without
// libFuzzer's instrumentation, so that the default build keeps what was found once from coming back. Exit 1
// where an input takes longer than kLongest or a folder holds none; a crash ends the process after the
// input's name is printed.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

// tests/fuzz/CMakeLists.txt renames each target's entry and lists them.
#define TW_FUZZ_TARGET(name) extern "C" int fuzz_##name(const std::uint8_t* data, std::size_t size);
#include "fuzz_targets.inc"
#undef TW_FUZZ_TARGET

namespace {

constexpr std::chrono::seconds kLongest{20};

struct Target {
    std::string_view name;
    int (*run)(const std::uint8_t* data, std::size_t size);
};

#define TW_FUZZ_TARGET(name) Target{#name, fuzz_##name},
constexpr std::array kTargets = {
#include "fuzz_targets.inc"
};
#undef TW_FUZZ_TARGET

std::vector<std::filesystem::path> inputs_of(const std::filesystem::path& path) {
    if (!std::filesystem::is_directory(path)) return {path};
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path))
        if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

bool replay(const Target& target, const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    // An exact allocation: reading past the end is seen by the address sanitizer.
    const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
    std::printf("%s: %zu bytes\n", path.filename().c_str(), input.size());
    std::fflush(stdout);
    const auto begin = std::chrono::steady_clock::now();
    target.run(input.data(), input.size());
    if (std::chrono::steady_clock::now() - begin < kLongest) return true;
    std::printf("%s: takes longer than %lld s\n", path.filename().c_str(),
                static_cast<long long>(kLongest.count()));
    return false;
}

}  // namespace

int main(int count, char** words) {
    const std::vector<std::string_view> arguments(words + 1, words + count);
    const auto target = std::find_if(kTargets.begin(), kTargets.end(), [&](const Target& t) {
        return arguments.size() > 1 && t.name == arguments.front();
    });
    if (target == kTargets.end()) {
        std::puts("usage: fuzz_replay TARGET PATH...; targets:");
        for (const Target& t : kTargets)
            std::printf("  %.*s\n", static_cast<int>(t.name.size()), t.name.data());
        return 2;
    }
    bool good = true;
    std::size_t inputs = 0;
    for (std::size_t i = 1; i < arguments.size(); ++i) {
        for (const std::filesystem::path& path : inputs_of(arguments[i])) {
            good = replay(*target, path) && good;
            ++inputs;
        }
    }
    if (inputs == 0) std::puts("no inputs");
    return good && inputs > 0 ? 0 : 1;
}

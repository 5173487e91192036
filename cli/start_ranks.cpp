#include "cli/start_ranks.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace tw::cli {
namespace {

namespace fs = std::filesystem;

Result<fs::path> rank_binary() {
    std::error_code failed;
    const fs::path own = fs::read_symlink("/proc/self/exe", failed);
    const fs::path beside = own.parent_path() / "trainwright-exec";
    if (!failed && fs::exists(beside)) return beside;
    return Error{ErrorCode::Failure, "trainwright-exec is not beside this binary", own.parent_path().string(),
                 "build the target trainwright-exec"};
}

// Open MPI's mpirun on one machine: more ranks than cores are legal, ranks move between cores, and those that
// wait let others compute.
std::vector<std::string> mpirun_words(int ranks) {
    std::vector<std::string> words = {"mpirun",
                                      "-n",
                                      std::to_string(ranks),
                                      "--oversubscribe",
                                      "--bind-to",
                                      "none",
                                      "--quiet",
                                      "--mca",
                                      "mpi_yield_when_idle",
                                      "1"};
    if (geteuid() == 0) words.insert(words.begin() + 1, "--allow-run-as-root");
    return words;
}

}  // namespace

Result<RanksEnded> start_ranks(int ranks, const std::vector<std::string>& words) {
    const auto binary = rank_binary();
    if (!binary) return binary.errors();
    std::vector<std::string> all;
    if (ranks > 1) all = mpirun_words(ranks);
    all.push_back(binary->string());
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> argv;
    for (std::string& word : all)
        argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t child = 0;
    // Ctrl-C reaches the ranks too, being of one process group: this process waits for them to end.
    struct sigaction ignore {
    }, before{};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &before);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    const int failed = posix_spawnp(&child, argv.front(), nullptr, &attributes, argv.data(), environ);
    posix_spawnattr_destroy(&attributes);
    if (failed != 0) {
        sigaction(SIGINT, &before, nullptr);
        return Error{ErrorCode::Failure,
                     fmt::format("{} cannot be started: {}", all.front(), std::strerror(failed)), "",
                     ranks > 1 ? "install Open MPI (openmpi-bin)" : ""};
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    sigaction(SIGINT, &before, nullptr);
    RanksEnded ended;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code > 128 && code < 128 + 65) ended.signal = code - 128;  // mpirun's way to name a rank's signal
    if (ended.signal == SIGINT) {
        ended.exit_code = 130;
    } else {
        ended.exit_code = code <= 5 ? code : 1;
    }
    return ended;
}

}  // namespace tw::cli

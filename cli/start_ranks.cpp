#include "cli/start_ranks.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/common/stop_requests.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace tw::cli {
namespace {

namespace fs = std::filesystem;

Result<fs::path> rank_binary(const std::string& name) {
    std::error_code failed;
    const fs::path own = fs::read_symlink("/proc/self/exe", failed);
    const fs::path beside = own.parent_path() / name;
    if (!failed && fs::exists(beside)) return beside;
    return Error{ErrorCode::Failure, name + " is not beside this binary", own.parent_path().string(),
                 "build the target " + name};
}

// Open MPI's mpirun on one machine: more ranks than cores are legal, ranks move between cores. (Those that
// wait let others compute: real_exec/comm/patience.hpp.)
std::vector<std::string> mpirun_words(int ranks) {
    std::vector<std::string> words = {
        "mpirun", "-n", std::to_string(ranks), "--oversubscribe", "--bind-to", "none", "--quiet"};
    if (geteuid() == 0) words.insert(words.begin() + 1, "--allow-run-as-root");
    return words;
}

volatile std::sig_atomic_t interrupted = 0;
StopRequests requests;
volatile pid_t started = 0;
volatile std::sig_atomic_t asks_first = 0;
// What ends the child at once. A rank takes SIGTERM for a question as well; mpirun ends its ranks.
volatile std::sig_atomic_t ends_at_once = SIGTERM;

void note_signal(int signal, siginfo_t* info, void* /*context*/) {
    const StopRequests::Kind request = requests.note();
    interrupted = 1;
    if (asks_first != 0) {
        if (request == StopRequests::Kind::Repeated) return;
        if (started > 0) kill(started, request == StopRequests::Kind::First ? SIGUSR1 : ends_at_once);
        return;
    }
    // A terminal's Ctrl-C reaches the ranks too, being of one process group; all else is handed on.
    const bool of_terminal = signal == SIGINT && info->si_code == SI_KERNEL;
    if (!of_terminal && started > 0) kill(started, SIGTERM);
}

// While it lives, what would end this process is noted and reaches the ranks: none is left behind.
class SignalsToRanks {
  public:
    SignalsToRanks(bool end_when_asked, bool child_is_rank) {
        interrupted = 0;
        requests.reset();
        started = 0;
        asks_first = end_when_asked ? 1 : 0;
        ends_at_once = end_when_asked && child_is_rank ? SIGKILL : SIGTERM;
        struct sigaction note {};
        note.sa_sigaction = note_signal;
        note.sa_flags = SA_SIGINFO;
        for (std::size_t s = 0; s < kSignals.size(); ++s) {
            sigaction(kSignals[s], &note, &before_[s]);
            if (before_[s].sa_handler == SIG_IGN) sigaction(kSignals[s], &before_[s], nullptr);  // nohup
        }
    }
    ~SignalsToRanks() {
        for (std::size_t s = 0; s < kSignals.size(); ++s)
            sigaction(kSignals[s], &before_[s], nullptr);
    }
    SignalsToRanks(const SignalsToRanks&) = delete;
    SignalsToRanks& operator=(const SignalsToRanks&) = delete;

    static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};

  private:
    std::array<struct sigaction, kSignals.size()> before_{};
};

// A process group of their own: a terminal's Ctrl-C then reaches this process alone, which asks the ranks.
// mpirun would end them at once.
class SpawnAttributes {
  public:
    explicit SpawnAttributes(bool own_group) {
        posix_spawnattr_init(&attributes_);
        if (!own_group) return;
        posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
        posix_spawnattr_setpgroup(&attributes_, 0);
    }
    ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
    SpawnAttributes(const SpawnAttributes&) = delete;
    SpawnAttributes& operator=(const SpawnAttributes&) = delete;
    [[nodiscard]] const posix_spawnattr_t* get() const { return &attributes_; }

  private:
    posix_spawnattr_t attributes_{};
};

// A pipe from the ranks' stdout to this process's.
class OutputRelay {
  public:
    OutputRelay() {
        opened_ = ::pipe2(ends_.data(), O_CLOEXEC) == 0;
        posix_spawn_file_actions_init(&actions_);
        if (opened_) posix_spawn_file_actions_adddup2(&actions_, ends_[1], STDOUT_FILENO);
    }
    ~OutputRelay() {
        posix_spawn_file_actions_destroy(&actions_);
        for (const int end : ends_)
            if (end >= 0) ::close(end);
    }
    OutputRelay(const OutputRelay&) = delete;
    OutputRelay& operator=(const OutputRelay&) = delete;
    [[nodiscard]] bool opened() const { return opened_; }
    [[nodiscard]] const posix_spawn_file_actions_t* actions() const { return &actions_; }

    // Until the last rank has closed its end. A reader that went away ends neither the run nor this process:
    // the rest is dropped. False where anything was.
    bool run() {
        ::close(std::exchange(ends_[1], -1));
        struct sigaction ignore {
        }, before{};
        ignore.sa_handler = SIG_IGN;
        sigaction(SIGPIPE, &ignore, &before);
        bool written = true;
        std::array<char, 4096> piece{};
        while (true) {
            const ::ssize_t length = ::read(ends_[0], piece.data(), piece.size());
            if (length < 0 && errno == EINTR) continue;
            if (length <= 0) break;
            written = written && write_all({piece.data(), static_cast<std::size_t>(length)});
        }
        sigaction(SIGPIPE, &before, nullptr);
        return written;
    }

  private:
    static bool write_all(std::string_view text) {
        while (!text.empty()) {
            const ::ssize_t length = ::write(STDOUT_FILENO, text.data(), text.size());
            if (length >= 0) {
                text.remove_prefix(static_cast<std::size_t>(length));
            } else if (errno == EAGAIN) {
                pollfd room{STDOUT_FILENO, POLLOUT, 0};
                ::poll(&room, 1, -1);
            } else if (errno != EINTR) {
                return false;
            }
        }
        return true;
    }

    std::array<int, 2> ends_ = {-1, -1};  // to be read, to be written
    posix_spawn_file_actions_t actions_{};
    bool opened_ = false;
};

}  // namespace

Result<RanksEnded> start_ranks(int ranks, const std::vector<std::string>& words, const StartRanks& how) {
    const auto binary = rank_binary(how.binary);
    if (!binary) return binary.errors();
    std::vector<std::string> all;
    if (ranks > 1) all = mpirun_words(ranks);
    // Of another process group than the terminal's, it may not read from it.
    if (ranks > 1 && how.end_when_asked) all.insert(all.end(), {"--stdin", "none"});
    all.push_back(binary->string());
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> argv;
    for (std::string& word : all)
        argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t child = 0;
    const SignalsToRanks signals(how.end_when_asked, ranks == 1);
    const SpawnAttributes attributes(how.end_when_asked);
    OutputRelay output;
    if (!output.opened())
        return Error{ErrorCode::Failure, fmt::format("no pipe to the ranks: {}", std::strerror(errno)), "",
                     ""};
    const int failed =
        posix_spawnp(&child, argv.front(), output.actions(), attributes.get(), argv.data(), environ);
    if (failed != 0) {
        return Error{ErrorCode::Failure,
                     fmt::format("{} cannot be started: {}", all.front(), std::strerror(failed)), "",
                     ranks > 1 ? "install Open MPI (openmpi-bin)" : ""};
    }
    started = child;
    if (interrupted != 0) kill(child, SIGTERM);  // it came before there was anyone to tell
    RanksEnded ended;
    ended.output_lost = !output.run();
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    started = 0;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code > 128 && code < 128 + 65) ended.signal = code - 128;  // mpirun's way to name a rank's signal
    if (interrupted != 0 || ended.signal == SIGINT) {
        ended.exit_code = 130;
    } else {
        ended.exit_code = code <= 5 ? code : 1;
    }
    return ended;
}

}  // namespace tw::cli

#include "real_exec/runtime/rank_log.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include <fmt/format.h>

namespace tw {
namespace {

class Logged final : public Transport {
  public:
    Logged(Transport& inner, RankLog& log) : inner_(inner), log_(log) {}
    [[nodiscard]] int rank() const override { return inner_.rank(); }
    [[nodiscard]] int size() const override { return inner_.size(); }
    Result<std::unique_ptr<Communicator>> create(std::string name, std::span<const int> ranks) override {
        return inner_.create(std::move(name), ranks);
    }
    Result<std::unique_ptr<Communicator>> create_for_messages(std::string name, std::span<const int> ranks,
                                                              std::span<const Route> routes) override {
        return inner_.create_for_messages(std::move(name), ranks, routes);
    }
    void progress() override { inner_.progress(); }
    [[noreturn]] void abort(int exit_code, std::string_view message) override {
        log_.line(fmt::format("ends the run with exit code {}: {}", exit_code, message));
        inner_.abort(exit_code, message);
        std::_Exit(exit_code);  // GCC does not see that a virtual function never returns
    }

  private:
    Transport& inner_;
    RankLog& log_;
};

std::string now() {
    const std::time_t seconds = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text.data();
}

}  // namespace

Result<RankLog> RankLog::open(const std::string& folder, int rank) {
    RankLog log;
    if (folder.empty()) return log;
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    const std::string path = fmt::format("{}/rank-{:05}.log", folder, rank);
    std::FILE* file = std::fopen(path.c_str(), "a");
    if (file == nullptr)
        return Error{ErrorCode::Failure, "cannot write the rank's log", path, "a folder that can be written"};
    log.path_ = path;
    log.file_ = std::shared_ptr<std::FILE>(file, [](std::FILE* open) { std::fclose(open); });
    return log;
}

void RankLog::line(std::string_view text) {
    if (!file_) return;
    std::string out = now() + " ";
    for (const char c : text) {
        out += c;
        if (c == '\n') out += "    ";
    }
    out += '\n';
    const bool written = std::fwrite(out.data(), 1, out.size(), file_.get()) == out.size();
    if (std::fflush(file_.get()) == 0 && written) return;
    if (!lost_)
        std::fprintf(stderr, "%s: cannot be written, lines are lost: %s\n", path_.c_str(),
                     std::strerror(errno));
    lost_ = true;
    std::clearerr(file_.get());
}

std::unique_ptr<Transport> log_aborts(Transport& transport, RankLog& log) {
    return std::make_unique<Logged>(transport, log);
}

}  // namespace tw

// A rank's own log (--log FOLDER): what it is, its steps, what it found wrong. A file for each rank,
// rank-00003.log, appended to by restarts; every line is written at once, so that the last one before a death
// is there.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "real_exec/comm/communicator.hpp"

namespace tw {

class RankLog {
  public:
    RankLog() = default;  // writes nothing
    // Errors: a folder or file that cannot be written. An empty folder: a log that writes nothing.
    static Result<RankLog> open(const std::string& folder, int rank);
    // "2026-01-31T12:00:00Z text"; further lines of the text are indented. What cannot be written is reported
    // on stderr, once.
    void line(std::string_view text);

  private:
    std::shared_ptr<std::FILE> file_;
    std::string path_;
    bool lost_ = false;
};

// The same transport, whose abort() writes its message to the log first. Both outlive it.
std::unique_ptr<Transport> log_aborts(Transport& transport, RankLog& log);

}  // namespace tw

// A folder for what ranks hand back to the command that started them; it goes away with its owner.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/result.hpp"

namespace tw::cli {

class ScratchFolder {
  public:
    // TMPDIR/trainwright-<name>-<process>; /tmp where TMPDIR is not set. Errors (Failure): there is no such
    // folder, or it may not be written to.
    static Result<std::unique_ptr<ScratchFolder>> create(const std::string& name);
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

  private:
    explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}
    std::filesystem::path path_;
};

}  // namespace tw::cli

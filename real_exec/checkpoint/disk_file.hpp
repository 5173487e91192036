// A file being written so that it survives a crash: written to the end, flushed to disk, then renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "base/result.hpp"

namespace tw {

class DiskFile {
  public:
    // Creates or empties the file. More than `most_bytes` fail as on a full disk (tests); negative: no limit.
    static Result<DiskFile> create(const std::filesystem::path& path, std::int64_t most_bytes = -1);
    DiskFile(DiskFile&& other) noexcept;
    DiskFile& operator=(DiskFile&&) = delete;
    DiskFile(const DiskFile&) = delete;
    DiskFile& operator=(const DiskFile&) = delete;
    ~DiskFile();

    Status append(std::span<const std::byte> bytes);
    Status append(std::string_view text);
    // Flushes to disk, where there is one behind it, and closes.
    Status finish();
    [[nodiscard]] std::int64_t size() const { return size_; }

  private:
    DiskFile(std::filesystem::path path, int file, std::int64_t most)
        : path_(std::move(path)), file_(file), most_(most) {}
    [[nodiscard]] Error failed(std::string_view what, int reason) const;

    std::filesystem::path path_;
    int file_ = -1;
    std::int64_t most_ = -1;
    std::int64_t size_ = 0;
};

// A whole small file: written beside, flushed, renamed.
Status write_durably(const std::filesystem::path& path, std::string_view text);
// A whole file where a user wants it, durable likewise: `fill` appends its content. Links are followed; a
// pipe or a device is written as it is.
Status write_output(const std::filesystem::path& path, const std::function<Status(DiskFile&)>& fill);
// Renames, and flushes the folder of both.
Status rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace tw

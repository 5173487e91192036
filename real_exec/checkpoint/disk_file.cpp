#include "real_exec/checkpoint/disk_file.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/output_path.hpp"

namespace tw {
namespace {

Error io_error(const std::filesystem::path& path, std::string_view what, int reason) {
    return {ErrorCode::Failure, fmt::format("{}: {}", what, std::strerror(reason)), path.string(),
            reason == ENOSPC ? "free space there, or name another folder" : ""};
}

Status flush_folder(const std::filesystem::path& folder) {
    const int file = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) return io_error(folder, "cannot be opened", errno);
    const int flushed = ::fsync(file);
    const int reason = errno;
    ::close(file);
    // Some network file systems do not flush folders: EINVAL.
    if (flushed != 0 && reason != EINVAL) return io_error(folder, "cannot be flushed", reason);
    return ok();
}

}  // namespace

Result<DiskFile> DiskFile::create(const std::filesystem::path& path, std::int64_t most_bytes) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) return io_error(path, "cannot be created", errno);
    return DiskFile(path, file, most_bytes);
}

DiskFile::DiskFile(DiskFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      most_(other.most_),
      size_(other.size_) {}

DiskFile::~DiskFile() {
    if (file_ >= 0) ::close(file_);
}

Error DiskFile::failed(std::string_view what, int reason) const {
    return io_error(path_, fmt::format("{} after {} bytes", what, size_), reason);
}

Status DiskFile::append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        if (most_ >= 0 && size_ + static_cast<std::int64_t>(bytes.size()) > most_)
            return failed("cannot be written", ENOSPC);
        const ::ssize_t written = ::write(file_, bytes.data(), bytes.size());
        if (written < 0) {
            if (errno == EINTR) continue;
            return failed("cannot be written", errno);
        }
        size_ += written;
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return ok();
}

Status DiskFile::append(std::string_view text) {
    return append(std::as_bytes(std::span(text.data(), text.size())));
}

Status DiskFile::finish() {
    // Pipes and devices have nothing to flush: EINVAL.
    if (::fsync(file_) != 0 && errno != EINVAL) return failed("cannot be flushed", errno);
    const int closed = ::close(std::exchange(file_, -1));
    if (closed != 0) return failed("cannot be closed", errno);
    return ok();
}

Status write_durably(const std::filesystem::path& path, std::string_view text) {
    return write_output(path, [&](DiskFile& file) { return file.append(text); });
}

Status write_output(const std::filesystem::path& path, const std::function<Status(DiskFile&)>& fill) {
    const bool in_place = written_in_place(path);
    const std::filesystem::path target = output_path(path);
    const std::filesystem::path beside = in_place ? path : std::filesystem::path(target.string() + ".tmp");
    auto file = DiskFile::create(beside);
    if (!file) return file.errors();
    Status written = fill(*file);
    if (written) written = file->finish();
    if (in_place) return written;
    if (written) return rename_durably(beside, target);
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    return written;
}

Status rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
    if (::rename(from.c_str(), to.c_str()) != 0)
        return io_error(from, fmt::format("cannot be renamed to {}", to.string()), errno);
    return flush_folder(to.parent_path());
}

}  // namespace tw

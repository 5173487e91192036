#include "real_exec/checkpoint/mapped_file.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tw {

Result<std::shared_ptr<MappedFile>> MappedFile::open(const std::filesystem::path& path) {
    const auto fail = [&](std::string what) {
        return Error{ErrorCode::Unreadable, std::move(what), path.string(), ""};
    };
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return fail(std::string("cannot be opened: ") + std::strerror(errno));
    struct ::stat status {};
    if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(file);
        return fail("is not a regular file");
    }
    std::shared_ptr<MappedFile> mapped(new MappedFile);
    mapped->size_ = static_cast<std::size_t>(status.st_size);
    if (mapped->size_ > 0) {
        void* const data = ::mmap(nullptr, mapped->size_, PROT_READ, MAP_PRIVATE, file, 0);
        if (data == MAP_FAILED) {
            const int reason = errno;
            mapped->size_ = 0;
            ::close(file);
            return fail(std::string("cannot be mapped: ") + std::strerror(reason));
        }
        mapped->data_ = static_cast<const std::byte*>(data);
    }
    ::close(file);
    return mapped;
}

MappedFile::~MappedFile() {
    // munmap's signature takes memory that it does not write.
    if (size_ > 0) ::munmap(const_cast<std::byte*>(data_), size_);  // NOLINT(*-const-cast)
}

}  // namespace tw

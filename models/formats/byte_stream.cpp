#include "models/formats/byte_stream.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef TW_WITH_ZLIB
#include <zlib.h>
#endif

#include "base/check.hpp"

namespace tw {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kGiveBack = std::size_t{16}
                                  << 20;  // mapped pages are given back in pieces of this size

bool is_gzip(std::string_view head) {
    return head.size() >= 2 && head[0] == '\x1f' && head[1] == '\x8b';
}

}  // namespace

struct ByteStream::State {
    // A text in memory, or a mapped file.
    std::string_view whole;
    std::size_t at = 0;
    void* mapped = nullptr;
    std::size_t given_back = 0;
    // Pieces.
    int file = -1;
    bool pieces = false, compressed = false, ended = false;
    std::vector<char> buffer;
    std::size_t first = 0, last = 0;  // of the buffer: the window
    std::vector<char> input;
    std::int64_t offset = 0, bytes_read = 0, file_bytes = 0;
    std::string failure;
#ifdef TW_WITH_ZLIB
    z_stream zlib{};
    bool inflating = false;
#endif

    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        if (mapped != nullptr) munmap(mapped, whole.size());
        if (file >= 0) close(file);
#ifdef TW_WITH_ZLIB
        if (inflating) inflateEnd(&zlib);
#endif
    }

    // Bytes into `to`; 0 at the end of the file.
    std::size_t read_raw(char* to, std::size_t size) {
        for (;;) {
            const ssize_t got = ::read(file, to, size);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) failure = std::strerror(errno);
            if (got <= 0) return 0;
            bytes_read += got;
            return static_cast<std::size_t>(got);
        }
    }

#ifdef TW_WITH_ZLIB
    std::size_t read_inflated(char* to, std::size_t size) {
        zlib.next_out = reinterpret_cast<Bytef*>(to);
        zlib.avail_out = static_cast<uInt>(size);
        while (zlib.avail_out == size) {
            if (zlib.avail_in == 0) {
                const std::size_t got = read_raw(input.data(), input.size());
                if (got == 0) {
                    if (failure.empty()) failure = "the compressed data end early";
                    return 0;
                }
                zlib.next_in = reinterpret_cast<Bytef*>(input.data());
                zlib.avail_in = static_cast<uInt>(got);
            }
            const int code = inflate(&zlib, Z_NO_FLUSH);
            if (code == Z_STREAM_END) {
                // gzip files may be strung together (RFC 1952, 2.2); anything else behind the end is ignored.
                if (zlib.avail_in == 0) {
                    const std::size_t got = read_raw(input.data(), input.size());
                    zlib.next_in = reinterpret_cast<Bytef*>(input.data());
                    zlib.avail_in = static_cast<uInt>(got);
                }
                const bool more = zlib.avail_in > 0 && *zlib.next_in == 0x1f;
                if (!more || inflateReset(&zlib) != Z_OK) {
                    ended = true;
                    break;
                }
                continue;
            }
            if (code != Z_OK && code != Z_BUF_ERROR) {
                failure = std::string("the compressed data are damaged: ") +
                          (zlib.msg != nullptr ? zlib.msg : "unknown reason");
                return size - zlib.avail_out;
            }
        }
        return size - zlib.avail_out;
    }
#endif

    bool read_piece() {
        if (ended) return false;
        if (first > 0 && first >= buffer.size() / 2) {
            std::memmove(buffer.data(), buffer.data() + first, last - first);
            last -= first;
            first = 0;
        }
        // Doubling keeps the cost of one very long event linear.
        if (buffer.size() - last < kPiece) buffer.resize(std::max(2 * buffer.size(), 2 * kPiece));
        std::size_t got = 0;
#ifdef TW_WITH_ZLIB
        if (compressed) {
            got = read_inflated(buffer.data() + last, buffer.size() - last);
        } else {
            got = read_raw(buffer.data() + last, buffer.size() - last);
        }
#else
        got = read_raw(buffer.data() + last, buffer.size() - last);
#endif
        if (got == 0 || !failure.empty()) ended = true;
        last += got;
        return got > 0;
    }
};

ByteStream::ByteStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
ByteStream::ByteStream(ByteStream&&) noexcept = default;
ByteStream& ByteStream::operator=(ByteStream&&) noexcept = default;
ByteStream::~ByteStream() = default;

ByteStream ByteStream::over(std::string_view text) {
    auto state = std::make_unique<State>();
    state->whole = text;
    state->file_bytes = static_cast<std::int64_t>(text.size());
    return ByteStream(std::move(state));
}

Result<ByteStream> ByteStream::open(const std::filesystem::path& path) {
    const auto refuse = [&](const std::string& why, const std::string& hint = {}) {
        return Error{ErrorCode::Unreadable, why, path.string(), hint};
    };
    auto state = std::make_unique<State>();
    state->file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (state->file < 0) return refuse(std::string("cannot be opened: ") + std::strerror(errno));
    struct stat status {};
    if (fstat(state->file, &status) != 0) return refuse(std::strerror(errno));
    if (S_ISDIR(status.st_mode)) return refuse("is a directory");
    const bool regular = S_ISREG(status.st_mode);
    state->file_bytes = regular ? status.st_size : 0;
    char head[2] = {};
    if (regular && status.st_size >= 2) {
        state->compressed = pread(state->file, head, 2, 0) == 2 && is_gzip({head, 2});
    }
    if (regular && !state->compressed) {
        if (status.st_size == 0) return ByteStream(std::move(state));
        const auto size = static_cast<std::size_t>(status.st_size);
        void* mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, state->file, 0);
        if (mapped != MAP_FAILED) {
            state->mapped = mapped;
            state->whole = {static_cast<const char*>(mapped), size};
            madvise(mapped, size, MADV_SEQUENTIAL);
            return ByteStream(std::move(state));
        }
    }
    state->pieces = true;
    state->buffer.resize(2 * kPiece);
    if (!regular) {
        state->read_piece();
        if (is_gzip({state->buffer.data(), state->last}))
            return refuse("is compressed data from a pipe", "decompress it before: zcat FILE | ...");
    }
    if (state->compressed) {
#ifdef TW_WITH_ZLIB
        state->input.resize(kPiece / 4);
        // 16: a gzip header is expected.
        if (inflateInit2(&state->zlib, 16 + MAX_WBITS) != Z_OK) return refuse("zlib does not start");
        state->inflating = true;
#else
        return refuse("is compressed, and this build has no zlib", "decompress it: gunzip " + path.string());
#endif
    }
    return ByteStream(std::move(state));
}

std::string_view ByteStream::window() const {
    const State& s = *state_;
    if (!s.pieces) return s.whole.substr(s.at);
    return {s.buffer.data() + s.first, s.last - s.first};
}

void ByteStream::consume(std::size_t bytes) {
    State& s = *state_;
    TW_CHECK(bytes <= window().size());
    s.offset += static_cast<std::int64_t>(bytes);
    if (s.pieces) {
        s.first += bytes;
        return;
    }
    s.at += bytes;
    s.bytes_read = s.offset;
    if (s.mapped != nullptr && s.at - s.given_back >= kGiveBack) {
        const std::size_t end = s.at / kGiveBack * kGiveBack;
        madvise(static_cast<char*>(s.mapped) + s.given_back, end - s.given_back, MADV_DONTNEED);
        s.given_back = end;
    }
}

bool ByteStream::grow() {
    return state_->pieces && state_->read_piece();
}

std::int64_t ByteStream::offset() const {
    return state_->offset;
}
std::int64_t ByteStream::bytes_read() const {
    return state_->bytes_read;
}
std::int64_t ByteStream::file_bytes() const {
    return state_->file_bytes;
}
bool ByteStream::compressed() const {
    return state_->compressed;
}
std::string_view ByteStream::failure() const {
    return state_->failure;
}

}  // namespace tw

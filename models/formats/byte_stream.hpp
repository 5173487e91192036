// A file read once from front to back in bounded memory, whatever its size: a window of bytes that moves
// forward. Plain files are mapped and their pages given back behind the reader; gzip files (by content, not
// by name) and pipes are read in pieces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/result.hpp"

namespace tw {

class ByteStream {
  public:
    // Errors: Unreadable where the file cannot be opened, or is compressed and this build has no zlib.
    static Result<ByteStream> open(const std::filesystem::path& path);
    static ByteStream over(std::string_view text);  // which outlives the stream

    ByteStream(ByteStream&&) noexcept;
    ByteStream& operator=(ByteStream&&) noexcept;
    ~ByteStream();

    // The bytes at hand that were not consumed; views into it hold until the next consume or grow.
    [[nodiscard]] std::string_view window() const;
    void consume(std::size_t bytes);
    // Makes the window longer; false at the end of the file, or where reading fails (failure()).
    bool grow();

    [[nodiscard]] std::int64_t offset() const;      // of the window's first byte, uncompressed
    [[nodiscard]] std::int64_t bytes_read() const;  // of the file, compressed
    [[nodiscard]] std::int64_t file_bytes() const;  // 0: unknown (a pipe)
    [[nodiscard]] bool compressed() const;
    [[nodiscard]] std::string_view failure() const;  // "" or why reading ended early

  private:
    struct State;
    explicit ByteStream(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace tw

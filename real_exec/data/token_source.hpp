// The tokens of a file, read in place: bytes of a text, or integers of 16 or 32 bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "real_exec/checkpoint/mapped_file.hpp"

namespace tw {

class TokenSource {
  public:
    // Empty path: the corpus that is built in. ".bin": integers, little endian, after llm.c's header where
    // there is one; anything else: bytes. Errors: unreadable files, odd lengths, headers that promise other
    // lengths.
    static Result<TokenSource> open(const std::string& path);

    [[nodiscard]] std::int64_t size() const { return size_; }
    [[nodiscard]] std::uint32_t operator[](std::int64_t at) const;
    [[nodiscard]] bool is_text() const { return width_ == 1; }
    // "corpus.txt, 65536 tokens, crc32c 0123abcd": of the first and the last megabyte.
    [[nodiscard]] std::string description() const;

  private:
    std::string name_;
    std::shared_ptr<MappedFile> file_;
    const std::byte* data_ = nullptr;
    std::int64_t size_ = 0;  // tokens
    int width_ = 1;          // bytes of a token
};

}  // namespace tw

#include "real_exec/data/token_source.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "real_exec/checkpoint/crc32c.hpp"
#include "real_exec/data/corpus.hpp"

namespace tw {
namespace {

// llm.c, dev/data/data_common.py (write_datafile): 256 int32 of header; magic, version, number of tokens.
constexpr std::size_t kHeaderBytes = 1024;
constexpr std::uint32_t kGpt2Magic = 20240520, kGpt2Version = 1;    // uint16 tokens
constexpr std::uint32_t kLlamaMagic = 20240801, kLlamaVersion = 7;  // uint32 tokens

std::uint32_t load(const std::byte* data, int width) {
    std::uint32_t value = 0;
    for (int byte = width; byte-- > 0;)
        value = (value << 8U) | std::to_integer<std::uint32_t>(data[byte]);
    return value;
}

struct Layout {
    std::size_t begin = 0;
    int width = 2;
    std::int64_t promised = -1;  // tokens, by the header
};

Result<Layout> layout_of(std::span<const std::byte> bytes, const std::string& path) {
    if (bytes.size() < 8) return Layout{};
    const std::uint32_t magic = load(bytes.data(), 4), version = load(bytes.data() + 4, 4);
    if (magic != kGpt2Magic && magic != kLlamaMagic) return Layout{};
    if (bytes.size() < kHeaderBytes)
        return Error{
            ErrorCode::Unreadable,
            fmt::format("has llm.c's header, of which {} of {} bytes are there", bytes.size(), kHeaderBytes),
            path, ""};
    if (version != (magic == kGpt2Magic ? kGpt2Version : kLlamaVersion))
        return Error{ErrorCode::Unreadable,
                     fmt::format("has llm.c's header in version {}, which is not known", version), path, ""};
    return Layout{kHeaderBytes, magic == kGpt2Magic ? 2 : 4, load(bytes.data() + 8, 4)};
}

}  // namespace

Result<TokenSource> TokenSource::open(const std::string& path) {
    TokenSource source;
    if (path.empty()) {
        const std::string& corpus = built_in_corpus();
        source.name_ = "built-in corpus";
        source.data_ = std::as_bytes(std::span(corpus.data(), corpus.size())).data();
        source.size_ = static_cast<std::int64_t>(corpus.size());
        return source;
    }
    auto file = MappedFile::open(path);
    if (!file) return file.errors();
    source.file_ = *file;
    source.name_ = std::filesystem::path(path).filename().string();
    const std::span<const std::byte> bytes = source.file_->bytes();
    source.data_ = bytes.data();
    source.size_ = static_cast<std::int64_t>(bytes.size());
    if (!path.ends_with(".bin")) return source;
    const auto layout = layout_of(bytes, path);
    if (!layout) return layout.errors();
    source.width_ = layout->width;
    source.data_ += layout->begin;
    const std::size_t left = bytes.size() - layout->begin;
    if (left % static_cast<std::size_t>(layout->width) != 0)
        return Error{ErrorCode::Unreadable,
                     fmt::format("{} bytes are no whole number of {}-byte tokens", left, layout->width), path,
                     "a text has another ending than .bin"};
    source.size_ = static_cast<std::int64_t>(left) / layout->width;
    if (layout->promised >= 0 && layout->promised != source.size_)
        return Error{
            ErrorCode::Unreadable,
            fmt::format("its header promises {} tokens, {} are there", layout->promised, source.size_), path,
            ""};
    return source;
}

std::uint32_t TokenSource::operator[](std::int64_t at) const {
    return load(data_ + at * width_, width_);
}

std::string TokenSource::description() const {
    constexpr std::int64_t kEnd = 1 << 20;
    const std::int64_t bytes = size_ * width_, first = std::min(bytes, kEnd);
    const std::int64_t last = std::min(bytes - first, kEnd);
    std::uint32_t checksum = crc32c({data_, static_cast<std::size_t>(first)});
    checksum = crc32c({data_ + (bytes - last), static_cast<std::size_t>(last)}, checksum);
    return fmt::format("{}, {} tokens, crc32c {:08x}", name_, size_, checksum);
}

}  // namespace tw

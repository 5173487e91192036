#include "real_exec/checkpoint/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>
#define TW_CRC32C_X86 1
#endif

namespace tw {
namespace {

constexpr std::uint32_t kReflected = 0x82f63b78U;

// Slicing by eight (Kounavis and Berry 2008, "Novel table lookup-based algorithms for high-performance CRC
// generation"): table k holds the checksum of a byte with k zero bytes behind it.
constexpr std::array<std::array<std::uint32_t, 256>, 8> make_tables() {
    std::array<std::array<std::uint32_t, 256>, 8> tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit)
            crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kReflected : 0U);
        tables[0][byte] = crc;
    }
    for (std::size_t k = 1; k < 8; ++k) {
        for (std::size_t byte = 0; byte < 256; ++byte)
            tables[k][byte] = (tables[k - 1][byte] >> 8U) ^ tables[0][tables[k - 1][byte] & 0xffU];
    }
    return tables;
}
constexpr auto kTables = make_tables();

std::uint64_t load64(const std::byte* data) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, sizeof word);
    return word;
}

#ifdef TW_CRC32C_X86
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::span<const std::byte> bytes,
                                                               std::uint32_t before) {
    std::uint64_t crc = ~before;
    const std::byte* data = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 8; left -= 8, data += 8)
        crc = _mm_crc32_u64(crc, load64(data));
    auto narrow = static_cast<std::uint32_t>(crc);
    for (; left > 0; --left, ++data)
        narrow = _mm_crc32_u8(narrow, std::to_integer<unsigned char>(*data));
    return ~narrow;
}
#endif

}  // namespace

std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes, std::uint32_t before) {
    std::uint32_t crc = ~before;
    const std::byte* data = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 8; left -= 8, data += 8) {
        const std::uint64_t word = load64(data) ^ crc;
        crc = 0;
        for (std::size_t k = 0; k < 8; ++k)
            crc ^= kTables[7 - k][(word >> (8 * k)) & 0xffU];
    }
    for (; left > 0; --left, ++data)
        crc = (crc >> 8U) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(*data)) & 0xffU];
    return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
#ifdef TW_CRC32C_X86
    static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
    if (has_instruction) return by_instruction(bytes, before);
#endif
    return crc32c_by_tables(bytes, before);
}

}  // namespace tw

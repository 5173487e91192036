// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected; RFC 3720, appendix B.4), by the processor's own
// instruction where it has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tw {

// Of bytes that follow those whose checksum is `before` (0: none).
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
// The same by tables alone: what processors without the instruction run, and what the tests hold it against.
std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace tw

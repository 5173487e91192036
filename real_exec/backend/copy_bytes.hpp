// memcpy, memmove and memset of what may be nothing: a tensor without elements may have no memory, and their
// pointers may not be null even where nothing is copied (C17, 7.24.1).
#pragma once

#include <cstddef>
#include <cstring>

namespace tw {

inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
}
inline void move_bytes(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memmove(to, from, bytes);
}
inline void clear_bytes(void* at, std::size_t bytes) {
    if (bytes > 0) std::memset(at, 0, bytes);
}

}  // namespace tw

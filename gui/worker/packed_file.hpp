// A file inside a document: base64 of Qt's qCompress (the length as four bytes, then a zlib stream) of each
// 16 MiB of it. Files of any size are packed in bounded memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace tw::gui {

// Errors: Unreadable where the file cannot be read, Failure where its text would be longer than `most` bytes.
Result<std::vector<std::string>> pack_file(const std::string& path, std::size_t most);
// Errors: Failure where a piece is not what pack_file writes, or the file cannot be written.
Status unpack_file(const std::vector<std::string>& pieces, const std::string& path);

}  // namespace tw::gui

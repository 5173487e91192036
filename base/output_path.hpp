// Where a file goes that is written beside its name and then renamed over it.
#pragma once

#include <filesystem>

namespace tw {

// What `path` stands for: where it is a symbolic link, the file that the chain of links ends at, which need
// not be there yet. Renaming over the link itself would leave its target as it was.
std::filesystem::path output_path(const std::filesystem::path& path);

// A pipe, a device or a socket is written as it is: a rename would put a file in its place.
bool written_in_place(const std::filesystem::path& path);

}  // namespace tw

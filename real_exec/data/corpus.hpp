// The corpus that is built in: prose of our own making, strung from a small grammar by a fixed seed. The same
// bytes everywhere, about 64 KiB, so that a run needs no file and its loss can be compared across machines.
#pragma once

#include <string>

namespace tw {

inline constexpr std::size_t kCorpusBytes = 65'536;

// ASCII text of kCorpusBytes bytes.
const std::string& built_in_corpus();

}  // namespace tw

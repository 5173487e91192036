// Expansion of a shell's words; behind shell_words.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "plan/frameworks/import/shell_words.hpp"

namespace tw {

class ShellExpansion {
  public:
    explicit ShellExpansion(std::map<std::string, ShellWords>& variables) : variables_(variables) {}

    // The words that one word as written becomes. `unset_is_empty`: a variable that is not set is "" (in
    // conditions), else it stays as it is written.
    ShellWords words(std::string_view raw, bool unset_is_empty = false);
    // As one word, as on the right of an assignment.
    std::string value(std::string_view raw, bool unset_is_empty = false);
    // $((...)); nothing where it is no number.
    std::optional<std::int64_t> arithmetic(std::string_view text);

  private:
    struct Sink;
    void expand(std::string_view raw, bool quoted, Sink& sink, int depth);
    std::size_t dollar(std::string_view raw, std::size_t at, bool quoted, Sink& sink, int depth);
    void braced(std::string_view inside, bool quoted, Sink& sink, int depth);

    std::map<std::string, ShellWords>& variables_;
    std::size_t budget_ = std::size_t{1} << 19;  // characters that may come of all expansions together
};

// The end of what begins at `at` with $(, ${, a quote or a backtick: behind its last character; the text's
// end where it is not closed.
std::size_t shell_span(std::string_view text, std::size_t at);
bool is_shell_name(std::string_view text);

}  // namespace tw

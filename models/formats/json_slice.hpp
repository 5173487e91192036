// Looking into JSON text without building a document: values as slices of the text, decoded only where
// somebody asks. Lenient, since traces are written by many hands: control characters inside strings, bytes
// that are not UTF-8, NaN and other bare words pass. For documents of ours see base/json.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tw::json_slice {

// Behind the value that begins at text[at] (no blanks before it), or npos where the text ends inside it.
// A string ends at its quote, an object or array at its bracket, anything else before , ] } or a blank.
std::size_t skip_value(std::string_view text, std::size_t at);
std::size_t skip_blanks(std::string_view text, std::size_t at);

// One member of an object or element of an array at a time. `text` is the whole value with its brackets.
class Members {
  public:
    explicit Members(std::string_view text);
    // False at the end, or where the text stops being JSON.
    bool next();
    [[nodiscard]] std::string_view key() const { return key_; }      // between its quotes; "" in an array
    [[nodiscard]] std::string_view value() const { return value_; }  // with quotes or brackets

  private:
    std::string_view text_, key_, value_;
    std::size_t at_ = 0;
    bool object_ = false;
};

// The value of a key of this object itself, not of objects inside; "" where there is none.
std::string_view find(std::string_view object, std::string_view key);

// Without the quotes around it; escapes stay. What is no string is itself.
std::string_view unquoted(std::string_view value);
// Escapes decoded; always UTF-8: what is not becomes U+FFFD, control characters become blanks.
std::string decoded(std::string_view unquoted_text);
std::string text_of(std::string_view value);  // decoded(unquoted(value))

// Numbers, quoted or not.
std::optional<double> number(std::string_view value);
std::optional<std::int64_t> integer(std::string_view value);  // "8" and "8.0", not "8.5"

}  // namespace tw::json_slice

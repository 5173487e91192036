// Strict JSON documents. Parsing refuses what a lenient parser lets pass: duplicate keys, NaN and infinities,
// invalid UTF-8, nesting deeper than kMaxJsonDepth, trailing text, more values than fit in memory. Every
// error carries a JSON pointer, or the line and the byte where reading stopped. A byte order mark is skipped
// (RFC 8259, section 8.1), in files of any format.
//
// JsonObject reads one object and remembers which keys were asked for: unknown keys become errors that
// suggest the nearest known key (our own documents), or a list of ignored keys (foreign documents). All
// errors of a document are collected, so that a user sees them at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.hpp"

namespace tw {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t kMaxJsonDepth = 64;
inline constexpr std::size_t kMaxJsonValues = std::size_t{1} << 24;  // at most about 1 GB of memory
inline constexpr std::int64_t kMaxDocumentBytes = std::int64_t{256} << 20;

// `name` stands in the error's context (a path, or "<stdin>").
Result<Json> parse_json(std::string_view text, std::string_view name);
std::string_view without_byte_order_mark(std::string_view text);
// All of a stream, at most kMaxDocumentBytes.
Result<std::string> read_text_stream(std::istream& in, std::string_view name);
Result<std::string> read_text_file(const std::filesystem::path& path);
Result<Json> read_json_file(const std::filesystem::path& path);
Status write_text_file(const std::filesystem::path& path, std::string_view text);  // beside, then renamed

// One object being read. Getters return the fallback after recording an error; check errors at the end.
class JsonObject {
  public:
    // `value` must outlive the reader. Records an error where it is not an object.
    JsonObject(const Json& value, std::string pointer, Errors& errors);

    [[nodiscard]] bool has(std::string_view key) const;  // present and not null; marks the key as known
    [[nodiscard]] const Json* find(
        std::string_view key) const;  // null where absent or JSON null; marks it as known
    [[nodiscard]] std::string pointer(std::string_view key) const;

    void require(std::string_view key) const;  // an error where it is absent or null
    // Required: an error where absent, of another type, or outside [low, high]. Integers accept 8 and 8.0,
    // not 8.5.
    std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high) const;
    double number(std::string_view key, double low, double high) const;
    std::string string(std::string_view key) const;
    bool boolean(std::string_view key) const;
    // Optional: the fallback where absent or null; an error where present and wrong.
    std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t low,
                            std::int64_t high) const;
    double number_or(std::string_view key, double fallback, double low, double high) const;
    std::string string_or(std::string_view key, std::string fallback) const;
    bool boolean_or(std::string_view key, bool fallback) const;
    // A required array; an empty one (with an error recorded) where it is absent or something else.
    const Json& array(std::string_view key) const;

    void error(std::string_view key, std::string message, std::string hint = {}) const;
    // For our own documents: unknown keys as errors with the nearest known key, and nulls, which say nothing.
    void finish() const;
    // Unknown keys as a sorted list of pointers (foreign documents: listed as warnings).
    [[nodiscard]] std::vector<std::string> unread_keys() const;

  private:
    const Json* value_;
    std::string pointer_;
    Errors* errors_;
    mutable std::vector<std::string> known_;
    mutable std::vector<std::string> nulls_;  // of these an error is recorded
};

// Checks {"schema": "trainwright/<kind>", "version": N}, N in [1, newest], and marks both keys; returns the
// version (newest after an error).
int read_schema(const JsonObject& object, std::string_view kind, int newest);

}  // namespace tw

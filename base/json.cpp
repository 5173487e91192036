#include "base/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <istream>
#include <unordered_set>

#include "base/nearest.hpp"
#include "base/output_path.hpp"

namespace tw {
namespace {

std::string escape_pointer(std::string_view key) {
    std::string out;
    for (const char c : key) {
        if (c == '~') {
            out += "~0";
        } else if (c == '/') {
            out += "~1";
        } else {
            out += c;
        }
    }
    return out;
}

// Builds the document and refuses duplicate keys, deep nesting and what would not fit in memory. Keys are
// appended: nlohmann's own builder looks for each among all the others.
class StrictSax : public nlohmann::json_sax<Json> {
  public:
    explicit StrictSax(Json& root) : root_(&root) {}

    bool null() override { return put(nullptr); }
    bool boolean(bool v) override { return put(v); }
    bool number_integer(number_integer_t v) override { return put(v); }
    bool number_unsigned(number_unsigned_t v) override { return put(v); }
    bool number_float(number_float_t v, const string_t&) override { return put(v); }
    bool string(string_t& v) override { return put(std::move(v)); }
    bool binary(binary_t&) override { return fail("binary value"); }
    bool start_object(std::size_t) override { return enter(Json::object()); }
    bool end_object() override { return leave(); }
    bool start_array(std::size_t) override { return enter(Json::array()); }
    bool end_array() override { return leave(); }

    bool key(string_t& v) override {
        Level& level = levels_.back();
        Members& members = members_of(level);
        // Few keys are compared one by one, many by their hashes.
        constexpr std::size_t kFew = 16;
        if (members.size() == kFew) {
            for (const auto& member : members)
                level.keys.insert(member.first);
        }
        const bool twice = members.size() < kFew ? std::any_of(members.begin(), members.end(),
                                                               [&](const auto& m) { return m.first == v; })
                                                 : !level.keys.insert(v).second;
        members.emplace_back(std::move(v), nullptr);
        return !twice || fail("duplicate key '" + members.back().first + "'");
    }

    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception& e) override {
        message = e.what();
        if (const auto bracket = message.find("] ");
            message.starts_with("[json") && bracket != std::string::npos) {
            message.erase(0, bracket + 2);
        }
        byte = position;
        return false;
    }

    // Of the value that was read last.
    [[nodiscard]] std::string pointer() const {
        std::string out;
        for (const Level& level : levels_) {
            if (level.value->empty()) break;
            out += '/';
            out += level.value->is_array() ? std::to_string(level.value->size() - 1)
                                           : escape_pointer(members_of(level).back().first);
        }
        return out;
    }

    std::string message;
    std::size_t byte = 0;  // 0: the pointer alone says where

  private:
    using Members = Json::object_t::Container;
    struct Level {
        Json* value;
        std::unordered_set<std::string> keys;
    };

    static Members& members_of(const Level& level) { return level.value->get_ref<Json::object_t&>(); }

    // Where the value went; elements of a level do not move before the levels inside it are left.
    Json* place(Json value) {
        if (levels_.empty()) return &(*root_ = std::move(value));
        Level& level = levels_.back();
        if (level.value->is_array()) {
            auto& elements = level.value->get_ref<Json::array_t&>();
            return &elements.emplace_back(std::move(value));
        }
        return &(members_of(level).back().second = std::move(value));
    }
    bool put(Json value) {
        (void)place(std::move(value));
        return ++values_ <= kMaxJsonValues ||
               fail("holds more than " + std::to_string(kMaxJsonValues) + " values");
    }
    bool enter(Json value) {
        if (levels_.size() == kMaxJsonDepth)
            return fail("nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
        levels_.push_back({place(std::move(value)), {}});
        return ++values_ <= kMaxJsonValues ||
               fail("holds more than " + std::to_string(kMaxJsonValues) + " values");
    }
    bool leave() {
        levels_.pop_back();
        return true;
    }
    bool fail(std::string what) {
        message = std::move(what);
        return false;
    }

    Json* root_;
    std::vector<Level> levels_;
    std::size_t values_ = 0;
};

// "plan.json:12, byte 345"; bytes are counted from 1.
std::string place_in(std::string_view text, std::size_t byte, std::string_view name) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(byte - 1, text.size()));
    const auto line = std::count(text.begin(), end, '\n') + 1;
    return std::string(name) + ":" + std::to_string(line) + ", byte " + std::to_string(byte);
}

std::string type_name(const Json& v) {
    if (v.is_number_integer()) return "an integer";
    if (v.is_number()) return "a number";
    if (v.is_string()) return "a string";
    if (v.is_boolean()) return "a boolean";
    if (v.is_array()) return "an array";
    if (v.is_object()) return "an object";
    return "null";
}

std::string short_number(double v) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.12g", v);
    return buffer;
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view name) {
    if (static_cast<std::int64_t>(text.size()) > kMaxDocumentBytes) {
        return Error{ErrorCode::Unreadable,
                     "document of " + std::to_string(text.size()) + " bytes is larger than " +
                         std::to_string(kMaxDocumentBytes),
                     std::string(name), ""};
    }
    // To nlohmann's reader a NUL byte is the end of the text, whatever follows it. JSON has none anywhere.
    if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
        return Error{ErrorCode::Unreadable, "not a JSON document: a NUL byte", place_in(text, nul + 1, name),
                     "JSON is UTF-8 text"};
    }
    Json root;
    StrictSax sax(root);
    if (Json::sax_parse(text.begin(), text.end(), &sax)) return root;
    std::string context(name), message = "not a JSON document: " + sax.message;
    const std::string pointer = sax.pointer();
    if (sax.byte == 0) {
        context += pointer.empty() ? "" : ": " + pointer;
    } else {
        context = place_in(text, sax.byte, name);
        if (!pointer.empty()) message += ", at " + pointer;
    }
    return Error{ErrorCode::Unreadable, std::move(message), context, ""};
}

std::string_view without_byte_order_mark(std::string_view text) {
    constexpr std::string_view kMark = "\xEF\xBB\xBF";
    return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

Result<std::string> read_text_stream(std::istream& in, std::string_view name) {
    std::string text;
    std::vector<char> piece(std::size_t{1} << 16);
    do {
        in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
        text.append(piece.data(), static_cast<std::size_t>(in.gcount()));
        if (static_cast<std::int64_t>(text.size()) > kMaxDocumentBytes) {
            return Error{ErrorCode::Unreadable,
                         "is larger than " + std::to_string(kMaxDocumentBytes) + " bytes", std::string(name),
                         ""};
        }
    } while (in);
    if (in.bad()) return Error{ErrorCode::Unreadable, "cannot be read", std::string(name), ""};
    text.erase(0, text.size() - without_byte_order_mark(text).size());
    return text;
}

Result<std::string> read_text_file(const std::filesystem::path& path) {
    std::error_code ec;
    if (std::filesystem::is_directory(path, ec)) {
        return Error{ErrorCode::Unreadable, "is a directory, expected a file", path.string(), ""};
    }
    std::ifstream in(path, std::ios::binary);
    if (!in) return Error{ErrorCode::Unreadable, "cannot be opened", path.string(), ""};
    return read_text_stream(in, path.string());
}

Result<Json> read_json_file(const std::filesystem::path& path) {
    auto text = read_text_file(path);
    if (!text) return text.errors();
    return parse_json(*text, path.string());
}

Status write_text_file(const std::filesystem::path& path, std::string_view text) {
    std::error_code ec;
    const bool in_place = written_in_place(path);
    const std::filesystem::path file = output_path(path);
    const std::filesystem::path target = in_place ? path : std::filesystem::path(file.string() + ".part");
    {
        std::ofstream out(target, std::ios::binary | std::ios::trunc);
        out.write(text.data(), static_cast<std::streamsize>(text.size()));
        out.flush();
        if (!out) {
            if (!in_place) std::filesystem::remove(target, ec);
            return Error{ErrorCode::Failure, "cannot be written", path.string(), ""};
        }
    }
    if (in_place) return ok();
    std::filesystem::rename(target, file, ec);
    if (!ec) return ok();
    Error failed{ErrorCode::Failure, "cannot be written: " + ec.message(), path.string(), ""};
    std::filesystem::remove(target, ec);
    return failed;
}

JsonObject::JsonObject(const Json& value, std::string pointer, Errors& errors)
    : value_(&value), pointer_(std::move(pointer)), errors_(&errors) {
    if (!value.is_object()) {
        errors.push_back({ErrorCode::Unreadable, "expected an object, found " + type_name(value),
                          pointer_.empty() ? "/" : pointer_, ""});
    }
}

const Json* JsonObject::find(std::string_view key) const {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
    if (!value_->is_object()) return nullptr;
    const auto it = value_->find(std::string(key));
    return it == value_->end() || it->is_null() ? nullptr : &*it;
}

bool JsonObject::has(std::string_view key) const {
    return find(key) != nullptr;
}

std::string JsonObject::pointer(std::string_view key) const {
    return pointer_ + "/" + escape_pointer(key);
}

void JsonObject::require(std::string_view key) const {
    if (has(key)) return;
    const bool null = value_->is_object() && value_->contains(std::string(key));
    error(key, null ? "is null, a value is required" : "required key is missing");
    if (null) nulls_.emplace_back(key);
}

void JsonObject::error(std::string_view key, std::string message, std::string hint) const {
    errors_->push_back({ErrorCode::Unreadable, std::move(message), pointer(key), std::move(hint)});
}

std::int64_t JsonObject::integer_or(std::string_view key, std::int64_t fallback, std::int64_t low,
                                    std::int64_t high) const {
    const Json* v = find(key);
    if (!v) return fallback;
    std::int64_t result = fallback;
    const double number = v->is_number() ? v->get<double>() : 0.0;
    if (!v->is_number() || number != std::floor(number)) {
        error(key, "expected an integer, found " + (v->is_number() ? short_number(number) : type_name(*v)));
        return fallback;
    }
    const bool fits = v->is_number_float()
                          ? std::abs(number) < 9e15
                          : !v->is_number_unsigned() ||
                                v->get<std::uint64_t>() <=
                                    static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (fits) result = v->is_number_float() ? static_cast<std::int64_t>(number) : v->get<std::int64_t>();
    if (!fits || result < low || result > high) {
        error(key, short_number(number) + " is outside [" + std::to_string(low) + ", " +
                       std::to_string(high) + "]");
        return fallback;
    }
    return result;
}

double JsonObject::number_or(std::string_view key, double fallback, double low, double high) const {
    const Json* v = find(key);
    if (!v) return fallback;
    if (!v->is_number()) {
        error(key, "expected a number, found " + type_name(*v));
        return fallback;
    }
    const double result = v->get<double>();
    if (!(result >= low && result <= high)) {
        error(key,
              short_number(result) + " is outside [" + short_number(low) + ", " + short_number(high) + "]");
        return fallback;
    }
    return result;
}

std::string JsonObject::string_or(std::string_view key, std::string fallback) const {
    const Json* v = find(key);
    if (!v) return fallback;
    if (!v->is_string()) {
        error(key, "expected a string, found " + type_name(*v));
        return fallback;
    }
    return v->get<std::string>();
}

bool JsonObject::boolean_or(std::string_view key, bool fallback) const {
    const Json* v = find(key);
    if (!v) return fallback;
    if (!v->is_boolean()) {
        error(key, "expected true or false, found " + type_name(*v));
        return fallback;
    }
    return v->get<bool>();
}

std::int64_t JsonObject::integer(std::string_view key, std::int64_t low, std::int64_t high) const {
    require(key);
    return integer_or(key, low, low, high);
}

double JsonObject::number(std::string_view key, double low, double high) const {
    require(key);
    return number_or(key, low, low, high);
}

std::string JsonObject::string(std::string_view key) const {
    require(key);
    return string_or(key, "");
}

bool JsonObject::boolean(std::string_view key) const {
    require(key);
    return boolean_or(key, false);
}

const Json& JsonObject::array(std::string_view key) const {
    static const Json empty = Json::array();
    const Json* v = find(key);
    if (v && v->is_array()) return *v;
    if (v) {
        error(key, "expected an array, found " + type_name(*v));
    } else {
        require(key);
    }
    return empty;
}

std::vector<std::string> JsonObject::unread_keys() const {
    std::vector<std::string> unread;
    if (!value_->is_object()) return unread;
    for (const auto& item : value_->items()) {
        if (std::find(known_.begin(), known_.end(), item.key()) == known_.end())
            unread.push_back(pointer(item.key()));
    }
    std::sort(unread.begin(), unread.end());
    return unread;
}

void JsonObject::finish() const {
    if (!value_->is_object()) return;
    constexpr std::size_t kMostUnknown = 50;  // that are told one by one
    std::size_t unknown = 0;
    for (const auto& item : value_->items()) {
        if (std::find(known_.begin(), known_.end(), item.key()) != known_.end()) {
            const bool told = std::find(nulls_.begin(), nulls_.end(), item.key()) != nulls_.end();
            if (item.value().is_null() && !told)
                error(item.key(), "is null", "leave the key out for its default, or give a value");
            continue;
        }
        if (++unknown <= kMostUnknown)
            error(item.key(), "unknown key '" + item.key() + "'", unknown_name_hint(item.key(), known_));
    }
    if (unknown > kMostUnknown) {
        errors_->push_back({ErrorCode::Unreadable,
                            std::to_string(unknown - kMostUnknown) + " more unknown keys",
                            pointer_.empty() ? "/" : pointer_, ""});
    }
}

int read_schema(const JsonObject& object, std::string_view kind, int newest) {
    const std::string expected = "trainwright/" + std::string(kind);
    const std::string schema = object.string("schema");
    const Json* const given = object.find("schema");
    if (given != nullptr && given->is_string() && schema != expected) {
        object.error("schema", "is '" + schema + "', expected '" + expected + "'");
    }
    object.require("version");
    return static_cast<int>(object.integer_or("version", newest, 1, newest));
}

}  // namespace tw

#include "base/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/nearest.hpp"

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

// Rejects duplicate keys, non-finite numbers and deep nesting while the DOM is built.
class StrictSax : public nlohmann::json_sax<Json> {
  public:
    explicit StrictSax(Json& root) : dom_(root, false) {}

    bool null() override { return dom_.null(); }
    bool boolean(bool v) override { return dom_.boolean(v); }
    bool number_integer(number_integer_t v) override { return dom_.number_integer(v); }
    bool number_unsigned(number_unsigned_t v) override { return dom_.number_unsigned(v); }
    bool number_float(number_float_t v, const string_t& s) override {
        if (!std::isfinite(v)) return fail("number out of range: " + s.substr(0, 40));
        return dom_.number_float(v, s);
    }
    bool string(string_t& v) override { return dom_.string(v); }
    bool binary(binary_t& v) override { return dom_.binary(v); }
    bool start_object(std::size_t n) override {
        keys_.emplace_back();
        return enter() && dom_.start_object(n);
    }
    bool key(string_t& v) override {
        if (std::find(keys_.back().begin(), keys_.back().end(), v) != keys_.back().end() &&
            keys_.back().size() < 4096) {
            return fail("duplicate key '" + v + "'");
        }
        keys_.back().push_back(v);
        return dom_.key(v);
    }
    bool end_object() override {
        keys_.pop_back();
        --depth_;
        return dom_.end_object();
    }
    bool start_array(std::size_t n) override { return enter() && dom_.start_array(n); }
    bool end_array() override {
        --depth_;
        return dom_.end_array();
    }
    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception& e) override {
        message = e.what();
        byte = position;
        return false;
    }

    std::string message;
    std::size_t byte = 0;

  private:
    bool enter() {
        if (++depth_ > kMaxJsonDepth)
            return fail("nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
        return true;
    }
    bool fail(std::string what) {
        message = std::move(what);
        return false;
    }

    nlohmann::detail::json_sax_dom_parser<Json> dom_;
    std::vector<std::vector<std::string>> keys_;
    int depth_ = 0;
};

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
    Json root;
    StrictSax sax(root);
    const bool parsed = Json::sax_parse(text.begin(), text.end(), &sax);
    if (parsed) return root;
    std::string context(name);
    if (sax.byte > 0) {
        const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(sax.byte - 1, text.size()));
        const auto line = std::count(text.begin(), end, '\n') + 1;
        context += ":" + std::to_string(line) + ", byte " + std::to_string(sax.byte);
    }
    std::string message = sax.message;
    if (const auto bracket = message.find("] ");
        message.starts_with("[json") && bracket != std::string::npos) {
        message = message.substr(bracket + 2);
    }
    return Error{ErrorCode::Unreadable, "not a JSON document: " + message, context, ""};
}

Result<std::string> read_text_file(const std::filesystem::path& path) {
    std::error_code ec;
    if (std::filesystem::is_directory(path, ec)) {
        return Error{ErrorCode::Unreadable, "is a directory, expected a file", path.string(), ""};
    }
    std::ifstream in(path, std::ios::binary);
    if (!in) return Error{ErrorCode::Unreadable, "cannot be opened", path.string(), ""};
    const auto size = std::filesystem::file_size(path, ec);
    if (!ec && static_cast<std::int64_t>(size) > kMaxDocumentBytes) {
        return Error{
            ErrorCode::Unreadable,
            "file of " + std::to_string(size) + " bytes is larger than " + std::to_string(kMaxDocumentBytes),
            path.string(), ""};
    }
    std::ostringstream text;
    text << in.rdbuf();
    if (in.bad()) return Error{ErrorCode::Unreadable, "cannot be read", path.string(), ""};
    return std::move(text).str();
}

Result<Json> read_json_file(const std::filesystem::path& path) {
    auto text = read_text_file(path);
    if (!text) return text.errors();
    return parse_json(*text, path.string());
}

Status write_text_file(const std::filesystem::path& path, std::string_view text) {
    std::error_code ec;
    // Devices and pipes are written as they are: a rename would replace them.
    const bool in_place = std::filesystem::exists(path, ec) && !std::filesystem::is_regular_file(path, ec);
    const std::filesystem::path target = in_place ? path : std::filesystem::path(path.string() + ".part");
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
    std::filesystem::rename(target, path, ec);
    if (ec) return Error{ErrorCode::Failure, "cannot be written: " + ec.message(), path.string(), ""};
    return ok();
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
    if (!has(key)) error(key, "required key is missing");
    return integer_or(key, low, low, high);
}

double JsonObject::number(std::string_view key, double low, double high) const {
    if (!has(key)) error(key, "required key is missing");
    return number_or(key, low, low, high);
}

std::string JsonObject::string(std::string_view key) const {
    if (!has(key)) error(key, "required key is missing");
    return string_or(key, "");
}

bool JsonObject::boolean(std::string_view key) const {
    if (!has(key)) error(key, "required key is missing");
    return boolean_or(key, false);
}

const Json& JsonObject::array(std::string_view key) const {
    static const Json empty = Json::array();
    const Json* v = find(key);
    if (v && v->is_array()) return *v;
    error(key, v ? "expected an array, found " + type_name(*v) : "required key is missing");
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
    for (const auto& item : value_->items()) {
        if (std::find(known_.begin(), known_.end(), item.key()) != known_.end()) continue;
        error(item.key(), "unknown key '" + item.key() + "'", unknown_name_hint(item.key(), known_));
    }
}

int read_schema(const JsonObject& object, std::string_view kind, int newest) {
    const std::string expected = "trainwright/" + std::string(kind);
    const std::string schema = object.string("schema");
    if (!schema.empty() && schema != expected) {
        object.error("schema", "is '" + schema + "', expected '" + expected + "'");
    }
    return static_cast<int>(object.has("version")
                                ? object.integer("version", 1, newest)
                                : (object.error("version", "required key is missing"), newest));
}

}  // namespace tw

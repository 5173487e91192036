#include "plan/frameworks/import/shell_expand.hpp"

#include <algorithm>
#include <cctype>

#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

constexpr int kDeepest = 16;
constexpr std::string_view kBlanks = " \t\r\n";

bool name_start(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool name_part(char c) {
    return name_start(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

std::size_t name_end(std::string_view text, std::size_t at) {
    while (at < text.size() && name_part(text[at]))
        ++at;
    return at;
}

std::size_t closing(std::string_view text, std::size_t at, char open, char close) {
    int depth = 0;
    for (; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '\\') {
            ++at;
        } else if (c == '\'') {
            at = std::min(text.find('\'', at + 1), text.size() - 1);
        } else if (c == open) {
            ++depth;
        } else if (c == close && --depth == 0) {
            return at + 1;
        }
    }
    return text.size();
}

// Sums and products of whole numbers; names are looked up by `lookup`.
template <class Lookup>
class Arithmetic {
  public:
    Arithmetic(std::string_view text, Lookup lookup) : text_(text), lookup_(lookup) {}
    std::optional<std::int64_t> all() {
        const auto value = sum(0);
        skip();
        return at_ == text_.size() ? value : std::nullopt;
    }

  private:
    using Value = std::optional<std::int64_t>;
    void skip() {
        while (at_ < text_.size() && kBlanks.find(text_[at_]) != std::string_view::npos)
            ++at_;
    }
    bool take(char c) {
        skip();
        if (at_ >= text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    Value sum(int depth) {
        Value left = product(depth);
        while (left) {
            std::int64_t result = 0;
            if (take('+')) {
                const Value right = product(depth);
                if (!right || __builtin_add_overflow(*left, *right, &result)) return std::nullopt;
            } else if (take('-')) {
                const Value right = product(depth);
                if (!right || __builtin_sub_overflow(*left, *right, &result)) return std::nullopt;
            } else {
                break;
            }
            left = result;
        }
        return left;
    }
    Value product(int depth) {
        Value left = factor(depth);
        while (left) {
            std::int64_t result = 0;
            if (take('*')) {
                const Value right = factor(depth);
                if (!right || __builtin_mul_overflow(*left, *right, &result)) return std::nullopt;
            } else if (take('/')) {
                const Value right = factor(depth);
                if (!right || *right < 1) return std::nullopt;
                result = *left / *right;
            } else if (take('%')) {
                const Value right = factor(depth);
                if (!right || *right < 1) return std::nullopt;
                result = *left % *right;
            } else {
                break;
            }
            left = result;
        }
        return left;
    }
    Value factor(int depth) {
        if (depth > kDeepest) return std::nullopt;
        if (take('(')) {
            const Value inside = sum(depth + 1);
            return take(')') ? inside : std::nullopt;
        }
        take('$');
        const bool braces = take('{');
        skip();
        const std::size_t end = name_end(text_, at_);
        const std::string_view word = text_.substr(at_, end - at_);
        at_ = end;
        if (braces && !take('}')) return std::nullopt;
        if (word.empty()) return std::nullopt;
        return name_start(word.front()) ? lookup_(word) : parse_integer(word);
    }

    std::string_view text_;
    Lookup lookup_;
    std::size_t at_ = 0;
};

}  // namespace

bool is_shell_name(std::string_view text) {
    return !text.empty() && name_start(text.front()) && name_end(text, 0) == text.size();
}

std::size_t shell_span(std::string_view text, std::size_t at) {
    const char c = text[at];
    if (c == '\'' || c == '`') return std::min(text.find(c, at + 1), text.size() - 1) + 1;
    if (c == '"') {
        for (std::size_t i = at + 1; i < text.size(); ++i) {
            if (text[i] == '\\') {
                ++i;
            } else if (text[i] == '"') {
                return i + 1;
            } else if (text[i] == '$' && i + 1 < text.size() && text[i + 1] == '(') {
                i = closing(text, i + 1, '(', ')') - 1;
            }
        }
        return text.size();
    }
    if (at + 1 >= text.size()) return at + 1;
    if (text[at + 1] == '(') return closing(text, at + 1, '(', ')');
    if (text[at + 1] == '{') return closing(text, at + 1, '{', '}');
    return at + 1;
}

// Fields while they grow.
struct ShellExpansion::Sink {
    ShellWords done;
    std::string current;
    bool begun = false;  // a field exists, though it may be empty
    bool split = true;   // blanks of unquoted expansions part fields
    bool unset_is_empty = false;

    void put(std::string_view text) {
        current += text;
        begun = true;
    }
    void end() {
        if (begun) done.push_back(std::move(current));
        current.clear();
        begun = false;
    }
    void put_split(std::string_view text) {
        if (!split) return put(text);
        while (!text.empty()) {
            const std::size_t blank = text.find_first_of(kBlanks);
            if (blank > 0) put(text.substr(0, blank));
            if (blank == std::string_view::npos) return;
            end();
            text.remove_prefix(std::min(text.find_first_not_of(kBlanks, blank), text.size()));
        }
    }
};

ShellWords ShellExpansion::words(std::string_view raw, bool unset_is_empty) {
    Sink sink;
    sink.unset_is_empty = unset_is_empty;
    expand(raw, false, sink, 0);
    sink.end();
    return std::move(sink.done);
}

std::string ShellExpansion::value(std::string_view raw, bool unset_is_empty) {
    Sink sink;
    sink.unset_is_empty = unset_is_empty;
    sink.split = false;
    expand(raw, false, sink, 0);
    sink.end();
    std::string all;
    for (const std::string& word : sink.done)
        all += (all.empty() ? "" : " ") + word;
    return all;
}

std::optional<std::int64_t> ShellExpansion::arithmetic(std::string_view text) {
    const auto lookup = [this](std::string_view name) -> std::optional<std::int64_t> {
        const auto found = variables_.find(std::string(name));
        if (found == variables_.end() || found->second.empty()) return std::nullopt;
        return parse_integer(trim(found->second.front()));
    };
    return Arithmetic(text, lookup).all();
}

void ShellExpansion::expand(std::string_view raw, bool quoted, Sink& sink, int depth) {
    for (std::size_t i = 0; i < raw.size();) {
        const char c = raw[i];
        if (c == '\\' && i + 1 < raw.size()) {
            const char next = raw[i + 1];
            if (next != '\n') {
                const bool kept = quoted && next != '$' && next != '"' && next != '\\' && next != '`';
                sink.put(raw.substr(kept ? i : i + 1, kept ? 2 : 1));
            }
            i += 2;
        } else if (c == '\'' && !quoted) {
            const std::size_t end = shell_span(raw, i);
            sink.put(raw.substr(i + 1, end > i + 1 ? end - i - 2 : 0));
            i = end;
        } else if (c == '"' && !quoted) {
            const std::size_t end = shell_span(raw, i);
            // "${LIST[@]}" of an empty list is no word at all.
            const std::string_view inside = raw.substr(i + 1, end > i + 1 ? end - i - 2 : 0);
            if (inside.find("[@]") == std::string_view::npos) sink.put("");
            expand(inside, true, sink, depth + 1);
            i = end;
        } else if (c == '`') {
            const std::size_t end = shell_span(raw, i);
            sink.put(raw.substr(i, end - i));
            i = end;
        } else if (c == '$') {
            i = dollar(raw, i, quoted, sink, depth);
        } else {
            sink.put(raw.substr(i, 1));
            ++i;
        }
    }
}

std::size_t ShellExpansion::dollar(std::string_view raw, std::size_t at, bool quoted, Sink& sink, int depth) {
    const std::size_t end = shell_span(raw, at);
    const std::string_view whole = raw.substr(at, end - at);
    if (whole.starts_with("$((") && whole.ends_with("))")) {
        const auto number = arithmetic(whole.substr(3, whole.size() - 5));
        sink.put(number ? std::to_string(*number) : std::string(whole));
        return end;
    }
    if (whole.starts_with("${") && whole.ends_with("}")) {
        braced(whole.substr(2, whole.size() - 3), quoted, sink, depth);
        return end;
    }
    if (end > at + 1) {  // the output of a command
        sink.put(whole);
        return end;
    }
    const std::size_t name = name_end(raw, at + 1);
    if (name == at + 1 || !name_start(raw[at + 1])) {
        const std::size_t next = std::min(raw.size(), at + 2);  // $1, $@
        sink.put(raw.substr(at, next - at));
        return next;
    }
    braced(raw.substr(at + 1, name - at - 1), quoted, sink, depth);
    return name;
}

void ShellExpansion::braced(std::string_view inside, bool quoted, Sink& sink, int depth) {
    const std::size_t end = name_end(inside, 0);
    const std::string name(inside.substr(0, end));
    std::string_view rest = inside.substr(end);
    const auto literal = [&] { sink.put("${" + std::string(inside) + "}"); };
    if (depth > kDeepest || (!name.empty() && !name_start(name.front()) && rest.empty())) return literal();
    const auto found = variables_.find(name);
    const bool set = found != variables_.end();
    const bool filled = set && !found->second.empty() && !found->second.front().empty();
    const bool all = rest.starts_with("[@]") || rest.starts_with("[*]");
    if (all) rest.remove_prefix(3);

    if (!rest.empty()) {
        const bool colon = rest.front() == ':';
        const char action = rest.size() > (colon ? 1U : 0U) ? rest[colon ? 1 : 0] : ' ';
        const std::string_view word = rest.substr(std::min(rest.size(), colon ? std::size_t{2} : 1));
        const bool there = colon ? filled : set;
        if (std::string_view("-=+?").find(action) == std::string_view::npos) return literal();
        if (action == '+') {
            if (there) expand(word, quoted, sink, depth + 1);
            return;
        }
        if (!there && action == '-') return expand(word, quoted, sink, depth + 1);
        if (!there && action == '=' && !name.empty()) {
            Sink assigned;
            assigned.split = false;
            expand(word, quoted, assigned, depth + 1);
            variables_[name] = {assigned.current};
            return quoted ? sink.put(assigned.current) : sink.put_split(assigned.current);
        }
    }
    if (!set) return sink.unset_is_empty ? void() : literal();
    if (found->second.empty()) return;  // an empty list
    const ShellWords& values = found->second;
    std::size_t length = 0;
    for (const std::string& one : values)
        length += one.size() + 1;
    if (length > budget_) return literal();
    budget_ -= length;
    for (std::size_t i = 0; i < (all ? values.size() : 1); ++i) {
        if (i > 0 && sink.split) sink.end();
        if (i > 0 && !sink.split) sink.put(" ");
        if (quoted) {
            sink.put(values[i]);
        } else {
            sink.put_split(values[i]);
        }
    }
}

}  // namespace tw

#include "plan/frameworks/import/shell_words.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

#include "models/formats/text_lines.hpp"
#include "plan/frameworks/import/shell_expand.hpp"

namespace tw {
namespace {

enum class TokenKind : std::uint8_t { Word, List, Operator, End };

struct Token {
    TokenKind kind = TokenKind::End;
    std::string text;                // as written; of a list "NAME=" or "NAME+="
    std::vector<std::string> items;  // of NAME=( ... )
};

class Lexer {
  public:
    explicit Lexer(std::string_view text) : text_(text) {}

    std::vector<std::string> directives;

    Token next() {
        skip_blanks();
        if (at_ >= text_.size()) return {TokenKind::End, "", {}};
        const char c = text_[at_];
        if (c == '\n') {
            ++at_;
            skip_documents();
            return {TokenKind::Operator, ";", {}};
        }
        if (c == '<' || c == '>' || (c == '&' && text_.substr(at_, 2) == "&>")) {
            redirect();
            return next_after_redirect();
        }
        for (const std::string_view two : {"&&", "||", ";;"}) {
            if (text_.substr(at_, 2) == two) {
                at_ += 2;
                return {TokenKind::Operator, std::string(two), {}};
            }
        }
        if (std::string_view(";&|()").find(c) != std::string_view::npos) {
            ++at_;
            return {TokenKind::Operator, std::string(1, c), {}};
        }
        return word();
    }

  private:
    Token next_after_redirect() {
        skip_blanks();
        if (at_ >= text_.size()) return {TokenKind::End, "", {}};
        if (text_[at_] == '\n') return next();
        return text_[at_] == '<' || text_[at_] == '>' ? Token{TokenKind::Operator, ">", {}} : next();
    }

    void skip_blanks() {
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == ' ' || c == '\t' || c == '\r') {
                ++at_;
            } else if (c == '\\' && text_.substr(at_ + 1, 1) == "\n") {
                at_ += 2;
            } else if (c == '\\' && text_.substr(at_ + 1, 2) == "\r\n") {
                at_ += 3;
            } else if (c == '#') {
                comment();
            } else {
                return;
            }
        }
    }

    void comment() {
        const std::size_t end = std::min(text_.find('\n', at_), text_.size());
        const std::string_view line = text_.substr(at_, end - at_);
        if (line.starts_with("#SBATCH")) {
            for (const std::string_view token : split_tokens(line.substr(7))) {
                if (token.starts_with('#')) break;
                directives.emplace_back(token);
            }
        }
        at_ = end;
    }

    // "> file", "2>&1", "<<EOF".
    void redirect() {
        const std::size_t begin = at_;
        while (at_ < text_.size() && std::string_view("<>&-").find(text_[at_]) != std::string_view::npos)
            ++at_;
        const std::string_view sign = text_.substr(begin, at_ - begin);
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t'))
            ++at_;
        if (at_ >= text_.size() || text_[at_] == '\n') return;
        if (text_[at_] == '(') return;  // <(command)
        const Token target = word();
        if (sign == "<<" || sign == "<<-") {
            std::string end;
            for (const char c : target.text) {
                if (c != '\'' && c != '"' && c != '\\') end += c;
            }
            documents_.push_back(std::move(end));
        }
    }

    void skip_documents() {
        for (const std::string& end : documents_) {
            while (at_ < text_.size()) {
                const std::size_t line = std::min(text_.find('\n', at_), text_.size());
                const bool last = trim(text_.substr(at_, line - at_)) == end;
                at_ = std::min(line + 1, text_.size());
                if (last) break;
            }
        }
        documents_.clear();
    }

    Token word() {
        const std::size_t begin = at_;
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '\\') {
                at_ = std::min(at_ + 2, text_.size());
            } else if (c == '\'' || c == '"' || c == '`' || c == '$') {
                at_ = std::max(at_ + 1, shell_span(text_, at_));
            } else if (c == '(' && is_assignment(text_.substr(begin, at_ - begin))) {
                return list(std::string(text_.substr(begin, at_ - begin)));
            } else if (std::string_view(" \t\r\n;&|()<>").find(c) != std::string_view::npos) {
                break;
            } else {
                ++at_;
            }
        }
        if (at_ == begin) ++at_;
        return {TokenKind::Word, std::string(text_.substr(begin, at_ - begin)), {}};
    }

    static bool is_assignment(std::string_view text) {
        if (!text.ends_with('=')) return false;
        text.remove_suffix(1);
        if (text.ends_with('+')) text.remove_suffix(1);
        return is_shell_name(text);
    }

    Token list(std::string name) {
        Token token{TokenKind::List, std::move(name), {}};
        ++at_;
        while (true) {
            skip_blanks();
            if (at_ >= text_.size()) break;
            const char c = text_[at_];
            if (c == ')') {
                ++at_;
                break;
            }
            if (c == '\n' || std::string_view(";&|(<>").find(c) != std::string_view::npos) {
                ++at_;
            } else {
                token.items.push_back(word().text);
            }
        }
        return token;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::vector<std::string> documents_;  // ends of here-documents that begin on this line
};

class Interpreter {
  public:
    Interpreter(std::string_view text, const std::map<std::string, std::string>& preset) : lexer_(text) {
        for (const auto& [name, value] : preset)
            script_.variables[name] = {value};
    }

    ShellScript run() {
        std::vector<Token> command;
        while (true) {
            Token token = lexer_.next();
            if (token.kind == TokenKind::Word || token.kind == TokenKind::List) {
                command.push_back(std::move(token));
                continue;
            }
            const std::string sign = token.kind == TokenKind::End ? ";" : token.text;
            if (token.kind != TokenKind::End && in_pattern(sign, command)) continue;
            simple(std::move(command));
            command.clear();
            if (sign == ";;" && !frames_.empty()) frames_.back().pattern = true;
            skip_ = sign == "&&" ? !last_ : sign == "||" && last_;
            if (token.kind == TokenKind::End) break;
        }
        script_.directives = std::move(lexer_.directives);
        return std::move(script_);
    }

  private:
    struct Frame {
        enum class Kind : std::uint8_t { If, Loop, Case } kind = Kind::If;
        bool outer = true;     // what is around it runs
        bool active = false;   // this branch runs
        bool taken = false;    // some branch did
        bool asking = false;   // between if and then
        bool pattern = false;  // of a case: what follows is one
        std::string subject = {};
    };

    [[nodiscard]] bool active() const { return frames_.empty() || frames_.back().active; }

    // Patterns of a case: words up to ')'.
    bool in_pattern(const std::string& sign, std::vector<Token>& command) {
        if (frames_.empty() || !frames_.back().pattern) return false;
        Frame& frame = frames_.back();
        if (!command.empty() && command.front().text == "esac") {
            frame.pattern = false;
            return false;
        }
        for (const Token& token : command) {
            const std::string pattern = expand_.value(token.text);
            frame.asking = frame.asking || pattern == "*" || pattern == frame.subject;
        }
        command.clear();
        if (sign == ")") {
            frame.active = frame.outer && !frame.taken && frame.asking;
            frame.taken = frame.taken || frame.active;
            frame.asking = frame.pattern = false;
        }
        return true;
    }

    void simple(std::vector<Token> command) {
        while (!command.empty() && command.front().kind == TokenKind::Word && keyword(command)) {
        }
        if (command.empty()) return;
        const bool asking =
            !frames_.empty() && frames_.back().kind == Frame::Kind::If && frames_.back().asking;
        if (asking) {
            if (!frames_.back().outer || skip_) return;
            last_ = condition(command);
            return;
        }
        if (!active() || skip_) return;
        execute(command);
    }

    // Takes a keyword off the front of a command; true where what follows it is to be looked at.
    bool keyword(std::vector<Token>& command) {
        const std::string word = command.front().text;
        const auto take = [&command] { command.erase(command.begin()); };
        if (word == "{" || word == "}" || word == "do" || word == "time") return take(), true;
        if (word == "!") return take(), true;
        if (word == "if") {
            frames_.push_back({Frame::Kind::If, active() && !skip_, false, false, true, false, {}});
            return take(), true;
        }
        if (word == "for" || word == "while" || word == "until" || word == "select") {
            begin_loop(command);
            return false;
        }
        if (word == "case") {
            Frame frame{Frame::Kind::Case, active() && !skip_, false, false, false, true, {}};
            if (command.size() > 1) frame.subject = expand_.value(command[1].text, true);
            frames_.push_back(std::move(frame));
            // Its first pattern may stand on the same line.
            const std::size_t in = std::min<std::size_t>(3, command.size());
            command.erase(command.begin(), command.begin() + static_cast<std::ptrdiff_t>(in));
            command.clear();
            return false;
        }
        if (frames_.empty()) return false;
        Frame& frame = frames_.back();
        if (word == "then" && frame.kind == Frame::Kind::If) {
            frame.active = frame.outer && !frame.taken && last_;
            frame.taken = frame.taken || frame.active;
            frame.asking = false;
        } else if (word == "elif" && frame.kind == Frame::Kind::If) {
            frame.asking = true;
            frame.active = false;
            last_ = false;
        } else if (word == "else" && frame.kind == Frame::Kind::If) {
            frame.active = frame.outer && !frame.taken;
        } else if (word == "fi" || word == "done" || word == "esac") {
            frames_.pop_back();
        } else {
            return false;
        }
        return take(), true;
    }

    void begin_loop(std::vector<Token>& command) {
        const bool runs = active() && !skip_;
        frames_.push_back({Frame::Kind::Loop, runs, runs, true, false, false, {}});
        const bool over_words = command.size() > 3 && command[0].text == "for" && command[2].text == "in";
        if (runs && over_words) {
            for (std::size_t i = 3; i < command.size(); ++i) {
                const ShellWords words = expand_.words(command[i].text);
                if (words.empty()) continue;
                assign(command[1].text, {words.front()});
                break;
            }
        }
        command.clear();
    }

    void assign(const std::string& name, ShellWords value) {
        if (!is_shell_name(name)) return;
        if (!script_.variables.contains(name)) script_.order.push_back(name);
        script_.variables[name] = std::move(value);
    }

    bool assignment(const Token& token) {
        if (token.kind == TokenKind::List) {
            std::string name = token.text.substr(0, token.text.size() - 1);
            ShellWords words;
            if (name.ends_with('+')) {
                name.pop_back();
                if (const auto found = script_.variables.find(name); found != script_.variables.end())
                    words = found->second;
            }
            for (const std::string& item : token.items) {
                ShellWords more = expand_.words(item);
                words.insert(words.end(), more.begin(), more.end());
            }
            assign(name, std::move(words));
            return true;
        }
        const std::size_t sign = token.text.find('=');
        if (sign == std::string::npos || sign == 0) return false;
        const bool adds = token.text[sign - 1] == '+';
        const std::string name = token.text.substr(0, adds ? sign - 1 : sign);
        if (!is_shell_name(name)) return false;
        std::string value = expand_.value(token.text.substr(sign + 1));
        if (const auto found = script_.variables.find(name);
            adds && found != script_.variables.end() && !found->second.empty()) {
            value = found->second.front() + value;
        }
        assign(name, {std::move(value)});
        return true;
    }

    void execute(const std::vector<Token>& command) {
        const std::string& first = command.front().text;
        if (first == "[" || first == "[[" || first == "test" || open_) {
            last_ = condition(command);
            return;
        }
        last_ = true;
        std::size_t begin = 0;
        const bool declares = first == "export" || first == "declare" || first == "local" ||
                              first == "readonly" || first == "typeset";
        if (declares) {
            for (const Token& token : command)
                (void)assignment(token);
            return;
        }
        while (begin < command.size() && assignment(command[begin]))
            ++begin;
        ShellWords words;
        for (; begin < command.size(); ++begin) {
            ShellWords more = expand_.words(command[begin].text);
            words.insert(words.end(), more.begin(), more.end());
        }
        if (!words.empty() && words.front() != "echo" && words.front() != ":" && words.front() != "printf")
            script_.commands.push_back(std::move(words));
    }

    // [ and [[ of one comparison; everything else is not known, which is false.
    bool condition(const std::vector<Token>& command) {
        const std::string& first = command.front().text;
        if (first != "[" && first != "[[" && first != "test" && !open_) return false;
        ShellWords words;
        std::size_t i = open_ ? 0 : 1;  // [[ a = b && c = d ]] comes in two parts
        open_ = open_ || first == "[[";
        for (; i < command.size(); ++i) {
            const std::string& raw = command[i].text;
            if (raw == "]]") open_ = false;
            if (raw == "]" || raw == "]]") break;
            words.push_back(expand_.value(raw, true));
        }
        bool negated = false;
        if (!words.empty() && words.front() == "!") {
            negated = true;
            words.erase(words.begin());
        }
        const std::optional<bool> found = compare(words);
        return found && *found != negated;
    }

    static std::optional<bool> compare(const ShellWords& words) {
        if (words.size() == 1) return !words[0].empty();
        if (words.size() == 2) {
            if (words[0] == "-z") return words[1].empty();
            if (words[0] == "-n") return !words[1].empty();
            return std::nullopt;
        }
        if (words.size() != 3) return std::nullopt;
        const std::string& sign = words[1];
        if (sign == "=" || sign == "==") return words[0] == words[2];
        if (sign == "!=") return words[0] != words[2];
        const auto left = parse_number(trim(words[0])), right = parse_number(trim(words[2]));
        if (!left || !right) return std::nullopt;
        if (sign == "-eq") return *left == *right;
        if (sign == "-ne") return *left != *right;
        if (sign == "-gt") return *left > *right;
        if (sign == "-ge") return *left >= *right;
        if (sign == "-lt") return *left < *right;
        if (sign == "-le") return *left <= *right;
        return std::nullopt;
    }

    Lexer lexer_;
    ShellScript script_;
    ShellExpansion expand_{script_.variables};
    std::vector<Frame> frames_;
    bool last_ = true;   // how the last command, or the condition so far, ended
    bool skip_ = false;  // of a chain: the next command does not run
    bool open_ = false;  // inside [[ ]]
};

}  // namespace

ShellScript read_shell(std::string_view text, const std::map<std::string, std::string>& preset) {
    return Interpreter(text, preset).run();
}

ShellWords split_words(std::string_view text) {
    std::map<std::string, ShellWords> none;
    ShellExpansion expand(none);
    ShellWords words;
    Lexer lexer(text);
    for (Token token = lexer.next(); token.kind != TokenKind::End; token = lexer.next()) {
        if (token.kind != TokenKind::Word) continue;
        ShellWords more = expand.words(token.text);
        words.insert(words.end(), more.begin(), more.end());
    }
    return words;
}

}  // namespace tw

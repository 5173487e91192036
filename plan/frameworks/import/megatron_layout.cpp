#include <fmt/format.h>

#include "plan/frameworks/import/import_config.hpp"

namespace tw {
namespace {

constexpr std::size_t kMostLetters = std::size_t{1} << 17;
constexpr int kDeepest = 16;

// "(t*8|)*2" written out: letters and bars.
class Layout {
  public:
    explicit Layout(std::string_view text) : text_(text) {}

    Result<std::string> all() {
        std::string letters = sequence(0);
        if (problem_.empty() && at_ < text_.size()) refuse("a ')' that nothing opens");
        if (!problem_.empty()) return fault();
        return letters;
    }

  private:
    [[nodiscard]] Error fault() const {
        return {ErrorCode::Unreadable, fmt::format("column {}: {}", column_ + 1, problem_),
                "--pipeline-model-parallel-layout", "Et*3|(t*4|)*6t*3L: E, t, m, L, '|', x*n, (...)*n"};
    }
    void refuse(std::string what) {
        if (!problem_.empty()) return;
        problem_ = std::move(what);
        column_ = at_;
    }

    std::string sequence(int depth) {
        std::string all;
        if (depth > kDeepest) refuse("brackets in brackets, too deeply");
        while (problem_.empty() && at_ < text_.size() && text_[at_] != ')') {
            const char c = text_[at_];
            if (c == ',' || c == ' ' || c == '\n') {
                ++at_;
                continue;
            }
            std::string part;
            if (c == '(') {
                ++at_;
                part = sequence(depth + 1);
                if (at_ >= text_.size()) refuse("a '(' without its ')'");
                ++at_;
            } else if (std::string_view("EtmL|").find(c) != std::string_view::npos) {
                part = c;
                ++at_;
            } else {
                refuse(fmt::format("'{}' is none of E, t, m, L, |", c >= ' ' && c <= '~' ? c : '?'));
                break;
            }
            const std::size_t times = count();
            if (problem_.empty() && (all.size() + part.size() * times > kMostLetters)) refuse("too long");
            for (std::size_t i = 0; problem_.empty() && i < times; ++i)
                all += part;
        }
        return all;
    }

    // "*8", or 1.
    std::size_t count() {
        if (!problem_.empty() || at_ >= text_.size() || text_[at_] != '*') return 1;
        std::size_t value = 0, digits = 0;
        for (++at_; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && digits < 6;
             ++at_, ++digits)
            value = value * 10 + static_cast<std::size_t>(text_[at_] - '0');
        if (digits == 0) refuse("a '*' without its number");
        return value;
    }

    std::string_view text_;
    std::size_t at_ = 0, column_ = 0;
    std::string problem_;
};

Error misplaced(std::string message) {
    return {ErrorCode::Unreadable, std::move(message), "--pipeline-model-parallel-layout", "Et*4|t*4L"};
}

}  // namespace

Result<MegatronLayout> parse_megatron_layout(std::string_view text) {
    const auto letters = Layout(text).all();
    if (!letters) return letters.errors();
    MegatronLayout layout;
    layout.blocks.push_back(0);
    int embeddings = 0, losses = 0;
    for (std::size_t i = 0; i < letters->size(); ++i) {
        switch ((*letters)[i]) {
            case '|':
                layout.blocks.push_back(0);
                break;
            case 't':
                ++layout.blocks.back();
                break;
            case 'm':
                ++layout.mtp;
                break;
            case 'E':
                embeddings += i == 0 ? 1 : 2;
                break;
            default:
                losses += i + 1 == letters->size() ? 1 : 2;
        }
    }
    if (embeddings != 1) return misplaced("the embedding E stands once, at the beginning");
    if (losses != 1) return misplaced("the loss L stands once, at the end");
    return layout;
}

}  // namespace tw

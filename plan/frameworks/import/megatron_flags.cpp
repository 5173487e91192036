#include "plan/frameworks/import/megatron_flags.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/formats/text_lines.hpp"
#include "plan/frameworks/import/foreign_table.hpp"

namespace tw {
namespace {

const std::vector<std::string>& known_flags() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (const std::string_view line : split_lines(megatron_flag_names())) {
            for (const std::string_view name : split_tokens(line))
                all.emplace_back(name);
        }
        std::sort(all.begin(), all.end());
        return all;
    }();
    return names;
}

bool is_known(std::string_view name) {
    return std::binary_search(known_flags().begin(), known_flags().end(), name);
}

bool is_flag(std::string_view word) {
    return word.size() > 2 && word.starts_with("--");
}

// Words that hold several ("--fp8-format hybrid" in quotes, "$LAUNCHER $CMD") come apart.
ShellWords taken_apart(const ShellWords& words) {
    ShellWords all;
    for (const std::string& word : words) {
        const bool several =
            word.find_first_of(" \t\n") != std::string::npos && word.find("--") != std::string::npos;
        if (!several) {
            all.push_back(word);
            continue;
        }
        ShellWords parts = split_words(word);
        all.insert(all.end(), parts.begin(), parts.end());
    }
    return all;
}

// Where the program is named: "pretrain_gpt.py".
std::size_t program_at(const ShellWords& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i].ends_with(".py")) return i;
    }
    return words.size();
}

std::map<std::string, std::string> variables_of_slurm(const std::vector<std::string>& directives) {
    std::map<std::string, std::string> set;
    for (std::size_t i = 0; i < directives.size(); ++i) {
        const std::string& one = directives[i];
        const std::size_t sign = one.find('=');
        const std::string name = one.substr(0, sign);
        std::string value = sign != std::string::npos   ? one.substr(sign + 1)
                            : i + 1 < directives.size() ? directives[i + 1]
                                                        : "";
        if (name == "-N" || name == "--nodes") {
            value = value.substr(0, value.find('-'));
            set["SLURM_NNODES"] = set["SLURM_JOB_NUM_NODES"] = value;
        }
        if (name == "--gpus-per-node") set["SLURM_GPUS_PER_NODE"] = value;
        if (name == "--ntasks-per-node") set["SLURM_NTASKS_PER_NODE"] = value;
    }
    return set;
}

}  // namespace

int count_megatron_flags(const ShellWords& words) {
    std::set<std::string_view> found;
    for (const std::string& word : words) {
        if (!is_flag(word)) continue;
        const std::string_view name = std::string_view(word).substr(2);
        const std::string_view bare = name.substr(0, name.find('='));
        if (is_known(bare)) found.insert(bare);
    }
    return static_cast<int>(found.size());
}

MegatronCommand find_megatron_command(std::string_view text) {
    const ShellScript first = read_shell(text);
    const ShellScript script =
        first.directives.empty() ? first : read_shell(text, variables_of_slurm(first.directives));
    ShellWords best;
    int most = 2;  // fewer are a coincidence
    for (const ShellWords& command : script.commands) {
        ShellWords words = taken_apart(command);
        const int count = count_megatron_flags(words);
        if (count <= most) continue;
        most = count;
        best = std::move(words);
    }
    if (best.empty()) {
        for (const std::string& name : script.order) {
            const ShellWords words = taken_apart(script.variables.at(name));
            if (std::any_of(words.begin(), words.end(), is_flag))
                best.insert(best.end(), words.begin(), words.end());
        }
    }
    MegatronCommand command;
    const std::size_t at = program_at(best);
    const auto middle = best.begin() + static_cast<std::ptrdiff_t>(at == best.size() ? 0 : at);
    command.launcher.assign(best.begin(), middle);
    command.arguments.assign(middle, best.end());
    if (at < best.size()) command.program = best[at];
    for (const std::string& directive : script.directives) {
        const std::size_t sign = directive.find('=');
        command.launcher.push_back(directive.substr(0, sign));
        if (sign != std::string::npos) command.launcher.push_back(directive.substr(sign + 1));
    }
    return command;
}

MegatronFlags::MegatronFlags(const ShellWords& words, std::string_view path, Errors& errors,
                             std::vector<std::string>& warnings)
    : path_(path), errors_(&errors), warnings_(&warnings) {
    std::string name;
    for (const std::string& word : words) {
        if (is_flag(word)) {
            const std::size_t sign = word.find('=');
            name = word.substr(2, sign == std::string::npos ? sign : sign - 2);
            if (name.empty()) continue;
            if (!flags_.contains(name)) order_.push_back(name);
            flags_[name].clear();
            if (sign != std::string::npos) flags_[name].push_back(word.substr(sign + 1));
        } else if (!name.empty()) {
            flags_[name].push_back(word);
        }
    }
}

bool MegatronFlags::has(std::string_view name) const {
    read_.emplace_back(name);
    return flags_.find(name) != flags_.end();
}

const ShellWords* MegatronFlags::values(std::string_view name) const {
    read_.emplace_back(name);
    const auto found = flags_.find(name);
    return found == flags_.end() ? nullptr : &found->second;
}

std::optional<std::string> MegatronFlags::word(std::string_view name) const {
    const ShellWords* all = values(name);
    if (all == nullptr) return std::nullopt;
    if (all->empty()) {
        error(name, "has no value");
        return std::nullopt;
    }
    if (all->front().find('$') == std::string::npos && all->front().find('`') == std::string::npos)
        return all->front();
    warnings_->push_back(
        fmt::format("--{} is {}, which the file does not say: left out", name, excerpt(all->front())));
    return std::nullopt;
}

std::optional<double> MegatronFlags::number(std::string_view name, double low, double high) const {
    const auto text = word(name);
    if (!text) return std::nullopt;
    std::string digits;  // Python reads 220_000
    for (const char c : *text) {
        if (c != '_') digits += c;
    }
    const auto value = parse_number(digits);
    if (value && *value >= low && *value <= high) return value;
    error(name, fmt::format("{} is no number from {:g} to {:g}", quote(*text), low, high));
    return std::nullopt;
}

std::optional<std::int64_t> MegatronFlags::integer(std::string_view name, std::int64_t low,
                                                   std::int64_t high) const {
    const auto value = number(name, static_cast<double>(low), static_cast<double>(high));
    if (!value) return std::nullopt;
    const auto whole = static_cast<std::int64_t>(*value);
    if (static_cast<double>(whole) == *value) return whole;
    error(name, fmt::format("{:g} is no whole number", *value));
    return std::nullopt;
}

std::optional<int> MegatronFlags::degree(std::string_view name) const {
    const auto value = integer(name, 1, kMaxClusterDevices);
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

void MegatronFlags::error(std::string_view name, std::string message, std::string hint) const {
    errors_->push_back(
        {ErrorCode::Unreadable, std::move(message), fmt::format("{}: --{}", path_, name), std::move(hint)});
}

void MegatronFlags::warn_of_unknown() const {
    std::vector<std::string> others;
    for (const std::string& name : order_) {
        if (is_known(name) || std::find(read_.begin(), read_.end(), name) != read_.end()) continue;
        std::string dashed = name;
        std::replace(dashed.begin(), dashed.end(), '_', '-');
        const std::string near = did_you_mean(dashed, known_flags());
        if (near.empty()) {
            others.push_back("--" + excerpt(name));
        } else {
            warnings_->push_back(
                fmt::format("unknown flag --{}{}", excerpt(name),
                            "; did you mean '--" + near.substr(std::string("; did you mean '").size())));
        }
    }
    if (!others.empty())
        warnings_->push_back(
            fmt::format("Megatron-LM, core 0.20, has no flags {}: not read", fmt::join(others, ", ")));
}

}  // namespace tw

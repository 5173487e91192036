// A subcommand as it is declared: what it takes, what it answers, how it runs. Parsing, help and shell
// completion all follow from this one description.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "cli/common/console.hpp"

namespace tw::cli {

enum class Need : std::uint8_t { Optional, Required };

struct OptionSpec {
    std::string name;   // "-o,--output", "--stages"; a positional's is "NAME"
    std::string value;  // "P", "MODEL"; "a|b" where only these words are legal; empty: a flag
    std::string help;
    bool positional = false;
    bool required = false;
    bool repeated = false;                // takes any number of values
    const std::string* output = nullptr;  // a file that is written; "-" is stdout, which holds one document
    bool* flag = nullptr;
    std::string text;  // the last value assigned, as it was typed
    std::function<Status(const std::string&)>
        assign;  // one value as typed; the error's context is filled in by parsing
    bool given = false;
    bool typed = false;    // given in the words themselves, not by the environment or a configuration
    bool answers = false;  // a flag that chooses what stdout holds

    [[nodiscard]] std::string long_name() const;           // "--output"
    [[nodiscard]] std::vector<std::string> words() const;  // of "a|b"; else empty
};

struct Example {
    std::string line;  // without "trainwright"
    std::string explains;
};

class Command {
  public:
    Command(std::string name, std::string summary) : name_(std::move(name)), summary_(std::move(summary)) {}

    // What parsing fills in lives as long as the command does: `auto& options = command.keep<PlanOptions>();`
    template <class Options>
    Options& keep() {
        auto options = std::make_shared<Options>();
        kept_.push_back(options);
        return *options;
    }

    void details(std::string text) { details_ = std::move(text); }
    void example(std::string line, std::string explains) {
        examples_.push_back({std::move(line), std::move(explains)});
    }
    void run(std::function<int(Console&)> action) { action_ = std::move(action); }

    void positional(const std::string& name, std::string& target, std::string help,
                    Need need = Need::Required);
    void positionals(const std::string& name, std::vector<std::string>& target, std::string help,
                     Need need = Need::Required);
    // A positional that is one of a few words.
    void choice(std::string name, std::string& target, const std::vector<std::string>& words,
                std::string help);
    void text(std::string name, std::string& target, std::string value, std::string help,
              Need need = Need::Optional);
    // A file to write, or "-": at most one of them and --json may ask for stdout.
    void output(std::string name, std::string& target, std::string help);
    // A file to write that cannot be stdout: other processes write it, or it is read again.
    void output_file(std::string name, std::string& target, std::string help, Need need = Need::Optional);
    void word(std::string name, std::string& target, const std::vector<std::string>& words, std::string help);
    void integer(std::string name, int& target, int low, int high, std::string value, std::string help,
                 Need need = Need::Optional);
    void integer(std::string name, std::int64_t& target, std::int64_t low, std::int64_t high,
                 std::string value, std::string help, Need need = Need::Optional);
    void number(std::string name, double& target, double low, double high, std::string value,
                std::string help, Need need = Need::Optional);
    void duration(std::string name, double& seconds, std::string help, Need need = Need::Optional);
    void flag(std::string name, bool& target, std::string help);
    // A flag that chooses the answer: at most one of them, --json and outputs to "-" may be given.
    void answer(std::string name, bool& target, std::string help);
    // An option that does nothing without another (or that other's value): typed alone it is refused.
    // Defaults of the environment and of configurations may stand unused.
    void needs(std::string option, std::string other, std::string value = {});

    [[nodiscard]] bool given(std::string_view long_name) const;
    [[nodiscard]] bool typed(std::string_view long_name) const;
    // What was typed and does nothing, by what `needs` declared.
    [[nodiscard]] Errors unused() const;
    // Those of `names` (long names, positionals) that were typed, each with the reason why it does nothing.
    [[nodiscard]] Errors unused(std::span<const std::string_view> names, const std::string& why) const;
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] const std::string& summary() const { return summary_; }
    [[nodiscard]] const std::string& details() const { return details_; }
    [[nodiscard]] const std::vector<Example>& examples() const { return examples_; }
    [[nodiscard]] std::span<const OptionSpec> options() const { return options_; }
    [[nodiscard]] std::span<OptionSpec> options() { return options_; }
    [[nodiscard]] int execute(Console& console) const { return action_(console); }

  private:
    struct Dependence {
        std::string option, other, value;
    };

    OptionSpec& add(std::string name, std::string value, std::string help, Need need);

    std::string name_, summary_, details_;
    std::vector<Example> examples_;
    std::vector<OptionSpec> options_;
    std::vector<Dependence> needs_;
    std::vector<std::shared_ptr<void>> kept_;
    std::function<int(Console&)> action_;
};

using Commands = std::vector<std::unique_ptr<Command>>;

}  // namespace tw::cli

// The flags of one Megatron-LM command line while they are read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "plan/frameworks/import/shell_words.hpp"

namespace tw {

class MegatronFlags {
  public:
    // `words`: flags with their values, as the shell makes them.
    MegatronFlags(const ShellWords& words, std::string_view path, Errors& errors,
                  std::vector<std::string>& warnings);

    [[nodiscard]] bool empty() const { return flags_.empty(); }
    // Each marks the flag as known. Names without dashes. The last value counts, as in argparse.
    [[nodiscard]] bool has(std::string_view name) const;
    [[nodiscard]] const ShellWords* values(std::string_view name) const;
    [[nodiscard]] std::optional<std::string> word(std::string_view name) const;
    // Errors where it is no such number; nothing, with a warning, where the file does not say what its
    // variable is.
    [[nodiscard]] std::optional<std::int64_t> integer(std::string_view name, std::int64_t low,
                                                      std::int64_t high) const;
    [[nodiscard]] std::optional<int> degree(std::string_view name) const;  // 1 to 2^20
    [[nodiscard]] std::optional<double> number(std::string_view name, double low, double high) const;
    void error(std::string_view name, std::string message, std::string hint = {}) const;
    // Flags that Megatron-LM does not have: each with the nearest one, the rest together.
    void warn_of_unknown() const;

  private:
    std::map<std::string, ShellWords, std::less<>> flags_;
    std::vector<std::string> order_;
    std::string path_;
    Errors* errors_;
    std::vector<std::string>* warnings_;
    mutable std::vector<std::string> read_;
};

// The words of a script that are flags of Megatron-LM, and those that start its ranks (torchrun, srun, and
// #SBATCH). A script that starts nothing gives what its variables hold.
struct MegatronCommand {
    ShellWords launcher, arguments;
    std::string program;  // "pretrain_gpt.py"
};
MegatronCommand find_megatron_command(std::string_view text);
// How many words are flags of Megatron-LM.
int count_megatron_flags(const ShellWords& words);

struct ImportedConfig;
// The model that the flags describe, or what they lack of one (megatron_model.cpp).
void read_megatron_model(const MegatronFlags& flags, std::string_view program, ImportedConfig& config);

}  // namespace tw

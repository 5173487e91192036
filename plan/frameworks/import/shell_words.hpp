// What a shell script would start, without running anything: variables, arrays, arithmetic and plain
// conditions are followed, so that the words of its commands come out as the shell would make them.
//
// Followed are assignments (also export, declare, local and := defaults), arrays and +=, quotes, ${X},
// ${X:-word}, ${X[@]}, $((...)), if/elif/else on [ and [[ with strings and numbers, loops (their body once,
// with the first word), here-documents (skipped) and comments. What only the machine knows, a command's
// output or a variable that is not set, stays as it is written ("$SLURM_JOB_ID"), and a condition on it is
// false.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tw {

using ShellWords = std::vector<std::string>;

struct ShellScript {
    std::vector<ShellWords> commands;             // as expanded, in order
    std::map<std::string, ShellWords> variables;  // at the end; plain ones have one word
    std::vector<std::string> order;               // names of variables as first assigned
    std::vector<std::string> directives;          // "--nodes=2" of "#SBATCH --nodes=2"
};

// Never fails: what is not understood is no command. `preset`: variables that the script's surroundings set.
ShellScript read_shell(std::string_view text, const std::map<std::string, std::string>& preset = {});

// Words of a plain text as the shell splits them, quotes removed.
ShellWords split_words(std::string_view text);

}  // namespace tw

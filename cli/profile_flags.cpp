#include "cli/profile_flags.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/si_format.hpp"

namespace tw::cli {

void define_profile_flags(Command& command, ProfileFlags& flags) {
    command.output("-o,--output", flags.output, "where the profile goes, also while it is measured");
    command.duration("--budget", flags.budget_s, "for all benchmarks together; 120 s where not given");
    command.word("--backend", flags.backend, {"cpu", "cuda"}, "whose kernels are timed");
    command.integer("--threads", flags.threads, 1, 4096, "N", "of each rank's kernels");
    command.text("--only", flags.only, "NAMES", "these benchmarks alone, separated by commas");
    command.integer("--points", flags.points, 0, 1000, "N",
                    "measure so many points of each benchmark, whatever the budget; 1 where not given");
    command.flag("--fresh", flags.fresh, "measure everything anew, also what an interrupted profile has");
    command.flag("--process-time", flags.process_time,
                 "processor time instead of the wall's, for a machine that other programs use too");
}

std::vector<std::string> only_names(const ProfileFlags& flags) {
    std::vector<std::string> names;
    for (std::size_t begin = 0; begin < flags.only.size();) {
        const std::size_t end = std::min(flags.only.find(',', begin), flags.only.size());
        names.push_back(flags.only.substr(begin, end - begin));
        begin = end + 1;
    }
    return names;
}

std::vector<std::string> profile_words(const ProfileFlags& flags) {
    std::vector<std::string> words = {
        "--output",  flags.output,  "--budget",  fmt::format("{} s", format_exact(flags.budget_s)),
        "--backend", flags.backend, "--threads", std::to_string(flags.threads)};
    words.insert(words.end(), {"--points", std::to_string(flags.points)});
    if (!flags.only.empty()) {
        words.emplace_back("--only");
        words.push_back(flags.only);
    }
    if (flags.fresh) words.emplace_back("--fresh");
    if (flags.process_time) words.emplace_back("--process-time");
    if (flags.progress) words.emplace_back("--progress");
    return words;
}

}  // namespace tw::cli

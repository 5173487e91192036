// fit_profiles HW OUT REPORT: fits every shipped profile to the tables below HW, writes OUT/<device>.json and
// the report.
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include "base/json.hpp"
#include "profiler/fit/build_profiles.hpp"
#include "profiler/fit/fit_report.hpp"

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: fit_profiles HW OUT REPORT\n");
        return 2;
    }
    const int threads = static_cast<int>(std::thread::hardware_concurrency());
    const auto profiles = tw::build_profiles(argv[1], threads);
    if (!profiles) {
        std::fprintf(stderr, "%s\n", tw::to_string(profiles.errors()).c_str());
        return tw::exit_code(profiles.errors());
    }
    const std::filesystem::path out(argv[2]);
    for (const tw::ProfileFit& fit : *profiles) {
        const std::string text = tw::profile_text(fit.profile);
        const tw::Status written = tw::write_text_file(out / (fit.profile.name + ".json"), text);
        if (!written) {
            std::fprintf(stderr, "%s\n", tw::to_string(written.errors()).c_str());
            return 1;
        }
    }
    const tw::Status written = tw::write_text_file(argv[3], tw::fit_report(*profiles));
    if (!written) std::fprintf(stderr, "%s\n", tw::to_string(written.errors()).c_str());
    return written ? 0 : 1;
}

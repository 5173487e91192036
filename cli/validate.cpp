#include "cli/commands.hpp"
#include "sim/validate/validate_json.hpp"
#include "sim/validate/validate_text.hpp"

namespace tw::cli {
namespace {

struct ValidateOptions {
    std::vector<std::string> files;
    std::string svg, page;
    bool blind = false, rows = false;
    int worst = 0;
};

int validate_files(const ValidateOptions& options, Console& console) {
    const Result<ValidationReport> report = validate(options.files, !options.blind);
    if (!report) return console.fail(report.errors());
    if (!options.svg.empty()) {
        const Status written = console.write(options.svg, scatter_svg(*report));
        if (!written) return console.fail(written.errors());
    }
    if (!options.page.empty()) {
        const Status written = console.write(options.page, accuracy_page(*report));
        if (!written) return console.fail(written.errors());
    }
    if (options.svg == "-" || options.page == "-") return 0;
    if (console.json) {
        console.out_json(validation_to_json(*report));
        return 0;
    }
    console.out_table(validation_table(*report));
    if (options.rows || options.worst > 0) {
        console.out("\n");
        console.out_table(worst_rows(*report, options.rows ? 0 : static_cast<std::size_t>(options.worst)));
    }
    if (options.rows) {
        console.out("\n");
        console.out_table(reasons_table(*report));
    }
    return 0;
}

}  // namespace

void define_validate(Command& command) {
    auto& options = command.keep<ValidateOptions>();
    command.positionals("FILE", options.files, "documents of measured training runs");
    command.flag("--rows", options.rows, "list every row, and why the others were not compared");
    command.integer("--worst", options.worst, 0, 10'000, "N",
                    "list the N rows with the largest error of time");
    command.flag("--blind", options.blind, "calibrate nothing");
    command.text("--svg", options.svg, "FILE", "draw predicted against measured; - is stdout");
    command.text("--page", options.page, "FILE", "write the page of results as Markdown; - is stdout");
    command.details(
        "Every row that states layers, hidden size, parallel degrees, microbatch and global batch is "
        "predicted; what it does "
        "not say is the default of its framework's version. Calibrated: the host's time per dispatched "
        "operation, fitted on "
        "a declared twentieth of a source's rows that the score leaves out.");
    command.example("validate runs.json", "how far off the predictions are, per source");
    command.example("validate runs.json --rows --svg scatter.svg", "every row, and the picture");
    command.run([&options](Console& console) { return validate_files(options, console); });
}

}  // namespace tw::cli

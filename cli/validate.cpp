#include "cli/commands.hpp"
#include "sim/validate/ablate_text.hpp"
#include "sim/validate/validate_json.hpp"
#include "sim/validate/validate_text.hpp"

namespace tw::cli {
namespace {

struct ValidateOptions {
    std::vector<std::string> files;
    std::string svg, page;
    bool blind = false, rows = false, ablate = false;
    int worst = 0;
};

// Documents that could not be read, after the scores of the others.
int unread(const ValidationReport& report, Console& console) {
    return report.unread.empty() ? 0 : console.fail(report.unread);
}

int validate_files(const ValidateOptions& options, Console& console) {
    const ValidationReport report = validate(options.files, !options.blind);
    if (report.sources.empty() && !report.unread.empty()) return console.fail(report.unread);
    AblationReport ablation;
    if (options.ablate) ablation = ablate(report);
    if (!options.svg.empty()) {
        const Status written = console.write(options.svg, scatter_svg(report));
        if (!written) return console.fail(written.errors());
    }
    if (!options.page.empty()) {
        const std::string page = options.ablate ? ablation_page(ablation) : accuracy_page(report);
        const Status written = console.write(options.page, page);
        if (!written) return console.fail(written.errors());
    }
    if (options.svg == "-" || options.page == "-") return unread(report, console);
    if (console.json) {
        Json json = validation_to_json(report);
        if (options.ablate) json["ablation"] = ablation_to_json(ablation);
        console.out_json(json);
        return unread(report, console);
    }
    console.out_table(validation_table(report));
    if (options.ablate) {
        console.out("\n");
        console.out_table(ablation_table(ablation));
        console.out(
            "\nBlind; sources that move by two points or more. Change: points of the mean absolute error. "
            "--page\nand --json have them all.\n");
    }
    if (options.rows || options.worst > 0) {
        console.out("\n");
        console.out_table(worst_rows(report, options.rows ? 0 : static_cast<std::size_t>(options.worst)));
    }
    for (const TextTable& table : {reasons_table(report), assumptions_table(report)}) {
        if (table.rows() == 0) continue;
        console.out("\n");
        console.out_table(table);
    }
    return unread(report, console);
}

}  // namespace

void define_validate(Command& command) {
    auto& options = command.keep<ValidateOptions>();
    command.positionals("FILE", options.files, "documents of measured training runs");
    command.flag("--rows", options.rows, "list every row with its prediction");
    command.integer("--worst", options.worst, 0, 10'000, "N",
                    "list the N rows with the largest error of time");
    command.flag("--blind", options.blind, "calibrate nothing");
    command.flag("--ablate", options.ablate,
                 "switch off each choice of the frameworks' table and each mechanism in turn; --page then "
                 "writes the page of ablations");
    command.output("--svg", options.svg, "draw predicted against measured; - is stdout");
    command.output("--page", options.page, "write the page of results as Markdown; - is stdout");
    command.details(
        "Every row that states layers, hidden size, parallel degrees, microbatch and global batch is "
        "predicted; what it does "
        "not say is the default of its framework's version. Calibrated: the host's time per dispatched "
        "operation, fitted on "
        "a declared twentieth of a source's rows that the score leaves out.");
    command.example("validate runs.json", "how far off the predictions are, per source");
    command.example("validate runs.json --ablate --page ablation.md", "what each part of the model is worth");
    command.example("validate runs.json --rows --svg scatter.svg", "every row, and the picture");
    command.run([&options](Console& console) { return validate_files(options, console); });
}

}  // namespace tw::cli

// Predictions scored on measured training runs.
//
// Blind: constants of the hardware profiles alone. Calibrated: the host's time per dispatched operation, one
// factor a framework and kind of GPU, fitted on a declared subset of a source's rows (of all that have a time
// at most 5 %, or one; whole groups of equal layers, hidden, tp, pp and microbatch where they fit) that the
// calibrated score leaves out. No other parameter is ever fitted to a training run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "sim/validate/predict.hpp"
#include "sim/validate/score.hpp"

namespace tw {

struct ValidationRow {
    TruthRow truth;
    bool compared = false;
    std::string reason;                // why it was not
    std::string framework;             // the table's row
    std::string plan;                  // its summary
    std::vector<std::string> assumed;  // what the row does not say, or in words that nobody knows
    Prediction blind;
    double calibrated_step_time_s = 0;  // that of `blind` where nothing was calibrated
    double calibrated_sigma_s = 0;      // likewise
    bool calibrates = false;            // one of the declared subset

    [[nodiscard]] bool has_time() const {
        return compared && truth.step_time_s > 0 && truth.status == TruthStatus::Ok;
    }
    [[nodiscard]] bool has_memory() const {
        return compared && truth.memory_bytes > 0 && blind.memory_bytes > 0 &&
               truth.status == TruthStatus::Ok;
    }
};

struct Calibration {
    std::string file, framework, gpu;
    double dispatch_factor = 1;
    double dispatch_sigma = 0;      // of the factor, relative: from the errors that are left on the subset
    std::vector<std::string> rows;  // ids of the subset
};

struct SourceScore {
    std::string file;
    int rows = 0, compared = 0;
    ErrorScore time;                    // calibrated
    ErrorScore time_blind;              // all compared rows
    std::optional<double> kendall_tau;  // within sweeps, calibrated
    int sweeps = 0;
    // Share of times inside the stated 80 % interval; of the rows that `time` and `time_blind` score.
    double coverage = 0, coverage_blind = 0;
    ErrorScore memory;
    Confusion out_of_memory;
};

struct ValidationReport {
    std::vector<SourceScore> sources;  // in the order of the paths
    Errors unread;                     // documents that could not be read: one error or more each
    std::vector<ValidationRow> rows;
    std::vector<Calibration> calibrations;
};

// One field that a sweep varies; rows are equal in all others. At least kSweepRows rows make one.
inline constexpr int kSweepRows = 4;
// Indices of rows, each list one sweep.
std::vector<std::vector<std::size_t>> find_sweeps(const std::vector<ValidationRow>& rows);

// A document given twice counts once; of documents of one stem each is a source of its own. Those that cannot
// be read are listed beside the scores of the others.
ValidationReport validate(const std::vector<std::string>& paths, bool calibrate = true);

}  // namespace tw

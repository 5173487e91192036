// Two traces of one schedule side by side, a prediction and a measurement: joined by (rank, step, index),
// with the error of every kind of instruction, where they first part, and both bubbles. Both traces have
// their clocks aligned. O(n log n).
//
// A measured rank is held against the predicted one of the same pipeline rank and replica, or, where the
// prediction has one rank for all replicas, against that one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/text_table.hpp"
#include "plan/trace/analyze.hpp"

namespace tw {

struct CompareOptions {
    // Steady: the prediction's last step against every measured step from `first_measured_step` on (the first
    // steps of a run warm up). Otherwise step by step.
    bool steady = false;
    int first_measured_step = 0;
    double tolerance = 0.10;  // relative; which duration counts as parting
};

struct ErrorRow {
    Opcode opcode = Opcode::Forward;
    std::uint16_t stage = 0;
    std::int64_t count = 0;  // joined pairs
    double predicted_s = 0;  // mean duration
    double measured_s = 0;
    double measured_sigma_s = 0;  // standard deviation of the measured durations
    // (predicted - measured) / measured; 0 where both are 0.
    [[nodiscard]] double relative_error() const {
        if (measured_s == 0) return predicted_s == 0 ? 0 : 1;
        return (predicted_s - measured_s) / measured_s;
    }
};

struct Divergence {
    enum class Kind : std::uint8_t { Instruction, Missing, Duration } kind = Kind::Instruction;
    int rank = 0;
    int step = 0;  // of the measurement
    std::uint32_t index = 0;
    std::string text;  // "rank 2, step 0, 4: predicted 2F1, measured 2B0"
};

struct TraceComparison {
    std::vector<ErrorRow> rows;  // by opcode, then stage
    std::int64_t joined = 0;
    std::int64_t only_predicted = 0, only_measured = 0;
    double predicted_step_s = 0, measured_step_s = 0;  // steady; the measurement's mean over its steps
    double predicted_bubble = 0, measured_bubble = 0;
    std::vector<double> predicted_rank_bubble, measured_rank_bubble;  // as `ranks`
    std::vector<int> ranks;            // measured ones that have a partner in the prediction, ascending
    double measured_step_sigma_s = 0;  // standard deviation over the steps that count
    int measured_steps = 0;            // of these
    // The first by measured start: an instruction that differs or lacks, else a duration beyond the
    // tolerance.
    std::optional<Divergence> order_divergence, duration_divergence;
    [[nodiscard]] double step_error() const {
        return measured_step_s > 0 ? (predicted_step_s - measured_step_s) / measured_step_s : 0;
    }
};

// Index into predicted.ranks of the partner of each of measured.ranks; npos: none.
inline constexpr std::size_t kNoPartner = static_cast<std::size_t>(-1);
std::vector<std::size_t> partners_of(const Trace& predicted, const Trace& measured);

TraceComparison compare_traces(const Trace& predicted, const Trace& measured,
                               const CompareOptions& options = {});

// "forward  0  8  12.1 ms  11.8 ms ± 0.2 ms  +2.5 %"
TextTable error_table(const TraceComparison& comparison);

}  // namespace tw

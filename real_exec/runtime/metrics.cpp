#include "real_exec/runtime/metrics.hpp"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include <fmt/format.h>

#include "base/json.hpp"
#include "plan/trace/trace_json.hpp"

namespace tw {
namespace {

// A label's value: backslash, quote and line end are escaped (Prometheus, exposition formats).
std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\' || c == '"') out += '\\';
        out += c == '\n' ? ' ' : c;
    }
    return out;
}

// The format's words for what is no number.
std::string value_text(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    return fmt::format("{}", value);
}

}  // namespace

Result<Metrics> Metrics::open(const TrainOptions& options, const PlanDocument& document, bool writes) {
    Metrics metrics;
    if (!writes || options.log_folder.empty()) return metrics;
    std::error_code failed;
    std::filesystem::create_directories(options.log_folder, failed);
    auto lines = std::make_shared<std::ofstream>(options.log_folder + "/metrics.jsonl", std::ios::app);
    if (!*lines) {
        return Error{ErrorCode::Failure, "cannot write metrics.jsonl", options.log_folder,
                     "a folder that can be written"};
    }
    metrics.lines_ = std::move(lines);
    metrics.folder_ = options.log_folder;
    metrics.labels_ = fmt::format("{{model=\"{}\",plan=\"{}\"}}", escaped(document.model_name),
                                  escaped(summary(document.plan)));
    return metrics;
}

void Metrics::add(const StepResult& step) {
    if (!lines_) return;
    if (!(*lines_ << step_to_json_line(step) << std::flush)) {
        if (!lost_)
            std::cerr << fmt::format("{}/metrics.jsonl: cannot be written, lines are lost: {}\n", folder_,
                                     std::strerror(errno));
        lost_ = true;
        lines_->clear();  // the next line may find room
    }
    // A scrape that fails now succeeds after the next step.
    (void)write_text_file(folder_ + "/metrics.prom", prometheus_text(step, labels_));
}

std::string prometheus_text(const StepResult& step, const std::string& labels) {
    struct Gauge {
        const char* name;
        const char* help;
        double value;
    };
    const std::array gauges = {
        Gauge{"trainwright_step", "steps done", static_cast<double>(step.step + 1)},
        Gauge{"trainwright_loss", "mean loss of the step", step.loss},
        Gauge{"trainwright_learning_rate", "of the step", step.learning_rate},
        Gauge{"trainwright_step_seconds", "time of the step", step.step_time_s},
        Gauge{"trainwright_tokens_per_second", "over all ranks", step.tokens_per_s},
        Gauge{"trainwright_exposed_communication_seconds", "that ranks waited in the step, mean",
              step.exposed_communication_s},
        Gauge{"trainwright_allocated_bytes", "of tensors at the end of the step, the largest rank's",
              static_cast<double>(step.allocated_bytes)},
        Gauge{"trainwright_peak_allocated_bytes", "of tensors, the most so far, the largest rank's",
              static_cast<double>(step.peak_allocated_bytes)},
    };
    std::string text;
    const auto add = [&](const Gauge& gauge, const char* type) {
        text += fmt::format("# HELP {0} {1}\n# TYPE {0} {4}\n{0}{2} {3}\n", gauge.name, gauge.help, labels,
                            value_text(gauge.value), type);
    };
    for (const Gauge& gauge : gauges)
        add(gauge, "gauge");
    // A schedule that never knows the norm, and every precision but fp16, have nothing to show.
    if (!(step.grad_norm < 0)) add({"trainwright_gradient_norm", "before clipping", step.grad_norm}, "gauge");
    if (step.loss_scale > 0) {
        add({"trainwright_loss_scale", "of fp16", step.loss_scale}, "gauge");
        add({"trainwright_skipped_steps_total", "whose gradient overflowed fp16: nothing was updated",
             static_cast<double>(step.skipped_steps)},
            "counter");
    }
    return text;
}

Status write_trace_file(const Trace& trace, const std::string& path) {
    std::ostringstream text;
    write_trace(trace, text);
    return write_text_file(path, text.str());
}

}  // namespace tw

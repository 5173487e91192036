// What a run leaves for dashboards, on rank 0: a line of JSON for each step (metrics.jsonl), and the newest
// figures in Prometheus' text format (metrics.prom, for node_exporter's textfile collector), replaced as a
// whole.
#pragma once

#include <memory>
#include <ostream>
#include <string>

#include "base/result.hpp"
#include "plan/plan_json.hpp"
#include "real_exec/runtime/training.hpp"

namespace tw {

class Metrics {
  public:
    // Without a log folder, or on other ranks, nothing is written.
    static Result<Metrics> open(const TrainOptions& options, const PlanDocument& document, bool writes);
    // A line that cannot be written is reported on stderr, once a run.
    void add(const StepResult& step);

  private:
    std::string folder_, labels_;
    std::shared_ptr<std::ostream> lines_;
    bool lost_ = false;
};

// The text format's lines of one step.
std::string prometheus_text(const StepResult& step, const std::string& labels);
Status write_trace_file(const Trace& trace, const std::string& path);

}  // namespace tw

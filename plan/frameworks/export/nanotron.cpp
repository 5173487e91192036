// Sections of nanotron's YAML: config/config.py, config/parallelism_config.py.
#include <fmt/format.h>

#include "plan/frameworks/export/export_plan.hpp"

namespace tw {

PlanExport export_nanotron(const ExportInput& input) {
    const ParallelPlan& plan = input.plan();
    const DeviceMesh& mesh = plan.mesh;
    PlanExport made;
    made.remarks.emplace_back(
        "the sections model.model_config, optimizer's learning rate, data and the rest are the run's own");
    const std::int64_t divisor = export_vocab_divisor(input, "make_vocab_size_divisible_by", made.remarks);
    made.text = as_comments({"nanotron, main of 2026-04: " + input.title()}) + as_comments(made.remarks);
    made.text += "parallelism:\n";
    const auto line = [&made](std::string_view key, const auto& value) {
        made.text += fmt::format("  {}: {}\n", key, value);
    };
    line("dp", mesh.dp);
    line("pp", mesh.pp);
    line("tp", mesh.tp);
    line("context_parallel_size", mesh.cp);
    line("expert_parallel_size", 1);
    line("pp_engine", plan.schedule == "gpipe" ? "afab" : "1f1b");
    line("tp_mode", plan.sequence_parallel ? "REDUCE_SCATTER" : "ALL_REDUCE");
    line("tp_linear_async_communication", plan.overlap.tp && plan.sequence_parallel);
    line("recompute_layer", plan.stages.front().recompute == RecomputeMode::Full);
    made.text += "tokens:\n";
    line("micro_batch_size", plan.microbatch);
    line("batch_accumulation_per_replica", plan.microbatches);
    line("sequence_length", plan.seq_len);
    made.text += "optimizer:\n";
    line("zero_stage", plan.zero_stage);
    line("accumulate_grad_in_fp32", plan.precision.gradient_fp32);
    made.text += plan.optimizer == OptimizerKind::Adam ? "  optimizer_factory:\n    name: adamW\n"
                                                       : "  optimizer_factory:\n    name: sgd\n";
    made.text += "model:\n";
    line("dtype", plan.precision.compute == Precision::Fp32 ? "float32" : "bfloat16");
    line("make_vocab_size_divisible_by", divisor);
    return made;
}

}  // namespace tw

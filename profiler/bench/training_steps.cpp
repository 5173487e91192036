// Whole training steps of small transformers, run by the executor itself on one rank, with every kernel timed
// where it runs: caches are as the layers leave them, shapes those of training. What no kernel accounts for
// is the host's.
//
// The models span widths, sequence lengths, head dimensions and vocabularies; narrow attention and
// feed-forward layers stand for the shards of tensor parallelism.
#include <algorithm>
#include <array>
#include <cmath>

#include "models/families/registry.hpp"
#include "models/hardware/cluster_table.hpp"
#include "plan/stage_partition.hpp"
#include "profiler/bench/benchmarks.hpp"
#include "profiler/bench/training_models.hpp"
#include "real_exec/comm/local/local_transport.hpp"
#include "real_exec/runtime/training.hpp"

namespace tw {
namespace {

constexpr int kWarmUp = 2;  // steps: memory is mapped, products are compiled

SampleSeries series_of(const KernelCall& call) {
    SampleSeries point;
    point.benchmark = std::string(call.kernel);
    point.variant = std::string(precision_name(call.dtype));
    const auto size = [&](std::size_t i) { return static_cast<double>(call.size[i]); };
    if (call.kernel == "gemm") {
        static constexpr std::array kForms = {"forward", "input_grad", "weight_grad", "weight_grad"};
        point.variant += std::string(" ") + kForms[static_cast<std::size_t>(call.size[3])];
        point.shape = {{"m", size(0)}, {"n", size(1)}, {"k", size(2)}};
        if (call.size[4] != 0 && call.size[3] < 2) point.shape.emplace_back("adds", 1);
    } else if (call.kernel == "attention" || call.kernel == "attention_backward") {
        point.shape = {{"batch", size(0)},    {"seq", size(1)},      {"heads", size(2)},
                       {"kv_heads", size(3)}, {"head_dim", size(4)}, {"causal", size(5)}};
    } else {
        point.shape = {{"rows", size(0)}, {"width", size(1)}};
    }
    point.shape.emplace_back("in_step", 1);
    return point;
}

// Steps of one model: kernels into the document, and the time of a step beside them.
class ModelRun {
  public:
    ModelRun(BenchContext& context, const TrainingModel& model)
        : c_(context),
          model_(model),
          timed_(make_timing_backend(*context.backend, log_, context.sampler->clock())) {}

    // Steps during which others slowed the machine count only where no two others do: their times over how
    // much longer the pace's reference took.
    bool run(int steps) {
        const auto document = training_document(model_);
        if (!document) return false;
        auto transport = std::move(local_transports(1).front());
        TrainOptions options;
        options.steps = kWarmUp + steps;
        options.quiet = true;
        options.threads = c_.threads;
        log_.switch_on(false);
        double begin = 0, all_s = 0, slower_before = 1;
        Counted alone, disturbed;
        const auto trained = train(*document, options, *transport, *timed_, [&](const StepResult& step) {
            const double end = c_.sampler->now();
            const bool before = at_pace_;
            at_pace_ = c_.sampler->undisturbed();
            const double slower = c_.sampler->slower();
            if (step.step >= kWarmUp) {
                all_s += end - begin;
                Counted& kind = before && at_pace_ ? alone : disturbed;
                const double factor = before && at_pace_ ? 1 : 2 / (slower_before + slower);
                log_.keep_in(kind.log, factor);
                kind.seconds += factor * (end - begin);
                ++kind.steps;
            }
            slower_before = slower;
            log_.switch_on(step.step + 1 >= kWarmUp);
            begin = c_.sampler->now();
        });
        step_s_ = all_s / steps;
        const Counted& counted = alone.steps >= 2 ? alone : disturbed;
        if (!trained || counted.log.count() == 0) return false;
        for (const auto& [call, seconds] : counted.log.calls()) {
            SampleSeries point = series_of(call);
            // A step calls the same shape many times: medians of few suffice.
            const std::size_t keep = 24;
            const std::size_t stride = std::max<std::size_t>(1, seconds.size() / keep);
            for (std::size_t i = 0; i < seconds.size() && point.values.size() < keep; i += stride)
                point.values.push_back(seconds[i]);
            c_.keep(std::move(point));
        }
        SampleSeries host;
        host.benchmark = "host";
        host.variant = model_.name();
        const auto calls = static_cast<double>(counted.log.count());
        host.shape = {{"operations", std::round(calls / counted.steps)}};
        host.values = {std::max(0.0, counted.seconds - counted.log.total_s()) / calls};
        c_.keep(std::move(host));
        SampleSeries whole;
        whole.benchmark = "training_step";
        whole.variant = model_.name();
        whole.values = {counted.seconds / counted.steps};
        c_.keep(std::move(whole));
        log_.clear();
        return true;
    }
    [[nodiscard]] double step_s() const { return step_s_; }

  private:
    struct Counted {
        KernelLog log;
        double seconds = 0;
        int steps = 0;
    };

    BenchContext& c_;
    const TrainingModel& model_;
    KernelLog log_;
    std::unique_ptr<Backend> timed_;
    double step_s_ = 0;
    bool at_pace_ = false;
};

}  // namespace

void run_training_steps(BenchContext& c) {
    const std::span<const TrainingModel> models = training_models(c.backend->host_memory());
    const double begin = c.sampler->now();
    const double each = (c.sampler->deadline() - begin) / static_cast<double>(models.size());
    // Rounds over all models: what slows the machine for a while slows one sample of many.
    constexpr int kRounds = 3;
    std::vector<double> step_s(models.size(), 0);
    for (int round = 0; round < kRounds; ++round) {
        for (std::size_t i = 0; i < models.size(); ++i) {
            if (c.sampler->over()) return;
            SampleSeries known;
            known.benchmark = "training_step";
            known.variant = models[i].name();
            const auto before = std::find_if(c.document->samples.begin(), c.document->samples.end(),
                                             [&](const SampleSeries& s) { return s.same_point(known); });
            if (before != c.document->samples.end() && static_cast<int>(before->values.size()) > round)
                continue;
            // The first round tells how long a step takes.
            const int steps =
                step_s[i] > 0 ? static_cast<int>(std::clamp(each / kRounds / step_s[i] - kWarmUp, 2.0, 20.0))
                              : 2;
            ModelRun run(c, models[i]);
            run.run(steps);
            if (run.step_s() > 0) step_s[i] = run.step_s();
            c.sampler->count_point();
        }
    }
}

}  // namespace tw

#include "real_exec/runtime/training.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "models/families/cnn.hpp"
#include "plan/schedule/check.hpp"
#include "plan/trace/stragglers.hpp"
#include "real_exec/checkpoint/checkpoint.hpp"
#include "real_exec/comm/call_guard.hpp"
#include "real_exec/data/dataset.hpp"
#include "real_exec/runtime/executable.hpp"
#include "real_exec/runtime/executor.hpp"
#include "real_exec/runtime/metrics.hpp"
#include "real_exec/runtime/rank_log.hpp"
#include "real_exec/runtime/run_checkpoint.hpp"
#include "real_exec/runtime/sync_method.hpp"
#include "real_exec/runtime/trace_gather.hpp"

namespace tw {
namespace {

DataOptions data_options(const PlanDocument& document, const TrainOptions& options) {
    DataOptions data;
    data.path = options.data;
    data.seed = options.seed;
    data.seq_len = document.plan.seq_len;
    data.vocabulary = document.graph.vocab;
    data.kind = document.graph.causal ? SampleKind::Tokens : SampleKind::MaskedTokens;
    const auto* first = dynamic_cast<const CnnUnit*>(document.graph.layer(0).model.get());
    const auto* last =
        dynamic_cast<const CnnUnit*>(document.graph.layer(document.graph.size() - 1).model.get());
    if (first == nullptr || last == nullptr) return data;
    const ImageShape& image = first->steps().front().inputs.front();
    data.kind = SampleKind::Images;
    data.channels = image.channels;
    data.height = image.height;
    data.width = image.width;
    data.classes = last->steps().back().output.channels;
    return data;
}

// One rank's run.
class Run {
  public:
    Run(const PlanDocument& document, const TrainOptions& options, Transport& transport, Backend& backend,
        RankLog& log, const OnStep& on_step)
        : document_(document),
          options_(options),
          transport_(transport),
          backend_(backend),
          log_(log),
          on_step_(on_step) {}

    Result<TrainResult> run() {
        if (Status ready = prepare(); !ready) return ready.errors();
        if (Status ready = start(); !ready) return ready.errors();
        const auto after = [this](std::int64_t step, const StepNumbers& numbers) {
            return after_step(step, numbers);
        };
        const auto ends = [this](std::int64_t step) { return ends_before(step); };
        // A schedule without flush is one program from the first step to the last.
        const bool flushes = schedule_.boundary != StepBoundary::None;
        for (std::int64_t step = first_step_; step < options_.steps;
             step = flushes ? step + 1 : options_.steps) {
            if (ends_before(step)) break;
            if (Status ran = executor_->run(step, after, ends); !ran) return ran.errors();
            keep_events();
        }
        return finish();
    }

  private:
    Status prepare() {
        if (Errors errors = unsupported_by_executor(document_.graph, document_.plan); !errors.empty())
            return errors;
        if (Errors errors = unsupported_options(document_, options_); !errors.empty()) return errors;
        auto dataset = Dataset::open(data_options(document_, options_));
        if (!dataset) return dataset.errors();
        dataset_ = std::move(*dataset);
        return ok();
    }

    Status lower(std::int64_t steps) {
        auto schedule = executed_schedule(document_.graph, document_.plan, std::max<std::int64_t>(1, steps));
        if (!schedule) return schedule.errors();
        if (Errors errors = check_schedule(*schedule); !errors.empty()) return errors;
        schedule_ = std::move(*schedule);
        return ok();
    }

    Status make_executor() {
        auto executor =
            Executor::create(document_, schedule_, transport_, backend_, *dataset_, clock_, options_);
        if (!executor) return executor.errors();
        executor_ = std::move(*executor);
        return ok();
    }

    // Communicators, memory, and the state: drawn, or a checkpoint's.
    Status start() {
        if (Status lowered = lower(options_.steps); !lowered) return lowered;
        if (Status made = make_executor(); !made) return made;
        if (options_.resume_folder.empty()) {
            for (const auto& state : executor_->states()) {
                if (state) state->initialise(options_.seed, options_.threads);
            }
            if (!options_.weights.empty()) {
                if (Status read = start_from_weights(*executor_, options_.weights, backend_); !read)
                    return read;
            }
        } else {
            auto resumed = resume_from_checkpoint(*executor_, options_, document_, *dataset_, backend_);
            if (!resumed) return resumed.errors();
            first_step_ = resumed->step;
            for (const std::string& refused : resumed->refused)
                result_.notes.push_back("checkpoint refused: " + refused);
            if (first_step_ >= options_.steps && options_.attempt == 0)
                result_.notes.push_back(
                    fmt::format("the checkpoint is of step {}: nothing is left of {} steps", first_step_,
                                options_.steps));
            // A schedule without flush spans what is left.
            if (schedule_.boundary == StepBoundary::None && first_step_ > 0) {
                executor_.reset();
                if (Status lowered = lower(options_.steps - first_step_); !lowered) return lowered;
                if (Status made = make_executor(); !made) return made;
                if (auto again = resume_from_checkpoint(*executor_, options_, document_, *dataset_, backend_);
                    !again)
                    return again.errors();
            }
        }
        if (!options_.checkpoint_folder.empty()) {
            CheckpointOptions checkpoint;
            checkpoint.folder = options_.checkpoint_folder;
            checkpoint.rank = transport_.rank();
            checkpoint.world = transport_.size();
            checkpoint.attempt = options_.attempt;
            if (!backend_.host_memory()) {
                checkpoint.to_host = [this](void* host, const Tensor& tensor) {
                    backend_.copy_to_host(host, tensor);
                    return ok();
                };
            }
            for (const Fault& fault : options_.faults) {
                if (fault.rank != transport_.rank()) continue;
                if (fault.kind == Fault::Kind::Corrupt) checkpoint.faults.corrupt = true;
                if (fault.kind == Fault::Kind::FullDisk)
                    checkpoint.faults.full_disk_after_bytes = fault.bytes;
            }
            auto writer = CheckpointWriter::create(std::move(checkpoint));
            if (!writer) return writer.errors();
            writer_ = std::move(*writer);
        }
        executor_->begin(first_step_);
        stops_after_ = stops_after();
        auto metrics = Metrics::open(options_, document_, transport_.rank() == 0);
        if (!metrics) return metrics.errors();
        metrics_ = std::move(*metrics);
        result_.backend = backend_.description();
        log_.line(fmt::format("{}, attempt {}, {}, {}: step {} of {} is next", executor_->who(),
                              options_.attempt, summary(document_.plan), result_.backend, first_step_,
                              options_.steps));
        for (const std::string& note : result_.notes)
            log_.line(note);
        result_.first_step = done_ = first_step_;
        auto offset = measure_clock_offset(*executor_->groups().world, clock_);
        if (!offset) return offset.errors();
        record_.clock = *offset;
        if (Status met = executor_->groups().world->barrier(); !met) return met;
        last_end_s_ = clock_.seconds() + record_.clock.offset_s;
        return ok();
    }

    // Whether the run was interrupted and this step is not to begin: decided on all ranks alike, by figures
    // of a step that all of them have done. They are waited for where they have not come in time.
    bool ends_before(std::int64_t step) {
        if (options_.stop == nullptr) return false;
        while (!pending_.empty() && pending_.front().step + stops_after_ <= step) {
            executor_->lanes().wait(pending_.front().numbers->request(), "the figures of a step");
            take_figures();
        }
        result_.interrupted = step >= stop_at_;
        return result_.interrupted;
    }
    // Steps that begin before the figures of the first of them are needed: enough that nobody waits. Replicas
    // that step by themselves are further apart; where nothing flushes, a rank begins steps ahead of those
    // that the others, to be done with, need it for.
    [[nodiscard]] std::int64_t stops_after() const {
        const auto method = sync_method_of(document_.plan.gradient_sync);
        return (method && steps_alone(*method) ? 16 : 2) + executor_->steps_ahead();
    }

    // This rank is done with a step: its figures set out for the others, those of earlier steps are taken in.
    Status after_step(std::int64_t step, const StepNumbers& numbers) {
        waited_.push_back(numbers.waited_s);
        const MemoryStats memory = backend_.memory();
        if (!options_.log_folder.empty())
            log_.line(fmt::format(
                "step {}: {:.6f} s since the run began, waited {:.6f} s, holds {} B, at most {} B{}", step,
                clock_.seconds(), numbers.waited_s, memory.current, memory.peak,
                numbers.skipped ? ", gradient overflowed: nothing updated" : ""));
        pending_.push_back({step, numbers.loss_scale, numbers.skipped,
                            std::make_unique<GatheredNumbers>(
                                *executor_->groups().world,
                                std::vector<double>{
                                    numbers.loss_sum, numbers.loss_count, numbers.square_sum, numbers.norm,
                                    clock_.seconds() + record_.clock.offset_s, numbers.waited_s,
                                    options_.stop != nullptr && options_.stop->load() ? 1.0 : 0.0,
                                    static_cast<double>(memory.current), static_cast<double>(memory.peak)})});
        while (!pending_.empty() && executor_->lanes().completed(pending_.front().numbers->request()))
            take_figures();
        const std::int64_t done = done_ = step + 1;
        // Of a server's shard the last push is not in yet (finish).
        const bool last = done == options_.steps && !asynchronous_server();
        const bool due = options_.checkpoint_every > 0 && done % options_.checkpoint_every == 0;
        if (writer_ && (due || last)) {
            if (Status saved = save(done); !saved) return saved;
        }
        return ok();
    }

    // What after_step() did not save after the last step: of a run that was interrupted, or of servers whose
    // last pushes are in by now.
    Status save_last() {
        if (!writer_ || saved_ == done_ || done_ == first_step_) return ok();
        executor_->make_replicas_equal(done_ - 1);
        return save(done_);
    }

    [[nodiscard]] bool asynchronous_server() const { return document_.plan.gradient_sync == "ps-async"; }
    Status save(std::int64_t steps_done) {
        saved_ = steps_done;
        rest_until_written(schedule_.boundary != StepBoundary::None);  // the save before
        return save_checkpoint(*writer_, *executor_, document_, options_, *dataset_, steps_done);
    }

    // Until the disks of all ranks have taken the save. A rank whose own has meets the others all the same,
    // each second, so that one whose disk is slow is told from one that hangs. Not `together`: ranks come
    // here at moments of their own, where nothing flushes, and each waits for its disk alone.
    void rest_until_written(bool together) {
        Lanes& lanes = executor_->lanes();
        const auto written = [this] { return !writer_->busy(); };
        if (!together) {
            lanes.rest_until(written);
            return;
        }
        while (true) {
            const double until = clock_.seconds() + 1;
            lanes.rest_until([&] { return written() || clock_.seconds() > until; });
            GatheredNumbers all(*executor_->groups().world, {written() ? 0.0 : 1.0});
            lanes.wait(all.request(), "the checkpoint of another rank");
            if (all.sum(0) == 0) return;
        }
    }

    void take_figures() {
        const Pending pending = std::move(pending_.front());
        pending_.pop_front();
        const GatheredNumbers& all = *pending.numbers;
        StepResult step;
        step.step = pending.step;
        step.loss_scale = pending.loss_scale;
        step.skipped = pending.skipped;
        step.skipped_steps = skipped_ += pending.skipped ? 1 : 0;
        step.loss = all.sum(0) / std::max(1.0, all.sum(1));
        // A norm that some rank knows is the model's; else the squares add up to it, where nothing was
        // updated in between.
        if (all.max(3) >= 0) {
            step.grad_norm = all.max(3);
        } else if (schedule_.boundary != StepBoundary::None) {
            step.grad_norm = std::sqrt(all.sum(2));
        }
        step.learning_rate =
            options_.optimizer.rate.at(pending.step, options_.steps, document_.plan.global_batch);
        const double end = all.max(4);
        step.step_time_s = std::max(0.0, end - last_end_s_);
        last_end_s_ = end;
        const double samples = static_cast<double>(document_.plan.global_batch);
        const double tokens =
            document_.graph.counts_tokens ? samples * static_cast<double>(document_.plan.seq_len) : samples;
        step.tokens_per_s = step.step_time_s > 0 ? tokens / step.step_time_s : 0;
        step.exposed_communication_s = all.sum(5) / transport_.size();
        step.allocated_bytes = static_cast<std::int64_t>(all.max(7));
        step.peak_allocated_bytes = static_cast<std::int64_t>(all.max(8));
        pace_.resize(static_cast<std::size_t>(transport_.size()));
        for (int r = 0; r < transport_.size(); ++r)
            pace_[static_cast<std::size_t>(r)].add(all.of(r, 4), all.of(r, 5));
        result_.steps.push_back(step);
        if (all.max(6) > 0) stop_at_ = std::min(stop_at_, pending.step + stops_after_);
        if (transport_.rank() != 0) return;
        metrics_.add(step);
        if (on_step_) on_step_(step);
    }

    void keep_events() {
        if (options_.trace.empty()) return;
        for (const TraceEvent& event : executor_->lanes().events()) {
            if (event.end < event.start) continue;  // left out
            record_.events.push_back(event);
            record_.events.back().step -= static_cast<std::int32_t>(first_step_);
        }
        std::vector<MemorySample>& memory = executor_->memory_samples();
        record_.memory.insert(record_.memory.end(), std::make_move_iterator(memory.begin()),
                              std::make_move_iterator(memory.end()));
        memory.clear();
    }

    Result<TrainResult> finish() {
        Communicator& world = *executor_->groups().world;
        if (result_.interrupted) {
            result_.notes.push_back(fmt::format("interrupted after {} of {} steps", done_, options_.steps));
            log_.line(result_.notes.back());
        }
        executor_->finish(done_);
        if (Status saved = save_last(); !saved) return saved.errors();
        while (!pending_.empty()) {
            executor_->lanes().wait(pending_.front().numbers->request(), "the figures of the last step");
            take_figures();
        }
        if (skipped_ > 0)
            result_.notes.push_back(fmt::format(
                "the gradient of {} of {} steps overflowed fp16 and updated nothing; the loss scale is now "
                "{:g}",
                skipped_, result_.steps.size(), executor_->loss_scaler().scale()));
        if (writer_) {
            rest_until_written(true);
            if (Status written = writer_->wait(); !written) return written.errors();
        }
        // Clocks drift: the offset now bounds what the one at the start has become.
        auto offset = measure_clock_offset(world, clock_);
        if (!offset) return offset.errors();
        const double drift = std::abs(offset->offset_s - record_.clock.offset_s);
        record_.clock.offset_s = (record_.clock.offset_s + offset->offset_s) / 2;
        record_.clock.uncertainty_s =
            std::max(record_.clock.uncertainty_s, offset->uncertainty_s) + drift / 2;
        if (Status gathered = gather_ranks(world); !gathered) return gathered.errors();
        if (!options_.trace.empty()) {
            auto trace =
                gather_trace(world, executor_->layout(), document_, schedule_, record_, done_ - first_step_);
            if (!trace) return trace.errors();
            if (transport_.rank() == 0) {
                if (Status written = write_trace_file(*trace, options_.trace); !written)
                    return written.errors();
            }
        }
        if (Status met = world.barrier(); !met) return met.errors();
        return std::move(result_);
    }

    Status gather_ranks(Communicator& world) {
        const MemoryStats memory = backend_.memory();
        const RankLayout& layout = executor_->layout();
        double waited = 0;
        for (std::size_t i = 1; i < waited_.size(); ++i)
            waited += waited_[i] / static_cast<double>(waited_.size() - 1);
        std::vector<double> own = {static_cast<double>(layout.pipeline_rank),
                                   static_cast<double>(layout.dp_rank),
                                   static_cast<double>(layout.tp_rank),
                                   static_cast<double>(memory.peak),
                                   static_cast<double>(backend_.system_bytes()),
                                   waited,
                                   record_.clock.offset_s,
                                   record_.clock.uncertainty_s};
        const std::size_t first_use = own.size();
        for (const std::size_t bytes : memory.peak_by_use)
            own.push_back(static_cast<double>(bytes));
        GatheredNumbers all(world, own);
        if (Status done = all.wait(); !done) return done;
        std::vector<RankPace> ranks;
        for (int r = 0; r < world.size(); ++r) {
            const auto integer = [&](std::size_t i) { return static_cast<std::int64_t>(all.of(r, i)); };
            RankResult rank;
            rank.rank = r;
            rank.name = fmt::format("PP{} DP{} TP{}", integer(0), integer(1), integer(2));
            rank.peak_allocated_bytes = integer(3);
            rank.peak_resident_bytes = integer(4);
            rank.waited_s = all.of(r, 5);
            rank.clock_offset_s = all.of(r, 6);
            rank.clock_uncertainty_s = all.of(r, 7);
            for (std::size_t use = 0; use < rank.peak_by_use.size(); ++use)
                rank.peak_by_use[use] = integer(first_use + use);
            if (!pace_.empty())
                ranks.push_back({r, static_cast<int>(integer(0)), pace_[static_cast<std::size_t>(r)].own_s});
            result_.ranks.push_back(std::move(rank));
        }
        note_stragglers(ranks);
        return ok();
    }

    // By `compare`'s rule. A few steps say too little.
    void note_stragglers(const std::vector<RankPace>& ranks) {
        constexpr std::size_t kFewestSteps = 4;  // beside the first, which warms up
        if (result_.steps.size() <= kFewestSteps) return;
        double step_s = 0;
        for (std::size_t i = 1; i < result_.steps.size(); ++i)
            step_s += result_.steps[i].step_time_s / static_cast<double>(result_.steps.size() - 1);
        StragglerOptions options;
        options.least_s = kPreempted_s;
        for (std::string& note : describe(analyze_pace(ranks, step_s, options)))
            result_.notes.push_back(std::move(note));
    }

    // A rank's own time in each step but the first: from the end of the step before, without its waits.
    struct Pace {
        std::optional<double> last_end_s;
        std::vector<double> own_s;
        void add(double end_s, double waited_s) {
            if (last_end_s) own_s.push_back(end_s - *last_end_s - waited_s);
            last_end_s = end_s;
        }
    };
    struct Pending {
        std::int64_t step = 0;
        double loss_scale = 0;
        bool skipped = false;
        std::unique_ptr<GatheredNumbers> numbers;
    };

    const PlanDocument& document_;
    const TrainOptions& options_;
    Transport& transport_;
    Backend& backend_;
    RankLog& log_;
    const OnStep& on_step_;
    RunClock clock_;
    std::unique_ptr<Dataset> dataset_;
    Schedule schedule_;
    std::unique_ptr<Executor> executor_;
    std::unique_ptr<CheckpointWriter> writer_;
    Metrics metrics_;
    RankRecord record_;
    TrainResult result_;
    std::int64_t first_step_ = 0;
    std::int64_t done_ = 0;     // steps, those of earlier runs among them
    std::int64_t skipped_ = 0;  // of fp16
    std::int64_t saved_ = -1;   // of them, when the newest checkpoint was made
    std::int64_t stops_after_ = 0;
    std::int64_t stop_at_ = std::numeric_limits<std::int64_t>::max();  // steps after which the run ends
    std::deque<Pending> pending_;
    std::vector<double> waited_;  // this rank's, by step
    std::vector<Pace> pace_;      // every rank's
    double last_end_s_ = 0;
};

}  // namespace

std::string of_rank(int rank, const std::string& message) {
    const std::string name = fmt::format("rank {}", rank);
    const bool named = message.starts_with(name + " ") || message.starts_with(name + ":");
    return named ? message : name + ": " + message;
}

bool ends_when_asked(const TrainOptions& options) {
    return !options.checkpoint_folder.empty() || !options.trace.empty() || !options.result.empty();
}

Result<TrainResult> train(const PlanDocument& document, const TrainOptions& options, Transport& transport,
                          Backend& backend, const OnStep& on_step) {
    auto log = RankLog::open(options.log_folder, transport.rank());
    if (!log && transport.size() == 1) return log.errors();
    RankLog silent;
    const std::unique_ptr<Transport> logged = log_aborts(transport, log ? *log : silent);
    std::optional<Run> run(std::in_place, document, options, *logged, backend, log ? *log : silent, on_step);
    auto result = log ? run->run() : Result<TrainResult>(log.errors());
    if (result) (log ? *log : silent).line("done");
    if (result || transport.size() == 1) {
        // Its threads are joined and its groups closed, where nothing else watches; after the groups' own
        // deadlines, which know more. A run that failed may still write a checkpoint, which is waited for.
        const CallGuard guard(result ? 2.5 * options.watchdog_s : 0, transport.rank(),
                              "closing the run's data, checkpoints and groups");
        run.reset();
        return result;
    }
    // The others wait for this rank, and it has operations under way: they end together, before any memory
    // that a transfer uses is freed. What all ranks see is told by the lowest of them: each leaves those
    // below it the time to speak and to end it.
    std::this_thread::sleep_for(std::chrono::milliseconds(100) * std::min(transport.rank(), 10));
    logged->abort(exit_code(result.errors()), of_rank(transport.rank(), to_string(result.errors())));
    return result;  // GCC does not see that a virtual function never returns
}

}  // namespace tw

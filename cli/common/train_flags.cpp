#include "cli/common/train_flags.hpp"

#include <fmt/format.h>

#include "base/si_format.hpp"

namespace tw::cli {

void define_train_flags(Command& command, TrainFlags& flags, bool for_rank) {
    TrainOptions& t = flags.train;
    OptimizerOptions& o = t.optimizer;
    command.positional("PLAN", flags.plan, "a trainwright/plan document");
    command.integer("--steps", t.steps, 1, 1'000'000'000, "N", "steps to train; 10 where not given");
    command.text(
        "--data", t.data, "FILE",
        "a text (a token a byte) or a .bin of uint16 tokens; a small built-in corpus where not given");
    command.integer("--seed", flags.seed, 0, std::int64_t{1} << 53, "N",
                    "of initial values, samples and dropout; 1 where not given");
    command.number("--lr", o.rate.peak, 0, 1e3, "RATE", "peak learning rate; 6e-4 where not given");
    command.integer("--warmup", o.rate.warmup_steps, 0, 1'000'000'000, "N",
                    "steps over which the rate rises from zero");
    command.word("--decay", flags.decay, {"constant", "cosine"}, "of the rate after that");
    command.number("--final-lr-share", o.rate.final_share, 0, 1, "SHARE",
                   "of the peak, where the cosine ends; 0.1 where not given");
    command.integer("--linear-scaling", o.rate.scale_from_batch, 0, 1'000'000'000, "BATCH",
                    "scale the rate by global batch / BATCH (linear scaling rule)");
    command.number("--weight-decay", o.weight_decay, 0, 10, "X", "of matrices; 0.1 where not given");
    command.number("--beta1", o.beta1, 0, 0.999999, "X", "of Adam and LAMB; 0.9 where not given");
    command.number("--beta2", o.beta2, 0, 0.999999, "X", "of Adam and LAMB; 0.95 where not given");
    command.number("--epsilon", o.epsilon, 0, 1, "X", "of Adam and LAMB; 1e-8 where not given");
    command.number("--momentum", o.momentum, 0, 1, "X", "of sgd-momentum; 0.9 where not given");
    command.number("--clip", o.clip, 0, 1e9, "NORM", "of the whole gradient; 1 where not given, 0: none");
    command.number("--lars", o.lars_trust, 0, 1e3, "TRUST",
                   "LARS with this trust coefficient on a plan's sgd-momentum (0.001 is the paper's); off "
                   "where not given");
    command.integer("--local-steps", flags.sync.local_steps, 1, 1'000'000, "H",
                    "of local-sgd: steps between averages; the plan's where not given");
    command.number("--density", flags.sync.density, 1e-6, 1, "SHARE",
                   "of top-k: what is sent of a gradient; the plan's where not given");
    command.integer("--block", flags.sync.block, 1, 1 << 20, "N",
                    "of 8-bit: elements that share a scale; the plan's where not given");
    command.integer("--staleness", flags.sync.staleness, 0, 1'000'000, "S",
                    "of ps-async: steps that a worker may lead; the plan's where not given");
    command.number("--loss-scale", t.loss_scale.initial, 1, 1e9, "X",
                   "of fp16: where dynamic loss scaling begins; 65536 where not given");
    command.integer("--loss-scale-window", t.loss_scale.growth_interval, 1, 1'000'000'000, "N",
                    "of fp16: steps without overflow that double the scale; 2000 where not given");
    command.number("--dropout", t.dropout, 0, 0.99, "P",
                   "probability, where the plan has dropout; 0 where not given");
    command.word("--backend", flags.backend, {"cpu", "cuda"}, "what computes; cpu where not given");
    command.word(
        "--transport", flags.transport, {"mpi", "nccl"},
        "what carries a GPU's tensors: nccl, one GPU a rank, or mpi, through the host, so that ranks may "
        "share a GPU; mpi where not given");
    command.integer("--threads", t.threads, 1, 1024, "N", "of each rank's kernels; 1 where not given");
    command.text("--checkpoint", t.checkpoint_folder, "FOLDER", "where checkpoints are kept");
    command.integer("--every", t.checkpoint_every, 0, 1'000'000'000, "N",
                    "steps between checkpoints; after the last alone where not given");
    command.text("--weights", t.weights, "PATH",
                 "start from weights with Hugging Face's names: a safetensors file, or a folder with one or "
                 "with its index; drawn from the seed where not given");
    command.text("--resume", t.resume_folder, "FOLDER",
                 "go on from the newest whole checkpoint, under any layout and number of ranks");
    command.output_file("--trace", t.trace, "write what happened when, a trainwright/trace document");
    command.text("--log", t.log_folder, "FOLDER",
                 "write metrics.jsonl, a line a step, metrics.prom for Prometheus, and a log for each rank");
    command.duration("--watchdog", t.watchdog_s,
                     "end the run when nothing happens for so long; 120 s where not given");
    command.text("--inject", flags.inject, "FAULT;...",
                 "faults on purpose, for tests: slow:rank=1,ms=200, kill:rank=2,step=5, hang:rank=1,step=3, "
                 "nan:step=4, corrupt, full-disk");
    if (!for_rank) {
        command.needs("--final-lr-share", "--decay", "cosine");
        return;
    }
    command.output_file("--result", t.result, "write the run's figures as JSON");
    command.integer("--attempt", flags.attempt, 0, 1'000'000'000, "N", "how often the run was restarted");
    command.flag("--quiet", t.quiet, "no line for each step");
}

Result<TrainOptions> train_options(const TrainFlags& flags) {
    TrainOptions options = flags.train;
    Errors errors;
    options.seed = static_cast<std::uint64_t>(flags.seed);
    options.attempt = static_cast<std::uint64_t>(flags.attempt);
    options.optimizer.rate.decay = flags.decay == "cosine" ? Decay::Cosine : Decay::Constant;
    for (std::size_t begin = 0; begin < flags.inject.size();) {
        const std::size_t end = std::min(flags.inject.find(';', begin), flags.inject.size());
        auto fault = parse_fault(std::string_view(flags.inject).substr(begin, end - begin));
        if (fault) {
            options.faults.push_back(*fault);
        } else {
            errors.insert(errors.end(), fault.errors().begin(), fault.errors().end());
        }
        begin = end + 1;
    }
    if (options.checkpoint_every > 0 && options.checkpoint_folder.empty()) {
        errors.push_back(
            {ErrorCode::Usage, "there is no folder for checkpoints", "--every", "--checkpoint FOLDER"});
    }
    if (options.watchdog_s <= 0) {
        errors.push_back({ErrorCode::Usage, "0 s without anything happening would end every run",
                          "--watchdog", "a time longer than a step takes; 120 s where not given"});
    }
    if (flags.transport == "nccl" && flags.backend != "cuda") {
        errors.push_back({ErrorCode::Usage, "nccl carries what GPUs hold", "--transport",
                          "--backend cuda, or --transport mpi"});
    }
    if (!errors.empty()) return errors;
    return options;
}

void take_sync_options(const Command& command, const ParallelPlan& plan, TrainFlags& flags) {
    SyncOptions sync = plan.gradient_sync_options;
    const auto take = [&](const char* option, auto member) {
        if (command.given(option)) sync.*member = flags.sync.*member;
    };
    take("--local-steps", &SyncOptions::local_steps);
    take("--density", &SyncOptions::density);
    take("--block", &SyncOptions::block);
    take("--staleness", &SyncOptions::staleness);
    flags.train.sync = sync;
}

Errors without_effect(const Command& command, const TrainFlags& flags, const ParallelPlan& plan) {
    Errors errors;
    const auto useless = [&](const char* option, std::string why, std::string hint) {
        if (command.typed(option))
            errors.push_back({ErrorCode::Usage, std::move(why), option, std::move(hint)});
    };
    const OptimizerKind optimizer = plan.optimizer;
    const bool adaptive = optimizer == OptimizerKind::Adam || optimizer == OptimizerKind::Lamb;
    const std::string name = fmt::format("does nothing: the plan's optimizer is {}", to_string(optimizer));
    for (const char* option : {"--beta1", "--beta2", "--epsilon"}) {
        if (!adaptive) useless(option, name, "a plan with --optimizer adam or lamb");
    }
    if (optimizer != OptimizerKind::SgdMomentum)
        useless("--momentum", name, "a plan with --optimizer sgd-momentum");
    const std::string sync =
        fmt::format("does nothing: the plan synchronises gradients by {}", plan.gradient_sync);
    const auto of_sync = [&](const char* option, const char* method) {
        if (plan.gradient_sync != method)
            useless(option, sync, fmt::format(R"("gradient_sync": "{}" in the plan)", method));
    };
    of_sync("--local-steps", "local-sgd");
    of_sync("--density", "top-k");
    of_sync("--block", "8-bit");
    of_sync("--staleness", "ps-async");
    if (plan.precision.compute != Precision::Fp16) {
        for (const char* option : {"--loss-scale", "--loss-scale-window"})
            useless(option,
                    fmt::format("does nothing: the plan computes in {}", to_string(plan.precision.compute)),
                    "a plan with --precision fp16");
    }
    if (flags.train.dropout > 0 && !plan.dropout)
        useless("--dropout", "does nothing: the plan has none", "\"dropout\": true in the plan");
    return errors;
}

Errors absent_faults(const std::vector<Fault>& faults, int world, std::int64_t steps) {
    Errors errors;
    for (const Fault& fault : faults) {
        if (fault.rank >= world) {
            errors.push_back({ErrorCode::Usage,
                              fmt::format("rank {} is not there, the plan has {}", fault.rank, world),
                              "--inject", fmt::format("rank=0 to rank={}", world - 1)});
        }
        if (fault.step >= steps) {
            errors.push_back({ErrorCode::Usage,
                              fmt::format("step {} is not there, the run has {}", fault.step, steps),
                              "--inject", fmt::format("step=0 to step={}", steps - 1)});
        }
    }
    return errors;
}

std::vector<std::string> train_words(const TrainFlags& flags) {
    const TrainOptions& t = flags.train;
    const OptimizerOptions& o = t.optimizer;
    std::vector<std::string> words = {flags.plan};
    const auto number = [&](const char* name, double value) {
        words.emplace_back(name);
        words.push_back(format_exact(value));
    };
    const auto integer = [&](const char* name, std::int64_t value) {
        words.emplace_back(name);
        words.push_back(std::to_string(value));
    };
    const auto text = [&](const char* name, const std::string& value) {
        if (value.empty()) return;
        words.emplace_back(name);
        words.push_back(value);
    };
    integer("--steps", t.steps);
    text("--data", t.data);
    integer("--seed", flags.seed);
    number("--lr", o.rate.peak);
    integer("--warmup", o.rate.warmup_steps);
    text("--decay", flags.decay);
    number("--final-lr-share", o.rate.final_share);
    integer("--linear-scaling", o.rate.scale_from_batch);
    number("--weight-decay", o.weight_decay);
    number("--beta1", o.beta1);
    number("--beta2", o.beta2);
    number("--epsilon", o.epsilon);
    number("--momentum", o.momentum);
    number("--clip", o.clip);
    number("--lars", o.lars_trust);
    if (t.sync) {
        integer("--local-steps", t.sync->local_steps);
        number("--density", t.sync->density);
        integer("--block", t.sync->block);
        if (t.sync->staleness >= 0) integer("--staleness", t.sync->staleness);
    }
    number("--loss-scale", t.loss_scale.initial);
    integer("--loss-scale-window", t.loss_scale.growth_interval);
    number("--dropout", t.dropout);
    text("--backend", flags.backend);
    text("--transport", flags.transport);
    integer("--threads", t.threads);
    text("--checkpoint", t.checkpoint_folder);
    integer("--every", t.checkpoint_every);
    text("--weights", t.weights);
    text("--resume", t.resume_folder);
    text("--trace", t.trace);
    text("--log", t.log_folder);
    words.emplace_back("--watchdog");
    words.push_back(fmt::format("{} s", format_exact(t.watchdog_s)));
    text("--inject", flags.inject);
    text("--result", flags.train.result);
    integer("--attempt", flags.attempt);
    if (t.quiet) words.emplace_back("--quiet");
    return words;
}

}  // namespace tw::cli

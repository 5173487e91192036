#include <algorithm>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "real_exec/checkpoint/export_weights.hpp"

namespace tw::cli {
namespace {

struct WeightsOptions {
    std::string folder, output;
    std::string dtype = "f32";
    std::int64_t step = -1;
};

int weights(const WeightsOptions& options, Console& console) {
    Result<Checkpoint> checkpoint =
        Error{ErrorCode::Unreadable, "there is no checkpoint", options.folder, ""};
    const std::vector<std::int64_t> steps = checkpoint_steps(options.folder);
    const bool there = std::find(steps.begin(), steps.end(), options.step) != steps.end();
    if (options.step >= 0 && !there && !steps.empty()) {
        return console.fail(
            {Error{ErrorCode::Usage,
                   fmt::format("there is no checkpoint after step {} in {}", options.step, options.folder),
                   "--step", fmt::format("{}", fmt::join(steps, ", "))}});
    }
    if (options.step >= 0 && there) {
        checkpoint = open_checkpoint(options.folder, options.step);
    } else {
        auto found = find_checkpoint(options.folder);
        if (!found) return console.fail(found.errors());
        for (const std::string& refused : found->refused)
            console.warn(refused);
        if (found->checkpoint) checkpoint = std::move(*found->checkpoint);
    }
    if (!checkpoint) return console.fail(checkpoint.errors());
    const DType dtype = options.dtype == "bf16"  ? DType::BF16
                        : options.dtype == "f16" ? DType::F16
                                                 : DType::F32;
    if (const Status written = export_weights(*checkpoint, options.output, dtype); !written)
        return console.fail(written.errors());
    if (console.json) {
        Json json = document("weights");
        json["step"] = checkpoint->state().step;
        json["file"] = options.output;
        console.out_json(json);
    } else {
        console.out(fmt::format("{}: {} after step {}\n", options.output, checkpoint->state().model,
                                checkpoint->state().step));
    }
    return 0;
}

}  // namespace

void define_weights(Command& command) {
    auto& options = command.keep<WeightsOptions>();
    command.positional("FOLDER", options.folder, "the folder of a run's checkpoints");
    command.output_file("-o,--output", options.output, "a safetensors file with Hugging Face's names",
                        Need::Required);
    command.word("--dtype", options.dtype, {"f32", "bf16", "f16"}, "of the file; f32 where not given");
    command.integer("--step", options.step, 0, std::int64_t{1} << 53, "N",
                    "which checkpoint; the newest whole one where not given");
    command.example("weights ckpt -o model.safetensors --dtype bf16", "the weights of the newest checkpoint");
    command.run([&options](Console& console) { return weights(options, console); });
}

}  // namespace tw::cli

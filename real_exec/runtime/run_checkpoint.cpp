#include "real_exec/runtime/run_checkpoint.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "real_exec/checkpoint/safetensors.hpp"

namespace tw {
namespace {

struct Kind {
    const char* name;
    Tensor (StageState::*owned)(const Bucket&) const;
};

std::vector<Kind> kinds_of(OptimizerKind optimizer) {
    std::vector<Kind> kinds = {{"weight", &StageState::owned_master}};
    switch (optimizer) {
        case OptimizerKind::Adam:
        case OptimizerKind::Lamb:
            kinds.push_back({"moment1", &StageState::first_moment});
            kinds.push_back({"moment2", &StageState::second_moment});
            break;
        case OptimizerKind::SgdMomentum:
            kinds.push_back({"momentum", &StageState::first_moment});
            break;
        case OptimizerKind::Sgd:
            break;
    }
    return kinds;
}

// A parameter's elements that a rank owns: [first, first + count) of its shard, at `at` of the owned part.
struct Piece {
    const Bucket* bucket = nullptr;
    const Parameter* parameter = nullptr;
    std::int64_t first = 0, count = 0, at = 0;
};

std::vector<Piece> owned_pieces(StageState& state, bool once) {
    std::vector<Piece> pieces;
    for (const Bucket& bucket : state.buckets()) {
        if (once && !state.saves(bucket)) continue;
        const std::int64_t begin = state.owned_begin(bucket), end = begin + state.owned_elements(bucket);
        for (const BucketSlice& slice : bucket.slices) {
            const Parameter& p = state.module().parameters()[static_cast<std::size_t>(slice.parameter)];
            if (once && !state.saves(p)) continue;
            const std::int64_t from = std::max(begin, slice.begin);
            const std::int64_t to = std::min(end, slice.begin + slice.elements);
            if (from < to) pieces.push_back({&bucket, &p, from - slice.begin, to - from, from - begin});
        }
    }
    return pieces;
}

void put(Backend& backend, const std::vector<float>& from, const Tensor& to) {
    if (to.dtype == DType::F32) {
        backend.copy_from_host(to, from.data());
        return;
    }
    Buffer staged = backend.allocate(DType::F32, to.shape, MemoryUse::Temporaries);
    backend.copy_from_host(staged.view(DType::F32, to.shape), from.data());
    backend.copy(staged.view(DType::F32, to.shape), to);
}

// Elements [first, first + count) of a parameter's shard, in fp32.
using ReadPiece = std::function<Status(const char* kind, const Parameter& parameter,
                                       const TensorRegion& region, float* into)>;

// Everything that a rank holds of `kinds`, and its values in the compute type.
Status read_state(const ReadPiece& source, StageState& state, const std::vector<Kind>& kinds,
                  Backend& backend) {
    const auto read = [&](const char* kind, const Parameter& p, std::int64_t first, std::int64_t count,
                          const Tensor& to) -> Status {
        std::vector<float> values(static_cast<std::size_t>(count));
        if (Status got = source(kind, p, region_of(p, first, count), values.data()); !got) return got;
        put(backend, values, to);
        return ok();
    };
    for (const Piece& piece : owned_pieces(state, false)) {
        for (const Kind& kind : kinds) {
            const Tensor to = (state.*kind.owned)(*piece.bucket).rows(piece.at, piece.count);
            if (Status got = read(kind.name, *piece.parameter, piece.first, piece.count, to); !got)
                return got;
        }
    }
    // Values in the compute type: all that this rank holds.
    for (const Bucket& bucket : state.buckets()) {
        const bool sharded = state.options().shard_parameters;
        const std::int64_t begin = sharded ? bucket.shard_begin() : 0;
        const std::int64_t end = begin + (sharded ? bucket.shard_elements() : bucket.elements);
        const Tensor held = sharded ? state.owned_values(bucket) : state.values(bucket);
        for (const BucketSlice& slice : bucket.slices) {
            const Parameter& p = state.module().parameters()[static_cast<std::size_t>(slice.parameter)];
            const std::int64_t from = std::max(begin, slice.begin);
            const std::int64_t to = std::min(end, slice.begin + slice.elements);
            if (from >= to) continue;
            if (Status got =
                    read("weight", p, from - slice.begin, to - from, held.rows(from - begin, to - from));
                !got)
                return got;
        }
    }
    return ok();
}

// Each rank reads its share of the files; on rank 0 what any of them found wrong, elsewhere the rank's own.
Result<std::vector<std::string>> damage_that_all_found(Communicator& world,
                                                       const std::vector<std::string>& own) {
    std::string text;
    for (const std::string& one : own) {
        if (one.find("another rank found it damaged") == std::string::npos) text += one + '\n';
    }
    const auto texts = gather_texts(world, text);
    if (!texts) return texts.errors();
    if (world.rank() != 0) return own;
    std::vector<std::string> all;
    for (const std::string& of_rank : *texts) {
        for (std::size_t begin = 0; begin < of_rank.size();) {
            const std::size_t end = std::min(of_rank.find('\n', begin), of_rank.size());
            std::string line = of_rank.substr(begin, end - begin);
            if (std::find(all.begin(), all.end(), line) == all.end()) all.push_back(std::move(line));
            begin = end + 1;
        }
    }
    return all;
}

}  // namespace

Status save_checkpoint(CheckpointWriter& writer, Executor& executor, const PlanDocument& document,
                       const TrainOptions& options, const Dataset& dataset, std::int64_t steps_done) {
    CheckpointState state;
    state.step = steps_done;
    state.seed = options.seed;
    state.model = document.model_name;
    state.plan = summary(document.plan);
    state.data = dataset.identity();
    state.layer_updates = executor.layer_updates();
    for (const auto& [layer, updates] : state.layer_updates) {
        double& most = state.scalars["updates"];
        most = std::max(most, static_cast<double>(updates));
    }
    if (const LossScaler& scaler = executor.loss_scaler(); scaler.on()) {
        state.scalars["loss_scale"] = scaler.scale();
        state.scalars["loss_scale_good_steps"] = static_cast<double>(scaler.good_steps());
    }
    std::vector<CheckpointTensor> tensors;
    for (const auto& stage : executor.states()) {
        if (!stage) continue;
        for (const Piece& piece : owned_pieces(*stage, true)) {
            for (const Kind& kind : kinds_of(document.plan.optimizer)) {
                tensors.push_back({kind.name, piece.parameter->name,
                                   region_of(*piece.parameter, piece.first, piece.count),
                                   ((*stage).*kind.owned)(*piece.bucket).rows(piece.at, piece.count)});
            }
        }
    }
    return writer.save(state, tensors);
}

Result<Resumed> resume_from_checkpoint(Executor& executor, const TrainOptions& options,
                                       const PlanDocument& document, const Dataset& dataset,
                                       Backend& backend) {
    Communicator& world = *executor.groups().world;
    const auto smallest = [&](std::int64_t own) -> Result<Smallest> {
        GatheredNumbers all(world, {static_cast<double>(own)});
        if (Status done = all.wait(); !done) return done.errors();
        Smallest found{static_cast<std::int64_t>(all.of(0, 0)), 0};
        for (int rank = 1; rank < world.size(); ++rank) {
            const auto value = static_cast<std::int64_t>(all.of(rank, 0));
            if (value < found.value) found = {value, rank};
        }
        return found;
    };
    auto found = find_checkpoint(options.resume_folder, world.rank(), world.size(), smallest);
    if (!found) return found.errors();
    if (!found->checkpoint) {
        return Error{ErrorCode::Unreadable, "there is no checkpoint", options.resume_folder,
                     "start without --resume"};
    }
    const CheckpointState& state = found->checkpoint->state();
    const auto differs = [&](const char* what, const std::string& then, const std::string& now) -> Error {
        return {ErrorCode::Usage,
                fmt::format("the checkpoint was written with another {}: {}, now {}", what, then, now),
                found->checkpoint->path().string(), fmt::format("the same {}, or start anew", what)};
    };
    if (state.model != document.model_name) return differs("model", state.model, document.model_name);
    if (state.data != dataset.identity()) return differs("data or seed", state.data, dataset.identity());
    const Checkpoint& checkpoint = *found->checkpoint;
    const ReadPiece source = [&](const char* kind, const Parameter& p, const TensorRegion& region,
                                 float* into) {
        return checkpoint.read(kind, p.name, region, DType::F32, into);
    };
    for (const auto& stage : executor.states()) {
        if (!stage) continue;
        if (Status done = read_state(source, *stage, kinds_of(document.plan.optimizer), backend); !done)
            return done.errors();
        stage->bind_all();
    }
    // A checkpoint without counts by layer has one for all.
    const auto all = state.scalars.find("updates");
    const std::int64_t updates =
        all == state.scalars.end() ? state.step : static_cast<std::int64_t>(all->second);
    for (const auto& stage : executor.states()) {
        if (!stage) continue;
        for (int layer = stage->options().first_layer; layer < stage->options().last_layer; ++layer) {
            const auto own = state.layer_updates.find(layer);
            stage->set_earlier_updates(layer, own == state.layer_updates.end() ? updates : own->second);
        }
    }
    const auto scale = state.scalars.find("loss_scale");
    const auto good = state.scalars.find("loss_scale_good_steps");
    if (executor.loss_scaler().on() && scale != state.scalars.end() && good != state.scalars.end())
        executor.loss_scaler().restore(scale->second, static_cast<std::int64_t>(good->second));
    auto refused = damage_that_all_found(world, found->refused);
    if (!refused) return refused.errors();
    return Resumed{state.step, std::move(*refused)};
}

Status start_from_weights(Executor& executor, const std::string& path, Backend& backend) {
    const auto files = WeightFiles::open(path);
    if (!files) return files.errors();
    const ReadPiece source = [&](const char*, const Parameter& p, const TensorRegion& region, float* into) {
        std::string name = p.name;
        // Files of the inner model alone (GPT2Model, LlamaModel, BertModel) leave its name out.
        for (const std::string_view inner : {"transformer.", "model.", "bert."}) {
            if (files->find(name) == nullptr && name.starts_with(inner) &&
                files->find(std::string_view(name).substr(inner.size())) != nullptr)
                name = name.substr(inner.size());
        }
        return files->read(name, region, DType::F32, into);
    };
    for (const auto& stage : executor.states()) {
        if (!stage) continue;
        if (Status done = read_state(source, *stage, {{"weight", &StageState::owned_master}}, backend); !done)
            return done;
        stage->bind_all();
    }
    return ok();
}

}  // namespace tw

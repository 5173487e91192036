// Optimizers that scale a whole tensor's step.
//
// LAMB (You et al. 2020, arXiv 1904.00962, algorithm 2): Adam's direction plus weight decay, scaled for each
// tensor by |weights| / |direction|. LARS (You et al. 2017, arXiv 1708.03888, algorithm 1): gradient plus
// weight decay, scaled for each matrix by trust |weights| / (|gradient| + decay |weights|), through SGD's
// momentum; as there, vectors (norms and biases) are not scaled. Norms are the whole tensor's, over its
// shards on all ranks.
#include <algorithm>
#include <cmath>

#include "real_exec/runtime/executor.hpp"

namespace tw {

// squares[2 p] and [2 p + 1]: of this rank's shard of parameter p; becomes the whole tensor's: over the
// tensor-parallel group, and over the replicas where ZeRO cuts it.
void Executor::sum_over_shards(const StageState& state, std::vector<double>& squares) {
    const std::span<const Parameter> parameters =
        states_[static_cast<std::size_t>(state.options().stage)]->module().parameters();
    const auto sum_over = [&](Communicator& group, auto&& included) {
        if (group.size() == 1) return;
        GatheredNumbers all(group, squares);
        lanes_->wait(all.request(), "the norms of whole tensors");
        for (std::size_t p = 0; p < parameters.size(); ++p) {
            if (!included(parameters[p])) continue;
            squares[2 * p] = all.sum(2 * p);
            squares[2 * p + 1] = all.sum(2 * p + 1);
        }
    };
    const int stage = state.options().stage;
    if (state.options().shard_update) {
        sum_over(*groups_.shards(stage, false).shard, [](const Parameter& p) { return !p.expert; });
        sum_over(*groups_.shards(stage, true).shard, [](const Parameter& p) { return p.expert; });
    }
    sum_over(*groups_.tp, [](const Parameter& p) {
        return !p.expert && p.extent * p.parts != p.full_shape[p.shard_axis];
    });
}

void Executor::lamb_step(StageState& state, const UpdateSpec& update) {
    const OptimizerOptions& o = options_.optimizer;
    const std::span<const Parameter> parameters = state.module().parameters();
    struct Piece {
        Tensor weight, direction;
        std::size_t parameter = 0;
    };
    std::vector<Piece> pieces;
    std::vector<Buffer> directions;
    std::vector<double> squares(2 * parameters.size(), 0.0);
    for (Bucket& bucket : state.buckets()) {
        const std::int64_t begin = state.owned_begin(bucket);
        const std::int64_t end = begin + state.owned_elements(bucket);
        for (const BucketSlice& slice : bucket.slices) {
            const std::int64_t from = std::max(begin, slice.begin);
            const std::int64_t to = std::min(end, slice.begin + slice.elements);
            if (from >= to) continue;
            const auto p = static_cast<std::size_t>(slice.parameter);
            const auto part = [&](const Tensor& owned) { return owned.rows(from - begin, to - from); };
            const double decay = parameters[p].decay ? o.weight_decay : 0;
            const std::int64_t count = state.earlier_updates(parameters[p].layer) + update.update;
            const AdamSpec spec{update.rate, o.beta1, o.beta2, o.epsilon, decay, count, update.grad_scale};
            directions.push_back(backend_.allocate(DType::F32, Shape{to - from}, MemoryUse::Temporaries));
            Piece piece{part(state.owned_master(bucket)),
                        directions.back().view(DType::F32, Shape{to - from}), p};
            backend_.lamb_direction(piece.weight, part(state.owned_grads(bucket)),
                                    part(state.first_moment(bucket)), part(state.second_moment(bucket)), spec,
                                    piece.direction);
            squares[2 * p] += backend_.sum_squares(piece.weight);
            squares[2 * p + 1] += backend_.sum_squares(piece.direction);
            pieces.push_back(piece);
        }
    }
    sum_over_shards(state, squares);
    for (const Piece& piece : pieces) {
        const double weight = std::sqrt(squares[2 * piece.parameter]);
        const double direction = std::sqrt(squares[2 * piece.parameter + 1]);
        const double trust = weight > 0 && direction > 0 ? weight / direction : 1;
        backend_.axpby(-update.rate * trust, piece.direction, 1, piece.weight);
    }
    state.values_from_master();
}

void Executor::lars_step(StageState& state, const UpdateSpec& update) {
    const OptimizerOptions& o = options_.optimizer;
    const std::span<const Parameter> parameters = state.module().parameters();
    struct Piece {
        UpdateTensors tensors;
        std::size_t parameter = 0;
    };
    std::vector<Piece> pieces;
    std::vector<double> squares(2 * parameters.size(), 0.0);
    for (Bucket& bucket : state.buckets()) {
        const std::int64_t begin = state.owned_begin(bucket);
        const std::int64_t end = begin + state.owned_elements(bucket);
        const UpdateTensors owned{state.owned_values(bucket),
                                  bucket.master ? state.owned_master(bucket) : Tensor{},
                                  state.owned_grads(bucket), state.first_moment(bucket), Tensor{}};
        for (const BucketSlice& slice : bucket.slices) {
            const std::int64_t from = std::max(begin, slice.begin);
            const std::int64_t to = std::min(end, slice.begin + slice.elements);
            if (from >= to) continue;
            const auto p = static_cast<std::size_t>(slice.parameter);
            const UpdateTensors part = owned.part(from - begin, to - from);
            squares[2 * p] += backend_.sum_squares(part.master ? part.master : part.values);
            squares[2 * p + 1] += backend_.sum_squares(part.grads);
            pieces.push_back({part, p});
        }
    }
    sum_over_shards(state, squares);
    for (const Piece& piece : pieces) {
        const bool matrix = parameters[piece.parameter].decay;
        const double weight = std::sqrt(squares[2 * piece.parameter]);
        const double gradient = std::sqrt(squares[2 * piece.parameter + 1]) * update.grad_scale;
        const double below = gradient + o.weight_decay * weight;
        const double local = matrix && weight > 0 && below > 0 ? o.lars_trust * weight / below : 1;
        const SgdSpec spec{update.rate, o.momentum, matrix ? o.weight_decay * local : 0,
                           update.grad_scale * local};
        backend_.sgd(piece.tensors.values, piece.tensors.master, piece.tensors.grads, piece.tensors.first,
                     spec);
    }
}

}  // namespace tw

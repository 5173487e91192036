// LAMB (You et al. 2020, arXiv 1904.00962, algorithm 2): Adam's direction plus weight decay, scaled for each
// tensor by |weights| / |direction|. Both norms are the whole tensor's, over its shards on all ranks.
#include <algorithm>
#include <cmath>

#include "real_exec/runtime/executor.hpp"

namespace tw {

void Executor::lamb_step(StageState& state, double rate, double scale, std::int64_t update) {
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
            const AdamSpec spec{rate,   o.beta1, o.beta2, o.epsilon, parameters[p].decay ? o.weight_decay : 0,
                                update, scale};
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
    // A tensor's shards: over the tensor-parallel group, and over the replicas where ZeRO cuts it.
    const auto sum_over = [&](Communicator& group, auto&& included) {
        if (group.size() == 1) return;
        GatheredNumbers all(group, squares);
        lanes_->wait_until([&] { return all.test(); }, "LAMB's norms");
        for (std::size_t p = 0; p < parameters.size(); ++p) {
            if (!included(parameters[p])) continue;
            squares[2 * p] = all.sum(2 * p);
            squares[2 * p + 1] = all.sum(2 * p + 1);
        }
    };
    const int stage = state.options().stage;
    if (state.options().shard_update) {
        sum_over(groups_.replicas(stage, false), [](const Parameter& p) { return !p.expert; });
        sum_over(groups_.replicas(stage, true), [](const Parameter& p) { return p.expert; });
    }
    sum_over(*groups_.tp_grad, [](const Parameter& p) {
        return !p.expert && p.extent * p.parts != p.full_shape[p.shard_axis];
    });
    for (const Piece& piece : pieces) {
        const double weight = std::sqrt(squares[2 * piece.parameter]);
        const double direction = std::sqrt(squares[2 * piece.parameter + 1]);
        const double trust = weight > 0 && direction > 0 ? weight / direction : 1;
        backend_.axpby(-rate * trust, piece.direction, 1, piece.weight);
    }
    state.values_from_master();
}

}  // namespace tw

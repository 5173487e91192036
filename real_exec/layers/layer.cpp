#include "real_exec/layers/layer.hpp"

namespace tw {
namespace {

// Streams of dropout: no two places of a run share one.
constexpr std::uint64_t kSites = 16, kLayers = 65536;

std::uint64_t stream_of(const Batch& batch, int layer, int site) {
    return (static_cast<std::uint64_t>(batch.step) * kLayers + static_cast<std::uint64_t>(layer)) * kSites +
           static_cast<std::uint64_t>(site);
}

}  // namespace

DropoutSpec StageSetting::dropout_at(const Batch& batch, int layer, int site, std::int64_t width) const {
    return {.probability = dropout,
            .seed = seed,
            .stream = stream_of(batch, layer, site),
            .first_row = batch.first_sample * seq_len + first_local_row(),
            .row_width = width,
            .first_col = 0};
}

DropoutSpec StageSetting::attention_dropout(const Batch& batch, int layer, std::int64_t first_head) const {
    return {.probability = dropout,
            .seed = seed,
            .stream = stream_of(batch, layer, 0),
            .first_row = batch.first_sample,
            .row_width = 0,
            .first_col = first_head};
}

void finish(RequestPtr request) {
    const Status status = request->wait();
    TW_CHECK_MSG(status, status ? "" : to_string(status.errors()).c_str());
}

Rows gather_rows(const StageSetting& s, const Tensor& local, std::int64_t width) {
    if (!s.sequence_parallel) return {local, {}};
    Rows all;
    all.own = s.temporary(s.rows(), width);
    all.tensor = s.view(all.own, s.rows(), width);
    finish(s.tp->all_gather(local, all.tensor));
    return all;
}

Rows reduce_rows(const StageSetting& s, Rows partial, std::int64_t width) {
    if (s.tp->size() == 1) return partial;
    if (!s.sequence_parallel) {
        finish(s.tp->all_reduce(partial.tensor));
        return partial;
    }
    Rows local;
    local.own = s.temporary(s.local_rows(), width);
    local.tensor = s.view(local.own, s.local_rows(), width);
    finish(s.tp->reduce_scatter(partial.tensor, local.tensor));
    return local;
}

int ParameterList::add(Parameter parameter) {
    parameter.shape = parameter.full_shape;
    parameter.shape.dims[static_cast<std::size_t>(parameter.shard_axis)] = parameter.extent * parameter.parts;
    items_.push_back(std::move(parameter));
    return static_cast<int>(items_.size()) - 1;
}

int ParameterList::find(const std::string& name) const {
    for (std::size_t i = 0; i < items_.size(); ++i) {
        if (items_[i].name == name) return static_cast<int>(i);
    }
    return -1;
}

}  // namespace tw

// A mixture of experts: a router picks the k best of all experts for each token; rows travel to the ranks
// that own them (all-to-all over the expert-parallel group), through the expert, and back. Weights of the
// chosen are renormalised to 1 (Mixtral, Jiang et al. 2024, equation 1). Where experts have a capacity
// (MoeSpec::capacity), an expert takes the first tokens of each sequence that choose it; the others' share of
// their token's sum is zero, and the other chosen keep their weights (Megatron-Core, token_drop_policy
// 'position').
#include <numeric>
#include <optional>

#include "real_exec/layers/branch.hpp"

namespace tw {
namespace {

// Who gets how many rows: computed in the forward, followed backwards in the backward.
struct Route {
    std::vector<std::int64_t> send_rows, receive_rows;  // per rank of the group
    std::vector<std::int64_t> expert_rows;              // received rows of each local expert
    Buffer source;  // I32 [sent]: token of each row sent, expert after expert
    Buffer place;   // I32 [rows, k]: which row a token's j-th choice is; -1: dropped
    Buffer order;   // I32 [received]: received row that stands at each place, expert after expert
    Buffer back;    // I32 [received]: its inverse
    std::int64_t sent = 0, received = 0;
};

struct MoeState final : LayerState {
    Route route;
    Buffer probabilities, chosen, weight;
    Buffer inputs, up, act;  // of the local experts, expert after expert
    Buffer results;          // what came back, in the order sent
};

class MoeBranch final : public Branch {
  public:
    MoeBranch(const StageSetting& setting, ParameterList& list, int layer, const BlockSpec& spec,
              const ModelStyle& style, const BlockNames& names, double residual_std)
        : s_(setting),
          hidden_(spec.hidden),
          ffn_(spec.moe->expert.ffn),
          experts_(spec.moe->experts),
          k_(spec.moe->top_k),
          capacity_(spec.moe->capacity(setting.seq_len)),
          gated_(spec.moe->expert.gated),
          kind_(activation_of(spec.moe->expert.activation, style)) {
        LinearDescription d;
        d.stem = names.router;
        d.in = hidden_;
        d.out = experts_;
        d.init_std = style.init_std;
        d.partial_rows = s_.sequence_parallel;
        router_.emplace(s_, list, layer, d);
        d.partial_rows = false;
        local_experts_ = experts_ / s_.ep->size();
        d.expert = true;
        d.bias = spec.moe->expert.bias;
        for (std::int64_t e = 0; e < local_experts_; ++e) {
            const std::string stem =
                names.experts + "." + std::to_string(s_.ep->rank() * local_experts_ + e) + ".";
            d.in = hidden_;
            d.out = ffn_;
            d.init_std = style.init_std;
            Expert& expert = expert_.emplace_back();
            d.stem = stem + "w1";
            expert.inputs.emplace_back(s_, list, layer, d);
            if (gated_) {
                d.stem = stem + "w3";
                expert.inputs.emplace_back(s_, list, layer, d);
            }
            d.stem = stem + "w2";
            d.in = ffn_;
            d.out = hidden_;
            d.init_std = residual_std;
            expert.down.emplace(s_, list, layer, d);
        }
    }

    // A token is routed by the rank that holds it: with sequence parallelism each rank its own rows.
    [[nodiscard]] bool local() const override { return true; }

    std::unique_ptr<LayerState> forward(const ForwardPass&, const Tensor& x, const Tensor& y) override {
        auto state = std::make_unique<MoeState>();
        const std::int64_t rows = s_.local_rows();
        Buffer logits_buffer = f32({rows, experts_}, MemoryUse::Temporaries);
        const Tensor logits = logits_buffer.view(DType::F32, {rows, experts_});
        router_->forward(MatrixView::of(x), MatrixView::of(logits));
        state->probabilities = f32({rows, experts_}, MemoryUse::Activations);
        state->weight = f32({rows, k_}, MemoryUse::Activations);
        state->chosen = s_.backend->allocate(DType::I32, {rows, k_}, MemoryUse::Activations);
        s_.backend->router_top_k(logits, k_, true, probabilities(*state), chosen(*state), weight(*state));
        plan_route(*state);
        const Route& r = state->route;

        // Rows to their experts.
        Buffer sent_buffer = s_.temporary(r.sent, hidden_);
        const Tensor sent = s_.view(sent_buffer, r.sent, hidden_);
        s_.backend->gather_rows(x, r.source.view(DType::I32, {r.sent}), sent);
        state->inputs = s_.activation(r.received, hidden_);
        const Tensor inputs = s_.view(state->inputs, r.received, hidden_);
        exchange(sent, r, inputs);
        sent_buffer.reset();

        state->up = s_.activation(r.received, up_width());
        state->act = s_.activation(r.received, ffn_);
        Buffer out_buffer = s_.temporary(r.received, hidden_);
        const Tensor out = s_.view(out_buffer, r.received, hidden_);
        over_experts(r, [&](const Expert& expert, std::int64_t begin, std::int64_t count) {
            const MatrixView up = up_rows(*state, begin, count);
            const Tensor act = s_.view(state->act, r.received, ffn_).rows(begin, count);
            for (std::size_t i = 0; i < expert.inputs.size(); ++i)
                expert.inputs[i].forward(MatrixView::of(inputs.rows(begin, count)), part(up, i));
            if (gated_) {
                s_.backend->gated_forward(kind_, part(up, 0), part(up, 1), MatrixView::of(act));
            } else {
                s_.backend->activation_forward(
                    kind_, s_.view(state->up, r.received, up_width()).rows(begin, count), act);
            }
            expert.down->forward(MatrixView::of(act), MatrixView::of(out.rows(begin, count)));
        });

        state->results = s_.activation(r.sent, hidden_);
        const Tensor results = s_.view(state->results, r.sent, hidden_);
        exchange_back(out, r, results);
        s_.backend->fill(y, 0);
        s_.backend->combine_rows(results, place(*state), weight(*state), y);
        return state;
    }

    void backward(const BackwardPass& pass, LayerState& kept, const Tensor& local_x, const Tensor& dy,
                  const Tensor&, const Tensor& dx) override {
        auto& state = static_cast<MoeState&>(kept);
        const Route& r = state.route;
        WeightWork& weights = *pass.weights;
        const std::int64_t rows = s_.local_rows();
        const Tensor results = s_.view(state.results, r.sent, hidden_);
        Buffer dresults_buffer = s_.temporary(r.sent, hidden_);
        const Tensor dresults = s_.view(dresults_buffer, r.sent, hidden_);
        Buffer dweight_buffer = f32({rows, k_}, MemoryUse::Temporaries);
        const Tensor dweight = dweight_buffer.view(DType::F32, {rows, k_});
        s_.backend->combine_backward(dy, results, place(state), weight(state), dresults, dweight);

        Buffer dout_buffer = s_.temporary(r.received, hidden_);
        const Tensor dout = s_.view(dout_buffer, r.received, hidden_);
        exchange(dresults, r, dout);
        Buffer dup_buffer = s_.temporary(r.received, up_width());
        Buffer din_buffer = s_.temporary(r.received, hidden_);
        const Tensor dup_all = s_.view(dup_buffer, r.received, up_width());
        const Tensor din = s_.view(din_buffer, r.received, hidden_);
        const Tensor act_all = s_.view(state.act, r.received, ffn_);
        over_experts(r, [&](const Expert& expert, std::int64_t begin, std::int64_t count) {
            Buffer dact_buffer = s_.temporary(count, ffn_);
            const Tensor dact = s_.view(dact_buffer, count, ffn_);
            const MatrixView up = up_rows(state, begin, count);
            const MatrixView dup = MatrixView::of(dup_all.rows(begin, count));
            expert.down->backward_input(MatrixView::of(dout.rows(begin, count)), MatrixView::of(dact), false);
            if (gated_) {
                s_.backend->gated_backward(kind_, part(up, 0), part(up, 1), MatrixView::of(dact),
                                           part(dup, 0), part(dup, 1));
            } else {
                s_.backend->activation_backward(kind_,
                                                s_.view(state.up, r.received, up_width()).rows(begin, count),
                                                dact, dup_all.rows(begin, count));
            }
            for (std::size_t i = 0; i < expert.inputs.size(); ++i)
                expert.inputs[i].backward_input(part(dup, i), MatrixView::of(din.rows(begin, count)), i > 0);
        });
        const Tensor inputs = s_.view(state.inputs, r.received, hidden_);
        weights.add([this, &state, inputs, act_all, dup_all, dout] {
            over_experts(state.route, [&](const Expert& expert, std::int64_t begin, std::int64_t count) {
                const MatrixView dout_rows = MatrixView::of(dout.rows(begin, count));
                const MatrixView dup = MatrixView::of(dup_all.rows(begin, count));
                expert.down->backward_weight(MatrixView::of(act_all.rows(begin, count)), dout_rows);
                expert.down->backward_bias(dout_rows);
                for (std::size_t i = 0; i < expert.inputs.size(); ++i) {
                    expert.inputs[i].backward_weight(MatrixView::of(inputs.rows(begin, count)), part(dup, i));
                    expert.inputs[i].backward_bias(part(dup, i));
                }
            });
        });
        weights.keep(std::move(dup_buffer));
        weights.keep(std::move(dout_buffer));
        exchange_back(din, r, dresults);  // gradients of the rows sent
        s_.backend->fill(dx, 0);
        s_.backend->combine_rows(dresults, place(state), {}, dx);

        Buffer dlogits_buffer = f32({rows, experts_}, MemoryUse::Temporaries);
        Tensor dlogits = dlogits_buffer.view(DType::F32, {rows, experts_});
        s_.backend->router_backward(probabilities(state), chosen(state), weight(state), dweight, true,
                                    dlogits);
        if (s_.type != DType::F32) {
            Buffer narrow = s_.temporary(rows, experts_);
            s_.backend->copy(dlogits, s_.view(narrow, rows, experts_));
            dlogits = s_.view(narrow, rows, experts_);
            dlogits_buffer = std::move(narrow);
        }
        router_->backward_input(MatrixView::of(dlogits), MatrixView::of(dx), true);
        weights.add([this, local_x, dlogits] {
            router_->backward_weight(MatrixView::of(local_x), MatrixView::of(dlogits));
        });
        weights.keep(std::move(dlogits_buffer));
    }

  private:
    struct Expert {
        std::vector<TpLinear> inputs;  // gate and up, or up alone
        std::optional<TpLinear> down;
    };

    [[nodiscard]] std::int64_t up_width() const { return gated_ ? 2 * ffn_ : ffn_; }
    [[nodiscard]] MatrixView part(const MatrixView& up, std::size_t i) const {
        return up.columns(static_cast<std::int64_t>(i) * ffn_, ffn_);
    }
    [[nodiscard]] MatrixView up_rows(const MoeState& state, std::int64_t begin, std::int64_t count) const {
        return MatrixView::of(s_.view(state.up, state.route.received, up_width()).rows(begin, count));
    }
    [[nodiscard]] Buffer f32(const Shape& shape, MemoryUse use) const {
        return s_.backend->allocate(DType::F32, shape, use);
    }
    [[nodiscard]] Tensor probabilities(const MoeState& m) const {
        return m.probabilities.view(DType::F32, {s_.local_rows(), experts_});
    }
    [[nodiscard]] Tensor chosen(const MoeState& m) const {
        return m.chosen.view(DType::I32, {s_.local_rows(), k_});
    }
    [[nodiscard]] Tensor weight(const MoeState& m) const {
        return m.weight.view(DType::F32, {s_.local_rows(), k_});
    }
    [[nodiscard]] Tensor place(const MoeState& m) const {
        return m.route.place.view(DType::I32, {s_.local_rows(), k_});
    }
    template <class Body>
    void over_experts(const Route& route, Body body) const {
        std::int64_t begin = 0;
        for (std::int64_t e = 0; e < local_experts_; ++e) {
            const std::int64_t count = route.expert_rows[static_cast<std::size_t>(e)];
            if (count > 0) body(expert_[static_cast<std::size_t>(e)], begin, count);
            begin += count;
        }
    }
    Buffer upload(const std::vector<std::int32_t>& values) const {
        const Shape shape{static_cast<std::int64_t>(values.size())};
        Buffer buffer = s_.backend->allocate(DType::I32, shape, MemoryUse::Activations);
        s_.backend->copy_from_host(buffer.view(DType::I32, shape), values.data());
        return buffer;
    }

    // Which choices their experts have room for, by row and choice.
    [[nodiscard]] std::vector<bool> take(const std::vector<std::int32_t>& picks) const {
        std::vector<bool> taken(picks.size(), true);
        if (capacity_ >= s_.seq_len) return taken;
        // Queues of each sample's experts: who comes first is decided by positions alone.
        const auto queue_of = [&](std::size_t i) {
            const std::int64_t row = s_.first_local_row() + static_cast<std::int64_t>(i) / k_;
            return static_cast<std::size_t>(row / s_.seq_len * experts_ + picks[i]);
        };
        std::vector<std::int32_t> waiting(static_cast<std::size_t>(s_.microbatch * experts_));
        for (std::size_t i = 0; i < picks.size(); ++i)
            ++waiting[queue_of(i)];
        std::vector<std::int32_t> length = before_this_rank(waiting);
        for (std::size_t i = 0; i < picks.size(); ++i)
            taken[i] = length[queue_of(i)]++ < capacity_;
        return taken;
    }

    // Sums over the tensor-parallel ranks that hold earlier rows.
    [[nodiscard]] std::vector<std::int32_t> before_this_rank(const std::vector<std::int32_t>& counts) const {
        std::vector<std::int32_t> sums(counts.size());
        if (!s_.sequence_parallel) return sums;
        const auto each = static_cast<std::int64_t>(counts.size());
        const Shape shape{s_.tp->size() * each};
        std::vector<std::int32_t> all(counts.size() * static_cast<std::size_t>(s_.tp->size()));
        const Buffer mine = upload(counts);
        const Buffer got = upload(all);
        finish(s_.tp->all_gather(mine.view(DType::I32, {each}), got.view(DType::I32, shape)));
        s_.backend->copy_to_host(all.data(), got.view(DType::I32, shape));
        for (std::size_t i = 0; i < counts.size() * static_cast<std::size_t>(s_.tp->rank()); ++i)
            sums[i % counts.size()] += all[i];
        return sums;
    }

    void plan_route(MoeState& state) const {
        Route& r = state.route;
        const std::int64_t rows = s_.local_rows();
        const auto total = static_cast<std::size_t>(rows * k_);
        std::vector<std::int32_t> picks(total);
        s_.backend->copy_to_host(picks.data(), chosen(state));
        const std::vector<bool> taken = take(picks);
        std::vector<std::int32_t> counts(static_cast<std::size_t>(experts_));
        for (std::size_t i = 0; i < total; ++i)
            counts[static_cast<std::size_t>(picks[i])] += taken[i] ? 1 : 0;
        r.sent = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
        std::vector<std::int32_t> next(counts.size());
        std::exclusive_scan(counts.begin(), counts.end(), next.begin(), 0);
        std::vector<std::int32_t> source(static_cast<std::size_t>(r.sent));
        std::vector<std::int32_t> places(total, -1);
        for (std::size_t i = 0; i < total; ++i) {
            if (!taken[i]) continue;
            const std::int32_t row = next[static_cast<std::size_t>(picks[i])]++;
            places[i] = row;
            source[static_cast<std::size_t>(row)] =
                static_cast<std::int32_t>(i / static_cast<std::size_t>(k_));
        }
        r.source = upload(source);
        r.place = upload(places);

        // counts[e] of every rank for this rank's experts.
        const auto ranks = static_cast<std::size_t>(s_.ep->size());
        const auto local = static_cast<std::size_t>(local_experts_);
        std::vector<std::int32_t> theirs = counts;
        if (ranks > 1) {
            const std::vector<std::int64_t> each(ranks, local_experts_);
            const Buffer mine = upload(counts);
            const Buffer got = upload(counts);
            const Shape shape{experts_};
            finish(s_.ep->all_to_all(mine.view(DType::I32, shape), each, got.view(DType::I32, shape), each));
            s_.backend->copy_to_host(theirs.data(), got.view(DType::I32, shape));
        }
        r.send_rows.assign(ranks, 0);
        r.receive_rows.assign(ranks, 0);
        r.expert_rows.assign(local, 0);
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            for (std::size_t e = 0; e < local; ++e) {
                r.send_rows[rank] += counts[rank * local + e];
                r.receive_rows[rank] += theirs[rank * local + e];
                r.expert_rows[e] += theirs[rank * local + e];
            }
            r.received += r.receive_rows[rank];
        }
        if (ranks == 1) return;
        // Received rank after rank, wanted expert after expert.
        std::vector<std::int32_t> order;
        std::vector<std::int32_t> back(static_cast<std::size_t>(r.received));
        for (std::size_t e = 0; e < local; ++e) {
            std::int64_t start = 0;
            for (std::size_t rank = 0; rank < ranks; ++rank) {
                std::int64_t row = start;
                for (std::size_t before = 0; before < e; ++before)
                    row += theirs[rank * local + before];
                for (std::int32_t i = 0; i < theirs[rank * local + e]; ++i, ++row) {
                    back[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(order.size());
                    order.push_back(static_cast<std::int32_t>(row));
                }
                start += r.receive_rows[rank];
            }
        }
        r.order = upload(order);
        r.back = upload(back);
    }

    [[nodiscard]] std::vector<std::int64_t> elements(const std::vector<std::int64_t>& rows) const {
        std::vector<std::int64_t> counts;
        for (const std::int64_t n : rows)
            counts.push_back(n * hidden_);
        return counts;
    }
    // From the order sent to expert after expert, and back.
    void exchange(const Tensor& sent, const Route& r, const Tensor& received) const {
        if (s_.ep->size() == 1) {
            s_.backend->copy(sent, received);
            return;
        }
        Buffer buffer = s_.temporary(r.received, hidden_);
        const Tensor arrived = s_.view(buffer, r.received, hidden_);
        finish(s_.ep->all_to_all(sent, elements(r.send_rows), arrived, elements(r.receive_rows)));
        s_.backend->gather_rows(arrived, r.order.view(DType::I32, {r.received}), received);
    }
    void exchange_back(const Tensor& out, const Route& r, const Tensor& returned) const {
        if (s_.ep->size() == 1) {
            s_.backend->copy(out, returned);
            return;
        }
        Buffer buffer = s_.temporary(r.received, hidden_);
        const Tensor leaving = s_.view(buffer, r.received, hidden_);
        s_.backend->gather_rows(out, r.back.view(DType::I32, {r.received}), leaving);
        finish(s_.ep->all_to_all(leaving, elements(r.receive_rows), returned, elements(r.send_rows)));
    }

    const StageSetting& s_;
    std::int64_t hidden_, ffn_, experts_, k_, capacity_, local_experts_ = 0;
    bool gated_;
    Activation kind_;
    std::optional<TpLinear> router_;
    std::vector<Expert> expert_;
};

}  // namespace

std::unique_ptr<Branch> make_moe(const StageSetting& setting, ParameterList& list, int layer,
                                 const BlockSpec& spec, const ModelStyle& style, const BlockNames& names,
                                 double residual_std) {
    return std::make_unique<MoeBranch>(setting, list, layer, spec, style, names, residual_std);
}

}  // namespace tw

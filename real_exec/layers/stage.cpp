#include <map>

#include "real_exec/layers/cnn_layers.hpp"
#include "real_exec/layers/exec_layers.hpp"

namespace tw {
namespace {

using Pass = LayerHooks::Pass;

struct Slot {
    Buffer batch_memory;
    Batch batch;
    std::vector<Buffer> inputs;                       // of each layer
    std::vector<std::unique_ptr<LayerState>> states;  // null where the layer is recomputed
    std::vector<WeightWork> work;                     // of each layer, while the backward is split
    Buffer gradient;                                  // between the chunks of a backward
};

class Stage final : public StageModule {
  public:
    Stage(const ModuleContext& context, const StageSetting& setting) : s_(setting), hooks_(context.hooks) {}

    // Layers refer to these.
    [[nodiscard]] const StageSetting& setting() const { return s_; }
    [[nodiscard]] ParameterList& list() { return list_; }
    void add(int vertex, std::unique_ptr<ExecLayer> layer, bool recompute) {
        layers_.push_back({vertex, std::move(layer), recompute});
    }
    void finish_building(const Shape& input, bool selective) {
        input_shape_ = input;
        selective_ = selective;
    }

    [[nodiscard]] std::span<Parameter> parameters() override { return list_.all(); }
    [[nodiscard]] Shape input_shape() const override { return input_shape_; }
    [[nodiscard]] Shape output_shape() const override { return layers_.back().layer->output_shape(); }
    [[nodiscard]] DType activation_type() const override { return s_.type; }

    void forward(int slot, const Batch& batch, Buffer input, const Tensor& output,
                 LossResult* loss) override {
        run_forward(slot, batch, std::move(input), output, loss, nullptr);
    }

    void backward(int slot, const Tensor& grad_output, const Tensor& grad_input, double grad_scale, int first,
                  int last) override {
        Slot& s = at(slot);
        for (int i = last; i-- > first;) {
            WeightWork work;
            step_back(s, i, grad_output, grad_input, {&s.batch, grad_scale, &work}, Pass::Backward);
            s.states[index(i)].reset();
            s.inputs[index(i)].reset();
        }
        if (first == 0) slots_.erase(slot);
    }

    void backward_input(int slot, const Tensor& grad_output, const Tensor& grad_input,
                        double grad_scale) override {
        Slot& s = at(slot);
        Tensor start = grad_output;
        Buffer own;
        if (grad_output) {  // the weight half reads it after the caller has let go of it
            own = s_.backend->allocate(grad_output.bytes(), MemoryUse::Activations);
            start = own.view(grad_output.dtype, grad_output.shape);
            s_.backend->copy(grad_output, start);
        }
        s.work.clear();
        for (std::size_t i = 0; i < layers_.size(); ++i)
            s.work.emplace_back(true);
        s.work.back().keep(std::move(own));
        for (int i = count(); i-- > 0;) {
            Buffer dout = std::move(s.gradient);
            const Tensor given = i == count() - 1 ? start : output_view(dout, i);
            step_back_from(s, i, given, grad_input, {&s.batch, grad_scale, &s.work[index(i)]},
                           Pass::BackwardInput);
            s.work[index(i)].keep(std::move(dout));
        }
    }

    void backward_weight(int slot) override {
        Slot& s = at(slot);
        for (int i = count(); i-- > 0;) {
            before(i, Pass::BackwardWeight);
            s.work[index(i)].run();
            after(i, Pass::BackwardWeight);
            s.states[index(i)].reset();
            s.inputs[index(i)].reset();
        }
        slots_.erase(slot);
    }

    void discard(int slot) override { slots_.erase(slot); }

    Buffer logits(int slot, const Batch& batch, Buffer input) override {
        Buffer result;
        run_forward(slot, batch, std::move(input), {}, nullptr, &result);
        discard(slot);
        return result;
    }

  private:
    struct Entry {
        int vertex;
        std::unique_ptr<ExecLayer> layer;
        bool recompute;
    };

    static std::size_t index(int i) { return static_cast<std::size_t>(i); }
    [[nodiscard]] int count() const { return static_cast<int>(layers_.size()); }
    [[nodiscard]] Slot& at(int slot) {
        const auto it = slots_.find(slot);
        TW_CHECK_MSG(it != slots_.end(), "backward of a slot that has no forward");
        return it->second;
    }
    void before(int i, Pass pass) {
        if (hooks_ != nullptr) hooks_->before(layers_[index(i)].vertex, pass);
    }
    void after(int i, Pass pass) {
        if (hooks_ != nullptr) hooks_->after(layers_[index(i)].vertex, pass);
    }
    // Input of layer i.
    [[nodiscard]] Tensor view_of(const Buffer& buffer, int i) const {
        if (!buffer) return {};
        return buffer.view(s_.type, i == 0 ? input_shape_ : layers_[index(i - 1)].layer->output_shape());
    }
    [[nodiscard]] Tensor output_view(const Buffer& buffer, int i) const {
        if (!buffer) return {};
        return buffer.view(s_.type, layers_[index(i)].layer->output_shape());
    }

    // The batch's tensors are the caller's only until forward returns.
    void hold(Slot& slot, const Batch& batch) const {
        slot.batch = batch;
        Tensor* const parts[] = {&slot.batch.tokens, &slot.batch.targets, &slot.batch.images};
        std::size_t bytes = 0;
        for (const Tensor* part : parts)
            bytes += *part ? (part->bytes() + 63) / 64 * 64 : 0;
        slot.batch_memory = s_.backend->allocate(bytes, MemoryUse::Activations);
        std::size_t offset = 0;
        for (Tensor* part : parts) {
            if (!*part) continue;
            const Tensor copy = slot.batch_memory.view(part->dtype, part->shape, offset);
            s_.backend->copy(*part, copy);
            offset += (part->bytes() + 63) / 64 * 64;
            *part = copy;
        }
    }

    void run_forward(int slot_index, const Batch& batch, Buffer input, const Tensor& output, LossResult* loss,
                     Buffer* logits) {
        TW_CHECK_MSG(slots_.count(slot_index) == 0, "a slot takes one forward at a time");
        Slot& slot = slots_[slot_index];
        hold(slot, batch);
        slot.inputs.resize(layers_.size());
        slot.states.resize(layers_.size());
        slot.inputs[0] = std::move(input);
        const ForwardPass pass{&slot.batch, loss, logits, selective_};
        for (int i = 0; i < count(); ++i) {
            Tensor out = output;
            if (i + 1 < count()) {
                const Shape shape = layers_[index(i)].layer->output_shape();
                slot.inputs[index(i + 1)] = s_.backend->allocate(s_.type, shape, MemoryUse::Activations);
                out = slot.inputs[index(i + 1)].view(s_.type, shape);
            }
            before(i, Pass::Forward);
            slot.states[index(i)] =
                layers_[index(i)].layer->forward(pass, view_of(slot.inputs[index(i)], i), out);
            after(i, Pass::Forward);
            if (layers_[index(i)].recompute || logits != nullptr) slot.states[index(i)].reset();
        }
    }

    // One layer of an unsplit backward: the gradient is taken from the slot and left there.
    void step_back(Slot& slot, int i, const Tensor& grad_output, const Tensor& grad_input,
                   const BackwardPass& pass, Pass kind) {
        const Buffer dout = std::move(slot.gradient);
        step_back_from(slot, i, i == count() - 1 ? grad_output : output_view(dout, i), grad_input, pass,
                       kind);
    }
    void step_back_from(Slot& slot, int i, const Tensor& dout, const Tensor& grad_input,
                        const BackwardPass& pass, Pass kind) {
        const Tensor in = view_of(slot.inputs[index(i)], i);
        Tensor din = grad_input;
        if (i > 0) {
            slot.gradient = s_.backend->allocate(s_.type, layers_[index(i - 1)].layer->output_shape(),
                                                 MemoryUse::Temporaries);
            din = output_view(slot.gradient, i - 1);
        }
        before(i, kind);
        ExecLayer& layer = *layers_[index(i)].layer;
        if (!slot.states[index(i)]) {
            const Buffer out = s_.backend->allocate(s_.type, layer.output_shape(), MemoryUse::Temporaries);
            slot.states[index(i)] =
                layer.forward({&slot.batch, nullptr, nullptr, false}, in, output_view(out, i));
        }
        layer.backward(pass, *slot.states[index(i)], in, dout, din);
        after(i, kind);
    }

    StageSetting s_;
    LayerHooks* hooks_;
    ParameterList list_;
    std::vector<Entry> layers_;
    Shape input_shape_;
    bool selective_ = false;
    std::map<int, Slot> slots_;
};

StageSetting setting_of(const ParallelPlan& plan, const ModuleContext& context) {
    StageSetting s;
    s.backend = context.backend;
    s.tp = context.tp;
    s.ep = context.ep;
    s.seed = context.seed;
    s.dropout = context.dropout;
    switch (plan.precision.compute) {
        case Precision::Bf16:
            s.type = DType::BF16;
            break;
        case Precision::Fp16:
            s.type = DType::F16;
            break;
        default:
            s.type = DType::F32;
    }
    s.sequence_parallel = plan.sequence_parallel && context.tp->size() > 1;
    s.microbatch = plan.microbatch;
    s.seq_len = plan.seq_len;
    return s;
}

}  // namespace

Result<std::unique_ptr<StageModule>> make_stage_module(const LayerGraph& graph, const ParallelPlan& plan,
                                                       int stage, const ModuleContext& context) {
    Errors errors = unsupported_by_layers(graph, plan);
    if (!errors.empty()) return errors;
    const StageSpec& spec = plan.stages[static_cast<std::size_t>(stage)];
    auto module = std::make_unique<Stage>(context, setting_of(plan, context));
    const StageSetting& s = module->setting();
    ParameterList& list = module->list();
    const ModelStyle style = context.style != nullptr ? *context.style : style_of(graph);
    const std::int64_t padded =
        graph.vocab > 0 ? padded_vocab(graph.vocab, plan.vocab_divisor, plan.mesh.tp) : 0;
    std::int64_t block = 0;
    for (int i = 0; i < spec.first_layer; ++i)
        block += graph.layer(i).role == LayerRole::Block ? 1 : 0;
    int recomputed = 0;
    for (int i = spec.first_layer; i < spec.last_layer; ++i) {
        const LayerModel* model = graph.layer(i).model.get();
        std::unique_ptr<ExecLayer> layer;
        if (const auto* embedding = dynamic_cast<const EmbeddingLayer*>(model)) {
            layer = make_embedding(s, list, i, embedding->spec(), style, padded);
        } else if (const auto* transformer = dynamic_cast<const TransformerBlock*>(model)) {
            layer = make_block(s, list, i, transformer->spec(), style, block, graph.blocks);
        } else if (const auto* head = dynamic_cast<const HeadLayer*>(model)) {
            layer = make_head(s, list, i, head->spec(), style, padded, graph.tied_embeddings);
        } else if (const auto* unit = dynamic_cast<const CnnUnit*>(model)) {
            layer = make_cnn_layer(s, list, i, unit->steps(), i + 1 == graph.size());
        }
        TW_CHECK(layer);
        block += graph.layer(i).role == LayerRole::Block ? 1 : 0;
        const bool wanted = spec.recompute == RecomputeMode::Full && layer->recomputable() &&
                            (spec.recompute_layers < 0 || recomputed < spec.recompute_layers);
        recomputed += wanted ? 1 : 0;
        module->add(i, std::move(layer), wanted);
    }
    Shape input;
    if (spec.first_layer > 0) {
        if (const auto* before =
                dynamic_cast<const CnnUnit*>(graph.layer(spec.first_layer - 1).model.get())) {
            input = cnn_output_shape(s, before->steps());
        } else {
            input = Shape{s.local_rows(), graph.hidden};
        }
    }
    module->finish_building(input, spec.recompute == RecomputeMode::Selective);
    return std::unique_ptr<StageModule>(std::move(module));
}

}  // namespace tw

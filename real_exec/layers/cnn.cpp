#include <cmath>
#include <optional>

#include "real_exec/layers/cnn_layers.hpp"
#include "real_exec/layers/tp_linear.hpp"

namespace tw {
namespace {

struct CnnState final : LayerState {
    Buffer argmax;
    Buffer logits, softmax;  // of the last layer; softmax: per row max | sum | picked logit
};

// The padding that makes `out` windows of `in` pixels: the symmetric one where it fits, else the smallest.
std::int64_t padding_of(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
    const auto fits = [&](std::int64_t p) {
        return in + 2 * p >= kernel && (in + 2 * p - kernel) / stride + 1 == out;
    };
    if (fits((kernel - 1) / 2)) return (kernel - 1) / 2;
    for (std::int64_t p = 0; p < kernel; ++p) {
        if (fits(p)) return p;
    }
    return -1;
}

Shape batch_shape(const StageSetting& s, const ImageShape& image, bool flat) {
    if (flat) return {s.microbatch, image.channels * image.height * image.width};
    return {s.microbatch, image.channels, image.height, image.width};
}
bool flat_output(const CnnStep& step) {
    return step.kind == CnnKind::Linear || step.kind == CnnKind::Flatten ||
           (step.output.height == 1 && step.output.width == 1 && step.kind != CnnKind::Convolution &&
            step.kind != CnnKind::MaxPool && step.kind != CnnKind::AveragePool);
}

class CnnExec final : public ExecLayer {
  public:
    CnnExec(const StageSetting& setting, ParameterList& list, int layer, const CnnStep& step, bool last)
        : s_(setting), list_(list), layer_(layer), step_(step), last_(last) {
        const ImageShape& in = step.inputs.front();
        in_shape_ = {s_.microbatch, in.channels, in.height, in.width};
        out_shape_ = {s_.microbatch, step.output.channels, step.output.height, step.output.width};
        const std::int64_t pad_h = padding_of(in.height, step.output.height, step.kernel_h, step.stride);
        const std::int64_t pad_w = padding_of(in.width, step.output.width, step.kernel_w, step.stride);
        convolution_ = {step.stride, pad_h, pad_w, step.groups};
        pool_ = {step.kernel_h, step.kernel_w, step.stride, pad_h, pad_w};
        if (step.kind == CnnKind::Linear) {
            LinearDescription d;
            d.stem = step.name;
            d.in = in.channels * in.height * in.width;
            d.out = step.output.channels;
            d.bias = step.bias;
            d.init_std = 0.01;  // torchvision's vgg.py
            linear_.emplace(s_, list, layer, d);
        } else if (step.kind == CnnKind::Convolution) {
            Parameter p;
            p.name = step.name + ".weight";
            p.full_shape = {step.output.channels, in.channels / step.groups, step.kernel_h, step.kernel_w};
            p.extent = step.output.channels;
            p.layer = layer;
            // He et al. 2015, fan out, as torchvision's vgg.py.
            p.init_std =
                std::sqrt(2.0 / static_cast<double>(step.output.channels * step.kernel_h * step.kernel_w));
            weight_ = list.add(p);
            if (step.bias) {
                p.name = step.name + ".bias";
                p.full_shape = {step.output.channels};
                p.init_std = 0;
                p.decay = false;
                bias_ = list.add(p);
            }
        }
    }

    std::unique_ptr<LayerState> forward(const ForwardPass& pass, const Tensor& in_or_null,
                                        const Tensor& out_or_null) override {
        auto state = std::make_unique<CnnState>();
        const Tensor in = (in_or_null ? in_or_null : pass.batch->images).reshaped(in_shape_);
        Tensor out = out_or_null;
        if (last_) {
            state->logits = s_.backend->allocate(s_.type, out_shape_, MemoryUse::Logits);
            out = state->logits.view(s_.type, out_shape_);
        }
        run(*pass.batch, *state, in, out.reshaped(out_shape_));
        if (!last_) return state;
        if (pass.logits != nullptr) {
            *pass.logits = std::move(state->logits);
            return state;
        }
        const Tensor logits = out.reshaped({s_.microbatch, step_.output.channels});
        state->softmax = s_.backend->allocate(DType::F32, {3, s_.microbatch}, MemoryUse::Activations);
        const Tensor& targets = pass.batch->targets;
        s_.backend->row_max(logits, step_.output.channels, softmax(*state, 0));
        s_.backend->softmax_sums(logits, step_.output.channels, targets, 0, softmax(*state, 0),
                                 softmax(*state, 1), softmax(*state, 2));
        if (pass.loss != nullptr)
            pass.loss->sum = s_.backend->cross_entropy_sum(targets, softmax(*state, 0), softmax(*state, 1),
                                                           softmax(*state, 2), &pass.loss->count);
        return state;
    }

    void backward(const BackwardPass& pass, LayerState& kept, const Tensor& in_or_null, const Tensor& given,
                  const Tensor& din_or_null) override {
        auto& state = static_cast<CnnState&>(kept);
        const Tensor in = (in_or_null ? in_or_null : pass.batch->images).reshaped(in_shape_);
        Tensor dout = given;
        if (last_) {
            dout = state.logits.view(s_.type, {s_.microbatch, step_.output.channels});
            s_.backend->cross_entropy_backward(dout, step_.output.channels, pass.batch->targets, 0,
                                               softmax(state, 0), softmax(state, 1), pass.grad_scale);
        }
        dout = dout.reshaped(out_shape_);
        const Tensor din = din_or_null ? din_or_null.reshaped(in_shape_) : Tensor{};
        if (din) input_gradient(*pass.batch, state, in, dout, din);
        if (weight_ >= 0) {
            pass.weights->add([this, in, dout] {
                s_.backend->conv_backward_weight(dout, in, convolution_, list_[weight_].grad,
                                                 bias_ >= 0 ? list_[bias_].grad : Tensor{});
            });
        }
        if (linear_) {
            pass.weights->add([this, in, dout] {
                linear_->backward_weight(rows(in), rows(dout));
                linear_->backward_bias(rows(dout));
            });
        }
    }

    [[nodiscard]] Shape output_shape() const override {
        return last_ ? Shape{} : batch_shape(s_, step_.output, flat_output(step_));
    }

  private:
    [[nodiscard]] MatrixView rows(const Tensor& x) const {
        return MatrixView::of(x.reshaped({s_.microbatch, x.elements() / s_.microbatch}));
    }
    [[nodiscard]] Tensor softmax(const CnnState& state, std::int64_t row) const {
        return state.softmax.view(DType::F32, {3, s_.microbatch}).rows(row, 1).reshaped({s_.microbatch});
    }
    [[nodiscard]] DropoutSpec dropout(const Batch& batch) const {
        DropoutSpec d = s_.dropout_at(batch, layer_, 1, in_shape_.elements() / s_.microbatch);
        d.first_row = batch.first_sample;  // a row is a sample
        return d;
    }
    void run(const Batch& batch, CnnState& state, const Tensor& in, const Tensor& out) const {
        switch (step_.kind) {
            case CnnKind::Convolution:
                s_.backend->conv_forward(in, list_[weight_].value, bias_ >= 0 ? list_[bias_].value : Tensor{},
                                         convolution_, out);
                return;
            case CnnKind::Linear:
                linear_->forward(rows(in), rows(out));
                return;
            case CnnKind::MaxPool:
                state.argmax = s_.backend->allocate(DType::I32, out_shape_, MemoryUse::Activations);
                s_.backend->max_pool_forward(in, pool_, out, state.argmax.view(DType::I32, out_shape_));
                return;
            case CnnKind::AveragePool:
                s_.backend->average_pool_forward(in, pool_, out);
                return;
            case CnnKind::ActivationOfOutput:
                s_.backend->activation_forward(Activation::Relu, in, out);
                return;
            case CnnKind::Dropout:
                s_.backend->dropout_add(flat(in), {}, flat(out), dropout(batch));
                return;
            default:
                s_.backend->copy(in, out);
                return;  // flatten
        }
    }
    void input_gradient(const Batch& batch, const CnnState& state, const Tensor& in, const Tensor& dout,
                        const Tensor& din) const {
        switch (step_.kind) {
            case CnnKind::Convolution:
                s_.backend->conv_backward_input(dout, list_[weight_].value, convolution_, din);
                return;
            case CnnKind::Linear:
                linear_->backward_input(rows(dout), rows(din), false);
                return;
            case CnnKind::MaxPool:
                s_.backend->max_pool_backward(dout, state.argmax.view(DType::I32, out_shape_), din);
                return;
            case CnnKind::AveragePool:
                s_.backend->average_pool_backward(dout, pool_, din);
                return;
            case CnnKind::ActivationOfOutput:
                s_.backend->activation_backward(Activation::Relu, in, dout, din);
                return;
            case CnnKind::Dropout:
                s_.backend->dropout_backward(flat(dout), flat(din), dropout(batch));
                return;
            default:
                s_.backend->copy(dout, din);
                return;
        }
    }
    [[nodiscard]] Tensor flat(const Tensor& x) const {
        return x.reshaped({s_.microbatch, x.elements() / s_.microbatch});
    }

    const StageSetting& s_;
    ParameterList& list_;
    int layer_;
    CnnStep step_;
    bool last_;
    Shape in_shape_, out_shape_;
    ConvSpec convolution_;
    PoolSpec pool_;
    std::optional<TpLinear> linear_;
    int weight_ = -1, bias_ = -1;
};

}  // namespace

std::unique_ptr<ExecLayer> make_cnn_layer(const StageSetting& setting, ParameterList& list, int layer,
                                          const std::vector<CnnStep>& steps, bool last) {
    return std::make_unique<CnnExec>(setting, list, layer, steps.front(), last);
}

Shape cnn_output_shape(const StageSetting& setting, const std::vector<CnnStep>& steps) {
    return batch_shape(setting, steps.back().output, flat_output(steps.back()));
}

std::string unsupported_cnn_step(const std::vector<CnnStep>& steps) {
    if (steps.size() != 1) return "a block of several layers (residual connections)";
    const CnnStep& step = steps.front();
    if (step.inputs.size() != 1 || step.consumers > 1) return "a layer with several inputs or consumers";
    switch (step.kind) {
        case CnnKind::BatchNorm:
            return "batch normalisation";
        case CnnKind::Add:
        case CnnKind::Concat:
            return "addition and concatenation";
        case CnnKind::ActivationOfInput:
            return "activations other than relu";
        case CnnKind::ActivationOfOutput:
            // The layer list tells relu from sigmoid and tanh by name alone.
            return step.name.find("relu") == std::string::npos ? "activations other than relu" : "";
        case CnnKind::Convolution:
        case CnnKind::MaxPool:
        case CnnKind::AveragePool: {
            const ImageShape& in = step.inputs.front();
            const bool known = padding_of(in.height, step.output.height, step.kernel_h, step.stride) >= 0 &&
                               padding_of(in.width, step.output.width, step.kernel_w, step.stride) >= 0;
            return known ? "" : "a window whose padding is not symmetric";
        }
        default:
            return "";
    }
}

}  // namespace tw

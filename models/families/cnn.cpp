#include "models/families/cnn.hpp"

#include <algorithm>

namespace tw {
namespace {

constexpr double kIndexBytes = 8;      // int64 index of a max pool's maximum
constexpr double kMaskBytes = 1;       // bool of a dropout mask
constexpr double kStatisticBytes = 4;  // batch statistics stay fp32

// Writes the ops of one step at one shape.
class StepWriter {
  public:
    StepWriter(const CnnStep& step, const WorkShape& shape)
        : step_(step),
          shape_(shape),
          batch_(static_cast<double>(shape.microbatch)),
          element_(bytes_per_element(shape.precision)),
          in_(step.input_elements() * batch_),
          out_(step.output.elements() * batch_) {}

    void forward(std::vector<Op>& ops) const {
        switch (step_.kind) {
            case CnnKind::Convolution:
                ops.push_back(convolution(GemmForm::Forward, Phase::Forward));
                if (step_.bias && !shape_.fused_elementwise) {
                    ops.push_back(memory(MemoryOpKind::Add, 2 * out_ * element_, out_, Phase::Forward));
                }
                break;
            case CnnKind::Linear:
                ops.push_back(linear(GemmForm::Forward, Phase::Forward));
                break;
            case CnnKind::MaxPool:
                ops.push_back(memory(MemoryOpKind::Pool, (in_ + out_) * element_ + out_ * kIndexBytes,
                                     out_ * window(), Phase::Forward));
                break;
            case CnnKind::AveragePool:
                ops.push_back(
                    memory(MemoryOpKind::Pool, (in_ + out_) * element_, out_ * window(), Phase::Forward));
                break;
            case CnnKind::BatchNorm:
                // Mean 1, variance 3, normalise, scale and shift 4 flops an element.
                ops.push_back(memory(MemoryOpKind::Norm, 3 * in_ * element_, 8 * in_, Phase::Forward));
                break;
            case CnnKind::ActivationOfOutput:
            case CnnKind::ActivationOfInput:
                ops.push_back(memory(MemoryOpKind::Activation, 2 * in_ * element_, in_, Phase::Forward));
                break;
            case CnnKind::Add:
                ops.push_back(memory(MemoryOpKind::Add, (in_ + out_) * element_, in_ - out_, Phase::Forward));
                break;
            case CnnKind::Concat:
                ops.push_back(memory(MemoryOpKind::Copy, 2 * in_ * element_, 0, Phase::Forward));
                break;
            case CnnKind::Dropout:
                if (shape_.dropout) {
                    ops.push_back(memory(MemoryOpKind::Dropout, in_ * (2 * element_ + kMaskBytes), in_,
                                         Phase::Forward));
                }
                break;
            case CnnKind::Flatten:
                break;
        }
    }

    void backward(std::vector<Op>& ops) const {
        if (step_.consumers > 1) {
            const auto sums = static_cast<double>(step_.consumers - 1);
            ops.push_back(
                memory(MemoryOpKind::Add, 3 * sums * out_ * element_, sums * out_, Phase::BackwardInput));
        }
        switch (step_.kind) {
            case CnnKind::Convolution:
                if (step_.input_gradient)
                    ops.push_back(convolution(GemmForm::InputGrad, Phase::BackwardInput));
                ops.push_back(convolution(GemmForm::WeightGrad, Phase::BackwardWeight));
                parameter_gradients(ops);
                break;
            case CnnKind::Linear:
                if (step_.input_gradient) ops.push_back(linear(GemmForm::InputGrad, Phase::BackwardInput));
                ops.push_back(linear(GemmForm::WeightGrad, Phase::BackwardWeight));
                parameter_gradients(ops);
                break;
            case CnnKind::MaxPool:
                ops.push_back(memory(MemoryOpKind::Pool, (in_ + out_) * element_ + out_ * kIndexBytes, in_,
                                     Phase::BackwardInput));
                break;
            case CnnKind::AveragePool:
                ops.push_back(memory(MemoryOpKind::Pool, (in_ + out_) * element_, out_ * window(),
                                     Phase::BackwardInput));
                break;
            case CnnKind::BatchNorm:
                // Sums of dy and of dy times the normalised input 5, the input's gradient 6 flops an element.
                // One kernel makes the gradients of input, scale and shift.
                ops.push_back(memory(MemoryOpKind::Norm, 5 * in_ * element_, 11 * in_, Phase::BackwardInput));
                break;
            case CnnKind::ActivationOfOutput:
            case CnnKind::ActivationOfInput:
                ops.push_back(
                    memory(MemoryOpKind::Activation, 3 * in_ * element_, in_, Phase::BackwardInput));
                break;
            case CnnKind::Concat:
                ops.push_back(memory(MemoryOpKind::Copy, 2 * in_ * element_, 0, Phase::BackwardInput));
                break;
            case CnnKind::Dropout:
                if (shape_.dropout) {
                    ops.push_back(memory(MemoryOpKind::Dropout, in_ * (2 * element_ + kMaskBytes), in_,
                                         Phase::BackwardInput));
                }
                break;
            case CnnKind::Add:  // hands its gradient on as it is
            case CnnKind::Flatten:
                break;
        }
    }

    void saved(std::vector<SavedTensor>& tensors) const {
        const auto keep = [&](const char* what, double bytes, SavedTensor::Keep how) {
            if (bytes > 0) tensors.push_back({step_.name + what, bytes, how});
        };
        keep(".input", step_.kept_outside * batch_ * element_, SavedTensor::Keep::Boundary);
        keep(".input", step_.kept_inside * batch_ * element_, SavedTensor::Keep::Full);
        if (step_.kind == CnnKind::MaxPool) keep(".indices", out_ * kIndexBytes, SavedTensor::Keep::Full);
        if (step_.kind == CnnKind::Dropout && shape_.dropout)
            keep(".mask", in_ * kMaskBytes, SavedTensor::Keep::Full);
        if (step_.kind == CnnKind::BatchNorm) {
            keep(".statistics", 2 * kStatisticBytes * static_cast<double>(step_.output.channels),
                 SavedTensor::Keep::Full);
        }
    }

  private:
    [[nodiscard]] double window() const { return static_cast<double>(step_.kernel_h * step_.kernel_w); }

    [[nodiscard]] Op memory(MemoryOpKind kind, double bytes, double flops, Phase phase) const {
        const MemoryOp body{.kind = kind,
                            .bytes = bytes,
                            .flops = flops,
                            .backward = phase != Phase::Forward,
                            .precision = shape_.precision};
        return {.name = step_.name, .body = body, .phase = phase};
    }

    [[nodiscard]] Op convolution(GemmForm form, Phase phase) const {
        const Convolution body{.batch = shape_.microbatch,
                               .in_channels = step_.inputs.front().channels,
                               .out_channels = step_.output.channels,
                               .out_height = step_.output.height,
                               .out_width = step_.output.width,
                               .kernel_h = step_.kernel_h,
                               .kernel_w = step_.kernel_w,
                               .stride = step_.stride,
                               .groups = step_.groups,
                               .form = form,
                               .precision = shape_.precision};
        return {.name = step_.name, .body = body, .phase = phase};
    }

    [[nodiscard]] Op linear(GemmForm form, Phase phase) const {
        const std::int64_t features = step_.inputs.front().channels, outputs = step_.output.channels;
        Gemm body{.form = form, .precision = shape_.precision};
        switch (form) {
            case GemmForm::Forward:
                body.m = shape_.microbatch, body.n = outputs, body.k = features;
                break;
            case GemmForm::InputGrad:
                body.m = shape_.microbatch, body.n = features, body.k = outputs;
                break;
            case GemmForm::WeightGrad:
                body.m = outputs, body.n = features, body.k = shape_.microbatch;
                break;
        }
        body.accumulate =
            form == GemmForm::WeightGrad && shape_.grad_accumulation_fused && shape_.gradient_fp32;
        return {.name = step_.name, .body = body, .phase = phase};
    }

    // The bias gradient reads the output's gradient once; unfused accumulation reads the new gradient and
    // reads and writes the sum. A convolution's weight gradient is never fused with its accumulation.
    void parameter_gradients(std::vector<Op>& ops) const {
        if (step_.bias) {
            ops.push_back(memory(MemoryOpKind::Add, out_ * element_, out_, Phase::BackwardWeight));
        }
        if (step_.kind == CnnKind::Linear && shape_.grad_accumulation_fused) return;
        const double sum_bytes = shape_.gradient_fp32 ? 4 : element_;
        const auto parameters = static_cast<double>(step_.parameters());
        ops.push_back(memory(MemoryOpKind::GradAccumulate, parameters * (element_ + 2 * sum_bytes),
                             parameters, Phase::BackwardWeight));
    }

    const CnnStep& step_;
    const WorkShape& shape_;
    double batch_, element_, in_, out_;
};

}  // namespace

double CnnStep::input_elements() const {
    double sum = 0;
    for (const ImageShape& input : inputs)
        sum += input.elements();
    return sum;
}

std::int64_t CnnStep::parameters() const {
    const std::int64_t in = inputs.front().channels, out = output.channels;
    switch (kind) {
        case CnnKind::Convolution:
            return out * (in / groups) * kernel_h * kernel_w + (bias ? out : 0);
        case CnnKind::Linear:
            return out * in + (bias ? out : 0);
        case CnnKind::BatchNorm:
            return 2 * out;
        default:
            return 0;
    }
}

double CnnStep::multiply_adds() const {
    if (kind == CnnKind::Convolution) {
        const std::int64_t taps = inputs.front().channels / groups * kernel_h * kernel_w;
        return output.elements() * static_cast<double>(taps);
    }
    if (kind == CnnKind::Linear) return output.elements() * static_cast<double>(inputs.front().channels);
    return 0;
}

bool CnnStep::same_work(const CnnStep& other) const {
    return kind == other.kind && inputs == other.inputs && output == other.output &&
           kernel_h == other.kernel_h && kernel_w == other.kernel_w && stride == other.stride &&
           groups == other.groups && bias == other.bias && input_gradient == other.input_gradient &&
           consumers == other.consumers && kept_outside == other.kept_outside &&
           kept_inside == other.kept_inside;
}

LayerWork CnnUnit::work(const WorkShape& shape) const {
    LayerWork work;
    for (const CnnStep& step : steps_) {
        const StepWriter writer(step, shape);
        writer.forward(work.forward);
        writer.saved(work.saved);
    }
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step)
        StepWriter(*step, shape).backward(work.backward);
    double largest = 0;
    for (const CnnStep& step : steps_)
        largest = std::max(largest, step.output.elements());
    const double image_bytes = static_cast<double>(shape.microbatch) * bytes_per_element(shape.precision);
    // The backward holds the gradient of one step's output while it makes that of its input.
    work.transient_backward_bytes = largest * image_bytes;
    work.dense_parameters = parameters();
    return work;
}

std::int64_t CnnUnit::parameters() const {
    std::int64_t sum = 0;
    for (const CnnStep& step : steps_)
        sum += step.parameters();
    return sum;
}

FlopCount CnnUnit::model_flops(std::int64_t microbatch, std::int64_t, bool) const {
    double multiply_adds = 0;
    for (const CnnStep& step : steps_)
        multiply_adds += step.multiply_adds();
    return FlopCount(2 * multiply_adds * static_cast<double>(microbatch));
}

std::vector<LayerModel::Divisibility> CnnUnit::divisibility() const {
    return {{"layer of a layer list (runs whole)", 1, Divisibility::Rule::TpDivides}};
}

bool CnnUnit::same_work(const CnnUnit& other) const {
    return std::equal(steps_.begin(), steps_.end(), other.steps_.begin(), other.steps_.end(),
                      [](const CnnStep& a, const CnnStep& b) { return a.same_work(b); });
}

}  // namespace tw

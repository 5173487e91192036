#include "models/families/cnn_network.hpp"

#include <algorithm>
#include <memory>
#include <set>

namespace tw {
namespace {

constexpr double kMaxElements = 1099511627776.0;  // 2^40 in one tensor
constexpr std::int64_t kMaxParameters = 1'000'000'000'000;

std::string to_text(const ImageShape& shape) {
    return std::to_string(shape.channels) + "x" + std::to_string(shape.height) + "x" +
           std::to_string(shape.width);
}

class Builder {
  public:
    explicit Builder(const CnnNetwork& network) : network_(network), steps_(network.layers.size()) {}

    Result<LayerGraph> build() {
        for (std::size_t i = 0; i < steps_.size(); ++i)
            infer(i);
        if (steps_.empty()) errors_.push_back({ErrorCode::Unreadable, "there is no layer", "/layers", ""});
        if (!errors_.empty()) return errors_;
        group_units();
        if (!errors_.empty()) return errors_;
        find_kept_tensors();
        return graph();
    }

  private:
    void fail(std::size_t layer, std::string message, std::string hint = {}) {
        errors_.push_back({ErrorCode::Unreadable, network_.layers[layer].name + ": " + message,
                           "/layers/" + std::to_string(layer), std::move(hint)});
    }

    void infer(std::size_t i) {
        const CnnLayerSpec& spec = network_.layers[i];
        CnnStep& step = steps_[i];
        step.name = spec.name;
        step.kind = spec.kind;
        TW_CHECK_MSG(!spec.inputs.empty(), "a layer reads something");
        for (const int input : spec.inputs) {
            TW_CHECK_MSG(input >= -1 && input < static_cast<int>(i), "a layer reads earlier layers");
            step.inputs.push_back(input < 0 ? network_.input
                                            : steps_[static_cast<std::size_t>(input)].output);
            if (input < 0) step.input_gradient = false;
        }
        step.output = step.inputs.front();
        const bool many = spec.kind == CnnKind::Add || spec.kind == CnnKind::Concat;
        if (many ? spec.inputs.size() < 2 : spec.inputs.size() != 1) {
            fail(i, many ? "needs at least two inputs"
                         : "takes one input, " + std::to_string(spec.inputs.size()) + " are given");
            return;
        }
        switch (spec.kind) {
            case CnnKind::Convolution:
                infer_window(i);
                break;
            case CnnKind::MaxPool:
            case CnnKind::AveragePool:
                infer_window(i);
                break;
            case CnnKind::Linear:
                infer_linear(i);
                break;
            case CnnKind::Add:
                infer_add(i);
                break;
            case CnnKind::Concat:
                infer_concat(i);
                break;
            case CnnKind::Flatten:
                step.output = {
                    step.inputs.front().channels * step.inputs.front().height * step.inputs.front().width, 1,
                    1};
                break;
            case CnnKind::BatchNorm:
            case CnnKind::ActivationOfOutput:
            case CnnKind::ActivationOfInput:
            case CnnKind::Dropout:
                break;
        }
        if (step.output.elements() > kMaxElements) {
            fail(i, "an output of " + to_text(step.output) + " has more than 2^40 elements");
            step.output = {1, 1, 1};
        }
        // The product in double first: a 64-bit product of absurd sizes would overflow.
        const double weights = static_cast<double>(step.inputs.front().channels) *
                               static_cast<double>(step.output.channels) *
                               static_cast<double>(step.kernel_h * step.kernel_w);
        const bool has_weights = spec.kind == CnnKind::Convolution || spec.kind == CnnKind::Linear;
        if (has_weights && weights > static_cast<double>(kMaxParameters)) {
            fail(i, "more than 10^12 parameters in one layer");
            step.output = {1, 1, 1};
        }
    }

    void infer_window(std::size_t i) {
        const CnnLayerSpec& spec = network_.layers[i];
        CnnStep& step = steps_[i];
        const ImageShape in = step.inputs.front();
        step.kernel_h = spec.global ? in.height : spec.kernel_h;
        step.kernel_w = spec.global ? in.width : spec.kernel_w;
        step.stride = spec.stride;
        const std::int64_t height = window_output(in.height, step.kernel_h, spec.stride, spec.padding_h);
        const std::int64_t width = window_output(in.width, step.kernel_w, spec.stride, spec.padding_w);
        if (height < 1 || width < 1) {
            fail(i, "a window of " + std::to_string(step.kernel_h) + "x" + std::to_string(step.kernel_w) +
                        " does not fit into an image of " + to_text(in));
            return;
        }
        step.output = {in.channels, height, width};
        if (spec.kind != CnnKind::Convolution) return;
        if (in.channels % spec.groups != 0 || spec.out_channels % spec.groups != 0) {
            fail(i, "groups = " + std::to_string(spec.groups) + " must divide " +
                        std::to_string(in.channels) + " input and " + std::to_string(spec.out_channels) +
                        " output channels");
        }
        step.groups = spec.groups;
        step.bias = spec.bias;
        step.output.channels = spec.out_channels;
    }

    void infer_linear(std::size_t i) {
        const CnnLayerSpec& spec = network_.layers[i];
        CnnStep& step = steps_[i];
        if (step.inputs.front().height != 1 || step.inputs.front().width != 1) {
            fail(i, "a linear layer on an image of " + to_text(step.inputs.front()),
                 "put a flatten before it");
        }
        step.bias = spec.bias;
        step.output = {spec.out_channels, 1, 1};
    }

    void infer_add(std::size_t i) {
        const CnnStep& step = steps_[i];
        for (const ImageShape& input : step.inputs) {
            if (input != step.inputs.front()) {
                fail(i, "adds images of " + to_text(step.inputs.front()) + " and " + to_text(input));
                return;
            }
        }
    }

    void infer_concat(std::size_t i) {
        CnnStep& step = steps_[i];
        step.output.channels = 0;
        for (const ImageShape& input : step.inputs) {
            if (input.height != step.inputs.front().height || input.width != step.inputs.front().width) {
                fail(i, "concatenates images of " + to_text(step.inputs.front()) + " and " + to_text(input));
                return;
            }
            step.output.channels += input.channels;
        }
    }

    // unit_of_[i]: the vertex of layer i; equal for consecutive layers of one block.
    void group_units() {
        std::set<std::string> closed;
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            const std::string& block = network_.layers[i].block;
            const bool continues = i > 0 && !block.empty() && block == network_.layers[i - 1].block;
            if (!continues && !block.empty() && !closed.insert(block).second) {
                fail(i, "block '" + block + "' is taken up again; its layers must follow each other");
            }
            unit_of_.push_back(i == 0 ? 0 : unit_of_.back() + (continues ? 0 : 1));
        }
        std::vector<int> hands_on(steps_.size(), -1);  // per unit: the one layer whose output leaves it
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            for (const int input : network_.layers[i].inputs) {
                if (input < 0 || unit_of_[static_cast<std::size_t>(input)] == unit_of_[i]) continue;
                int& out = hands_on[static_cast<std::size_t>(unit_of_[static_cast<std::size_t>(input)])];
                if (out >= 0 && out != input) {
                    fail(static_cast<std::size_t>(input),
                         "block '" + network_.layers[static_cast<std::size_t>(input)].block + "' hands on '" +
                             network_.layers[static_cast<std::size_t>(out)].name +
                             "' too; a block hands on one tensor");
                    return;
                }
                out = input;
            }
        }
    }

    // The layer whose memory a layer's output is: a flatten is a view.
    [[nodiscard]] int storage(int layer) const {
        while (layer >= 0 && network_.layers[static_cast<std::size_t>(layer)].kind == CnnKind::Flatten) {
            layer = network_.layers[static_cast<std::size_t>(layer)].inputs.front();
        }
        return layer;
    }

    static bool keeps_input(CnnKind kind) {
        return kind == CnnKind::Convolution || kind == CnnKind::Linear || kind == CnnKind::BatchNorm ||
               kind == CnnKind::MaxPool || kind == CnnKind::AveragePool || kind == CnnKind::ActivationOfInput;
    }

    // A tensor that some backward reads is kept once, by the first layer that consumes it: so a stage that
    // receives it holds it.
    void find_kept_tensors() {
        const std::size_t count = steps_.size();
        std::vector<bool> needed(count + 1, false);  // index 0: the images
        std::vector<int> consumers(count + 1, 0);
        for (std::size_t i = 0; i < count; ++i) {
            for (const int input : network_.layers[i].inputs) {
                const auto tensor = static_cast<std::size_t>(storage(input) + 1);
                if (network_.layers[i].kind == CnnKind::Flatten) continue;
                ++consumers[tensor];
                if (keeps_input(network_.layers[i].kind)) needed[tensor] = true;
            }
            if (network_.layers[i].kind == CnnKind::ActivationOfOutput) needed[i + 1] = true;
        }
        for (std::size_t i = 0; i < count; ++i) {
            steps_[i].consumers = std::max(1, consumers[i + 1]);
            if (network_.layers[i].kind == CnnKind::Flatten) continue;
            for (const int input : network_.layers[i].inputs) {
                const int producer = storage(input);
                const auto tensor = static_cast<std::size_t>(producer + 1);
                if (!needed[tensor]) continue;
                needed[tensor] = false;
                const bool inside =
                    producer >= 0 && unit_of_[static_cast<std::size_t>(producer)] == unit_of_[i];
                const ImageShape& shape =
                    producer < 0 ? network_.input : steps_[static_cast<std::size_t>(producer)].output;
                (inside ? steps_[i].kept_inside : steps_[i].kept_outside) += shape.elements();
            }
        }
        // An activation that nothing consumes keeps its output itself.
        for (std::size_t i = 0; i < count; ++i) {
            if (needed[i + 1]) steps_[i].kept_inside += steps_[i].output.elements();
        }
    }

    LayerGraph graph() {
        LayerGraph graph;
        graph.name = network_.name;
        graph.family = "cnn";
        graph.causal = false;
        graph.counts_tokens = false;
        graph.default_seq_len = 1;
        std::vector<std::shared_ptr<const CnnUnit>> classes;
        for (std::size_t begin = 0, end = 0; begin < steps_.size(); begin = end) {
            while (end < steps_.size() && unit_of_[end] == unit_of_[begin])
                ++end;
            const auto at = [&](std::size_t i) { return steps_.begin() + static_cast<std::ptrdiff_t>(i); };
            auto unit = std::make_shared<const CnnUnit>(std::vector<CnnStep>(at(begin), at(end)));
            const auto same = std::find_if(classes.begin(), classes.end(),
                                           [&](const auto& known) { return known->same_work(*unit); });
            const int layer_class = static_cast<int>(same - classes.begin());
            if (same == classes.end()) classes.push_back(unit);
            const CnnLayerSpec& first = network_.layers[begin];
            boost::add_vertex(Layer{.name = first.block.empty() ? first.name : first.block,
                                    .role = LayerRole::Block,
                                    .layer_class = layer_class,
                                    .model = unit},
                              graph.dag);
            ++graph.blocks;
        }
        std::set<std::pair<int, int>> seen;
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            for (const int input : network_.layers[i].inputs) {
                if (input < 0) continue;
                const int from = unit_of_[static_cast<std::size_t>(input)], to = unit_of_[i];
                if (from == to || !seen.emplace(from, to).second) continue;
                boost::add_edge(static_cast<LayerDag::vertex_descriptor>(from),
                                static_cast<LayerDag::vertex_descriptor>(to),
                                TensorEdge{steps_[static_cast<std::size_t>(input)].output.elements()},
                                graph.dag);
            }
        }
        return graph;
    }

    const CnnNetwork& network_;
    std::vector<CnnStep> steps_;
    std::vector<int> unit_of_;
    Errors errors_;
};

}  // namespace

std::int64_t window_output(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                           std::int64_t padding) {
    const std::int64_t room = size + 2 * padding - kernel;
    return room < 0 ? 0 : room / stride + 1;
}

Result<LayerGraph> build_cnn(const CnnNetwork& network) {
    return Builder(network).build();
}

}  // namespace tw

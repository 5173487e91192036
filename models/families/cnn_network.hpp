// From a list of layers as its author writes it to a LayerGraph: infers and checks every shape, finds which
// layer keeps which tensor, and groups the layers of a block into one vertex.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/families/cnn.hpp"

namespace tw {

// One layer. Which fields count depends on the kind; sizes are in pixels and channels.
struct CnnLayerSpec {
    std::string name;
    CnnKind kind = CnnKind::Convolution;
    std::vector<int> inputs;  // indices of earlier layers; -1: the images
    std::string block;        // consecutive layers of one block become one vertex; empty: a vertex of its own
    std::int64_t out_channels = 0;  // convolution, linear
    std::int64_t kernel_h = 1, kernel_w = 1, stride = 1, padding_h = 0, padding_w = 0, groups = 1;
    bool bias = true;
    bool global = false;  // a pool over the whole image
};

struct CnnNetwork {
    std::string name;
    ImageShape input;
    std::vector<CnnLayerSpec> layers;
};

// Output size of a window: floor((size + 2 padding - kernel) / stride) + 1; below 1 where the window does not
// fit.
std::int64_t window_output(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding);

// Errors (Unreadable, context "/layers/<i>", all at once): a window larger than its image, channels that
// groups do not divide, inputs of different shapes added, a linear layer on an image that was not flattened,
// tensors beyond 2^40 elements, a block whose layers are not consecutive or that hands on more than one
// tensor.
Result<LayerGraph> build_cnn(const CnnNetwork& network);

}  // namespace tw

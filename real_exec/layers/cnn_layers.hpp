// Convolutional networks of one chain (VGG-like): convolution, linear, pooling, relu, dropout, flatten, and a
// softmax cross entropy after the last layer. fp32.
#pragma once

#include <memory>
#include <vector>

#include "models/families/cnn.hpp"
#include "real_exec/layers/layer.hpp"

namespace tw {

// `last`: the unit whose output are the logits of the loss.
std::unique_ptr<ExecLayer> make_cnn_layer(const StageSetting& setting, ParameterList& list, int layer,
                                          const std::vector<CnnStep>& steps, bool last);
Shape cnn_output_shape(const StageSetting& setting, const std::vector<CnnStep>& steps);
// What of these steps cannot be executed; empty: all can.
std::string unsupported_cnn_step(const std::vector<CnnStep>& steps);

}  // namespace tw

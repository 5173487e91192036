// What the host does for a layer's operations, in dispatches: one is what PyTorch takes for one operation
// with a kernel inside a layer that autograd records (a profile's host mode "layer").
//
// The counts are those of PyTorch 2.11's dispatcher (TorchDispatchMode over the aten calls of whole layers),
// the weights those of the same layers timed on one core: modules of CPU tensors of 8 channels, whose kernels
// take no time; increments from 4 to 12 layers; process CPU time, 15 % quantile of 40 steps. In units of one
// transposition
// (`weight.t()`, 0.89 us there) an operation with a kernel is 5.3, a view in the forward 2.8, in the
// backward 2.0.
#pragma once

#include <string_view>
#include <vector>

#include "models/graph/layer_graph.hpp"
#include "plan/frameworks/framework.hpp"

namespace tw {

struct LayerHost {
    std::vector<double> forward, backward;  // dispatches of each of the layer's operations
    double recompute = 0;                   // beside the forward that a full recomputation runs again
    double parameter_tensors = 0;           // that the optimizer visits
};

// Dispatches of one forward operation of the layer.
double forward_dispatches(const LayerWork& work, const Op& op, HostCode code);
LayerHost layer_host(const LayerWork& work, HostCode code, const HostExtras& extras = {});

// Whether the host waits for the device before it dispatches this operation. Routing without a padded
// capacity makes the experts' row counts on the device, and what follows is shaped by them: Megatron-Core
// moves them to the host before the tokens (core/transformer/moe/token_dispatcher.py,
// MoEAlltoAllTokenDispatcher, cuda_sync_point). transformers 5.17 keeps them on the device (`_grouped_mm`
// with offsets).
bool host_waits_for_device(const Op& op, HostCode code);

// How long a dispatch of this code takes on the host of this device, as a share of the profile's. A profile
// knows PyTorch's own operations. On a Grace a Linear module of Transformer Engine takes 2.69 times PyTorch's
// (GB200: 99.66 and 37.08 us, GH200 2.73 times; NVIDIA/TransformerEngine issue 2053), where the same two
// count 4.6 to 1: 70 us and 15 us on one core. The same table has no such row of a DGX here: 1 elsewhere.
double dispatch_share(HostCode code, std::string_view device);

// Dispatches of one optimizer step over so many tensors, whose states `shard` ranks share.
double step_dispatches(double parameter_tensors, const FrameworkDefaults& framework, int shard = 1);

}  // namespace tw

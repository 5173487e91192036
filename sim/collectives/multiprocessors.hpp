// What a collective takes from the kernels beside it: multiprocessors.
//
// NCCL launches one block per channel, and none of its blocks shares a multiprocessor with another kernel
// (NVIDIA/nccl issue 689, its maintainer). While it runs, kernels have the others; so kernels that would take
// k seconds alone, beside a collective of c seconds on a share s of the device, are done after k + s c where
// they outlast it. Where they do not, the collective decides, and s c counts for nothing.
#pragma once

#include "models/graph/op.hpp"
#include "models/hardware/cluster.hpp"

namespace tw {

// Channels of a group's communicator, each of which holds a multiprocessor. Inside an NVLink node as many as
// NCCL_DEBUG=INFO reports for the generation (nccl_constants.hpp), over PCIe 2 (issue 689). Between nodes two
// for each network interface that the group's ranks on one node drive (issue 689: 16 on a DGX with eight;
// "Channel 00/16" on three nodes of H100, issue 1453), at least 2 and no more than inside a node. Sends and
// receives between nodes have 2 for each peer ("2 p2p channels per peer"). 0 where hosts talk without GPUs.
int collective_channels(CollectiveKind kind, const GroupPlacement& at, const NodeType& node);

// The share of a device's multiprocessors that the collective holds, 0 to 1; `sms` 0: 0.
double multiprocessor_share(CollectiveKind kind, const GroupPlacement& at, const NodeType& node, int sms);

}  // namespace tw

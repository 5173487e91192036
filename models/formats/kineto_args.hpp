// What the name and the args of one of NCCL's kernels, or of record_param_comms, say about the collective
// (PyTorch, torch/csrc/distributed/c10d/ParamCommsUtils.hpp; the args are written by libkineto's
// output_json.cpp).
#pragma once

#include <optional>
#include <string_view>

#include "models/formats/kineto.hpp"

namespace tw {

bool is_collective_kernel(std::string_view name);
// All but its time; unknown figures are 0.
KinetoCollective collective_of(std::string_view kernel_name, std::string_view args);
std::optional<std::int64_t> external_id(std::string_view args);
// "AllReduce", "_allgather_base", "reduce_scatter_tensor_coalesced", "alltoall_base", "send"; nothing for
// barriers and others.
std::optional<CollectiveKind> collective_by_name(std::string_view name);
int dtype_bytes(std::string_view dtype);  // "BFloat16": 2; 0: unknown

}  // namespace tw

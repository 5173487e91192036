// Which attention kernels run on which devices, and in which precision.
#pragma once

#include <string>
#include <string_view>

#include "models/hardware/cluster.hpp"

namespace tw {

// Why a device does not run the kernel in a precision for a framework (a row of plan/frameworks); "" where it
// does. Dao-AILab/flash-attention, README "Installation and features": FlashAttention-1 from Turing on, 2
// from Ampere on, 3 on Hopper, in 16 bits. cuDNN's flash attention (cudnn-frontend, docs "Attention"): from
// Ampere on, in 16 and 8 bits. PyTorch's memory-efficient kernel and this project's own, for which flash1 and
// flash2 stand as well, run everywhere and in fp32. Of processors and unknown devices nothing is refused but
// what their precision forbids.
std::string why_no_attention(const Device& device, AttentionKernel kernel, Precision precision,
                             std::string_view framework);

// The fastest kernel that all devices run: default_attention's (models/hardware/cluster.hpp) or the next
// slower one that the precision and the framework allow.
AttentionKernel fastest_attention(const Cluster& cluster, Precision precision, std::string_view framework);

}  // namespace tw

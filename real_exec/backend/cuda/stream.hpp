#pragma once

namespace tw::cuda {

// Work in order on a device: a cudaStream_t. What CUDA's headers do not reach knows it by this name.
using Stream = void*;

}  // namespace tw::cuda

// A checkpoint's weights as one model.safetensors under Hugging Face's names: what other programs load.
#pragma once

#include <filesystem>

#include "real_exec/checkpoint/checkpoint.hpp"

namespace tw {

// Every tensor of kind "weight", whole, as `dtype` (F32, BF16 or F16). Written beside and renamed. Errors: no
// weights, damaged pieces, elements that no rank wrote, a disk that is full.
Status export_weights(const Checkpoint& checkpoint, const std::filesystem::path& path, DType dtype);

}  // namespace tw

// Opens the CUDA module at run time, so that one program runs where CUDA is not installed and says what is
// missing. Needs no CUDA header.
#pragma once

#include "base/result.hpp"
#include "real_exec/backend/cuda/module.hpp"

namespace tw::cuda {

// Looks at $TRAINWRIGHT_CUDA_MODULE, else beside the running program (and in ../lib). Opened once a process;
// it stays open.
Result<const Module*> load_module();

}  // namespace tw::cuda

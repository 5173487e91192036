#include "real_exec/backend/cpu/kernels/table.hpp"

#define TW_STRING_OF(x) #x
#define TW_STRING(x) TW_STRING_OF(x)

namespace tw::cpu::TW_KERNEL_ISA {

const Kernels kernels = {TW_STRING(TW_KERNEL_ISA),
#define TW_KERNEL(name, result, arguments) name,
                         TW_CPU_KERNELS(TW_KERNEL)
#undef TW_KERNEL
};

}  // namespace tw::cpu::TW_KERNEL_ISA

#include "cli/common/flops_option.hpp"

#include "sim/report/flop_convention.hpp"

namespace tw::cli {

void define_flops(Command& command, std::string& flops) {
    command.word("--flops", flops, flop_convention_names(),
                 "what MFU counts: a causal attention's half (causal, where not given), all of it (full), "
                 "what Megatron's log counts, or PaLM's 6 N + 12 L H Q T");
}

}  // namespace tw::cli

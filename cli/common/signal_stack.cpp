#include "cli/common/signal_stack.hpp"

namespace tw::cli {

SignalStack::SignalStack() : bytes_(kBytes) {
    stack_t own{};
    own.ss_sp = bytes_.data();
    own.ss_size = bytes_.size();
    sigaltstack(&own, &before_);
}

SignalStack::~SignalStack() {
    sigaltstack(&before_, nullptr);
}

}  // namespace tw::cli

// A stack of its own for the signal handlers of one thread. oneDNN's products move the stack pointer into a
// buffer on the heap (its AVX and AVX2 kernels run out of registers): a handler that is called meanwhile
// would write its frame, kilobytes of saved registers, over whatever lies below that buffer. Handlers on a
// thread that computes therefore have SA_ONSTACK, and this lives as long as they are installed.
#pragma once

#include <csignal>
#include <cstddef>
#include <vector>

namespace tw::cli {

class SignalStack {
  public:
    SignalStack();   // of the thread that calls
    ~SignalStack();  // on the same thread
    SignalStack(const SignalStack&) = delete;
    SignalStack& operator=(const SignalStack&) = delete;

  private:
    static constexpr std::size_t kBytes = std::size_t{64} << 10U;  // AVX-512 and AMX save up to 11 KiB
    std::vector<std::byte> bytes_;
    stack_t before_{};
};

}  // namespace tw::cli

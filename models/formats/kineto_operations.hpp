// Device times of the operations whose shapes a PyTorch trace records (torch.profiler with
// record_shapes=True: "Input Dims", "Input type", "Input Strides", "Concrete Inputs" of cpu_op events):
// matrix products, fused attention, norms. A kernel belongs to the innermost such operation that was under
// way on the thread that launched it; kernel and launch have the same "correlation". Where a trace has no
// launches, to the operation with the kernel's "External id". Kernels of captured graphs belong to nobody.
//
// Memory: 56 bytes an operation, 24 a launch, 32 a kernel; at most 2^22 of each, what is beyond is left out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/formats/kineto.hpp"

namespace tw {

// "aten::mm", "aten::_flash_attention_forward", "aten::native_layer_norm", ...
bool is_timed_operation(std::string_view name);

class OperationTimes {
  public:
    void on_operation(const ForeignEvent& event, std::int64_t end_ns);
    void on_launch(const ForeignEvent& event);
    void on_kernel(const ForeignEvent& event, std::size_t kernel);  // `kernel`: a number for its name

    // By name and shape, most time first; names[k]: of the kernel with number k. Once.
    std::vector<KinetoOperation> finish(const std::vector<KinetoKernel>& names);
    [[nodiscard]] std::int64_t without_shapes() const { return without_shapes_; }

  private:
    struct Operation {
        std::uint32_t thread, key;
        std::int64_t start_ns, end_ns, id;
        double seconds = 0;
        std::int64_t longest_ps = 0;  // of its kernels
        std::uint32_t kernel = 0;     // that one
    };
    struct Launch {
        std::uint32_t thread;
        std::int64_t at_ns, correlation;
    };
    struct Kernel {
        std::int64_t correlation, id, duration_ps;
        std::uint32_t name;
    };
    std::uint32_t thread_of(const ForeignEvent& event);
    // Indices of operations, by correlation of the launches inside them.
    [[nodiscard]] std::unordered_map<std::int64_t, std::size_t> launched();

    std::unordered_map<std::string, std::uint32_t> threads_, keys_;  // only looked up
    std::vector<KinetoOperation> shapes_;                            // by key
    std::vector<Operation> operations_;
    std::vector<Launch> launches_;
    std::vector<Kernel> kernels_;
    std::int64_t without_shapes_ = 0;
};

}  // namespace tw

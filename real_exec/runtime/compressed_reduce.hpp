// Sums of gradients over replicas in fewer bytes, with error feedback (Seide et al. 2014; Stich et al. 2018;
// Karimireddy et al. 2019): what a rank does not send of gradient plus residual stays in its residual,
// exactly, and is added the next time.
//
// top-k: the `density` largest magnitudes as (index, value), all-gathered; ties go to the lower index.
// 8-bit: blocks of `block` elements share a scale (largest magnitude / 127); parts are exchanged all-to-all,
// added in fp32 by their owner, quantised again with a residual of the owner's, and all-gathered.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "plan/gradient_sync/gradient_sync.hpp"
#include "real_exec/backend/backend.hpp"
#include "real_exec/comm/communicator.hpp"
#include "real_exec/runtime/sync_method.hpp"

namespace tw {

// Operations one after the other as one request; a step may start none (null).
using NextOperation = std::function<RequestPtr()>;
RequestPtr chain_operations(std::vector<NextOperation> operations);

class CompressedReduce {
  public:
    virtual ~CompressedReduce() = default;
    // Appends what replaces `grads` (F32, host memory) by the sum over the group of what its members send,
    // the same on all of them.
    virtual void append(Communicator& group, const Tensor& grads, std::vector<NextOperation>& operations) = 0;
    // What this rank has not sent of its own gradients; `elements` of it.
    [[nodiscard]] virtual std::span<const float> residual() const = 0;
    // Of this rank's last sum, dense; for tests.
    [[nodiscard]] virtual std::vector<float> sent() const = 0;
};

// For one bucket of `elements`; method: TopK or EightBit. `members`: of the group that it will be used with.
std::unique_ptr<CompressedReduce> make_compressed_reduce(SyncMethod method, const SyncOptions& options,
                                                         std::int64_t elements, int members, int member,
                                                         Backend& backend);

}  // namespace tw

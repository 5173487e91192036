#include "real_exec/backend/backend.hpp"

#include <fstream>

namespace tw {

std::string_view to_string(DType dtype) {
    switch (dtype) {
        case DType::F32:
            return "f32";
        case DType::BF16:
            return "bf16";
        case DType::F16:
            return "f16";
        case DType::I32:
            return "i32";
    }
    return "?";
}

std::string_view to_string(MemoryUse use) {
    static constexpr std::array<std::string_view, kMemoryUses> kNames = {
        "parameters",  "gradients", "master_weights",        "optimizer_states",
        "activations", "logits",    "communication_buffers", "weight_stashes",
        "temporaries"};
    return kNames[static_cast<std::size_t>(use)];
}

void Buffer::reset() {
    if (data_ != nullptr) backend_->free(data_, bytes_, use_);
    data_ = nullptr;
    bytes_ = 0;
}

MatrixView MatrixView::of(const Tensor& tensor) {
    const std::int64_t cols = tensor.shape.rank > 0 ? tensor.shape[tensor.shape.rank - 1] : 1;
    return {tensor.data, tensor.dtype, cols == 0 ? 0 : tensor.elements() / cols, cols, cols};
}

MatrixView MatrixView::columns(std::int64_t begin, std::int64_t count) const {
    TW_CHECK(begin >= 0 && count >= 0 && begin + count <= cols);
    return {static_cast<std::byte*>(data) + static_cast<std::size_t>(begin) * bytes_of(dtype), dtype, rows,
            count, ld};
}

Buffer Backend::allocate(std::size_t bytes, MemoryUse use) {
    // An empty tensor still has an address, so that "left out" and "empty" stay apart.
    void* data = raw_allocate(bytes == 0 ? 1 : bytes);
    const std::lock_guard lock(mutex_);
    stats_.current += bytes;
    stats_.current_by_use[static_cast<std::size_t>(use)] += bytes;
    if (stats_.current > stats_.peak) {
        stats_.peak = stats_.current;
        stats_.peak_by_use = stats_.current_by_use;
    }
    return {this, data, bytes, use};
}

Buffer Backend::allocate(DType dtype, const Shape& shape, MemoryUse use) {
    return allocate(static_cast<std::size_t>(shape.elements()) * bytes_of(dtype), use);
}

void Backend::free(void* data, std::size_t bytes, MemoryUse use) {
    {
        const std::lock_guard lock(mutex_);
        stats_.current -= bytes;
        stats_.current_by_use[static_cast<std::size_t>(use)] -= bytes;
    }
    raw_free(data, bytes == 0 ? 1 : bytes);
}

MemoryStats Backend::memory() const {
    const std::lock_guard lock(mutex_);
    return stats_;
}

std::size_t Backend::system_bytes() const {
    std::ifstream status("/proc/self/status");
    std::string word;
    while (status >> word) {
        if (word != "VmHWM:") continue;
        std::size_t kib = 0;
        status >> kib;
        return kib * 1024;
    }
    return 0;
}

namespace {

class HostMoment final : public Moment {
  public:
    [[nodiscard]] std::optional<HostTime> time() override { return time_; }

  private:
    HostTime time_ = std::chrono::steady_clock::now();
};

}  // namespace

std::unique_ptr<Moment> Backend::moment() {
    return std::make_unique<HostMoment>();
}

void Backend::softmax_statistics(const Tensor& logits, std::int64_t columns, const Tensor& targets,
                                 std::int64_t first_token, const Tensor& max, const Tensor& sum,
                                 const Tensor& picked) {
    row_max(logits, columns, max);
    softmax_sums(logits, columns, targets, first_token, max, sum, picked);
}

void Backend::cross_entropy_backward_into(const Tensor& gradient, const Tensor& logits, std::int64_t columns,
                                          const Tensor& targets, std::int64_t first_token, const Tensor& max,
                                          const Tensor& sum, double scale) {
    cross_entropy_backward(logits, columns, targets, first_token, max, sum, scale);
    copy(logits, gradient);
}

void Backend::reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak = stats_.current;
    stats_.peak_by_use = stats_.current_by_use;
}

}  // namespace tw

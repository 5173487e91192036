// Tensor: a typed, contiguous, row-major view of memory that somebody else owns; Buffer: memory of a Backend,
// freed when it goes out of scope.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/check.hpp"

namespace tw {

enum class DType : std::uint8_t { F32, BF16, F16, I32 };

constexpr std::size_t bytes_of(DType dtype) {
    return dtype == DType::F32 || dtype == DType::I32 ? 4 : 2;
}
std::string_view to_string(DType dtype);  // "f32", "bf16", "f16", "i32"

// Up to four dimensions; unused ones are 1.
struct Shape {
    std::array<std::int64_t, 4> dims{1, 1, 1, 1};
    int rank = 0;
    Shape() = default;
    Shape(std::initializer_list<std::int64_t> sizes) {
        TW_CHECK(sizes.size() <= 4);
        for (const std::int64_t size : sizes)
            dims[static_cast<std::size_t>(rank++)] = size;
    }
    [[nodiscard]] std::int64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
    std::int64_t operator[](int axis) const { return dims[static_cast<std::size_t>(axis)]; }
    friend bool operator==(const Shape&, const Shape&) = default;
};

struct Tensor {
    void* data = nullptr;
    DType dtype = DType::F32;
    Shape shape;

    [[nodiscard]] std::int64_t elements() const { return shape.elements(); }
    [[nodiscard]] std::size_t bytes() const {
        return static_cast<std::size_t>(shape.elements()) * bytes_of(dtype);
    }
    [[nodiscard]] explicit operator bool() const { return data != nullptr; }
    // Typed access on the host; T must match dtype's size.
    template <typename T>
    [[nodiscard]] T* as() const {
        TW_CHECK(sizeof(T) == bytes_of(dtype));
        return static_cast<T*>(data);
    }
    // The same memory under another shape of as many elements.
    [[nodiscard]] Tensor reshaped(const Shape& other) const {
        TW_CHECK(other.elements() == shape.elements());
        return {data, dtype, other};
    }
    // Rows [begin, begin + count) of the first dimension.
    [[nodiscard]] Tensor rows(std::int64_t begin, std::int64_t count) const {
        TW_CHECK(begin >= 0 && count >= 0 && begin + count <= shape[0]);
        const std::int64_t row = shape[0] == 0 ? 0 : elements() / shape[0];
        Tensor part = *this;
        part.shape.dims[0] = count;
        part.data = static_cast<std::byte*>(data) + static_cast<std::size_t>(begin * row) * bytes_of(dtype);
        return part;
    }
};

// What memory is held for: the executor's ledger has the simulator's categories (sim/memory/ledger.hpp).
enum class MemoryUse : std::uint8_t {
    Parameters,
    Gradients,
    MasterWeights,
    OptimizerStates,
    Activations,
    Logits,
    CommunicationBuffers,
    WeightStashes,
    Temporaries,
};
inline constexpr int kMemoryUses = 9;
std::string_view to_string(MemoryUse use);  // "parameters", "optimizer_states", ...

class Backend;

// Owns `bytes` of a backend's memory. Movable; frees on destruction.
class Buffer {
  public:
    Buffer() = default;
    Buffer(Backend* backend, void* data, std::size_t bytes, MemoryUse use)
        : backend_(backend), data_(data), bytes_(bytes), use_(use) {}
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        Buffer moved(std::move(other));
        swap(moved);
        return *this;
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { reset(); }

    void reset();
    [[nodiscard]] void* data() const { return data_; }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    [[nodiscard]] MemoryUse use() const { return use_; }
    [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }
    [[nodiscard]] Tensor view(DType dtype, const Shape& shape, std::size_t byte_offset = 0) const {
        TW_CHECK(byte_offset + static_cast<std::size_t>(shape.elements()) * bytes_of(dtype) <= bytes_);
        return {static_cast<std::byte*>(data_) + byte_offset, dtype, shape};
    }

  private:
    void swap(Buffer& other) noexcept {
        std::swap(backend_, other.backend_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(use_, other.use_);
    }
    Backend* backend_ = nullptr;
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
    MemoryUse use_ = MemoryUse::Temporaries;
};

}  // namespace tw

// A benchmark: one file, one line in the registry (registry.cpp). It times the executor's own kernels or
// communicators over shapes of its choice, through the sampling harness, into the document.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/profile_document.hpp"
#include "profiler/bench/sampler.hpp"
#include "profiler/bench/team.hpp"
#include "real_exec/backend/backend.hpp"

namespace tw {

struct BenchContext {
    Backend* backend = nullptr;
    Team* team = nullptr;  // all ranks; of one where none measure together
    Sampler* sampler = nullptr;
    ProfileDocument* document = nullptr;  // samples so far; on rank 0
    int threads = 1;

    [[nodiscard]] bool measured(const SampleSeries& point) const;
    void keep(SampleSeries point);
    // Measures the point unless it has been (a resumed run).
    void sample(SampleSeries point, const BenchBody& body);
    // One call of every rank that measures (or of everyone), started together; the same point everywhere, in
    // the same order. Rank 0's clock.
    void sample_together(SampleSeries point, const BenchBody& body, bool everyone = false);
};

struct Benchmark {
    std::string_view name;      // of its samples
    std::string_view measures;  // one line
    std::string_view unit;      // of its samples' values
    double share;               // of the budget
    // Solo: rank 0 alone, the others idle. Team: the ranks that measure, two at least. Crowd: more ranks than
    // cores.
    enum class Kind : std::uint8_t { Solo, Team, Crowd } kind;
    void (*run)(BenchContext& context);
};

std::span<const Benchmark> benchmarks();  // in the order in which they run
const Benchmark* find_benchmark(std::string_view name);

// Buffers of `bytes` in turn, so many that a call does not find the caches as its predecessor left them;
// their contents are small numbers.
class RotatedBuffers {
  public:
    RotatedBuffers(Backend& backend, std::size_t bytes, std::size_t together = std::size_t{48} << 20U);
    [[nodiscard]] void* at(std::int64_t index) const {
        return buffers_[static_cast<std::size_t>(index) % buffers_.size()].data();
    }
    [[nodiscard]] Tensor tensor(std::int64_t index, DType dtype, const Shape& shape) const {
        return {at(index), dtype, shape};
    }

  private:
    std::vector<Buffer> buffers_;
};

// A square product in fp32 over rotated buffers: what is timed beside something else.
class RotatedProduct {
  public:
    RotatedProduct(Backend& backend, std::int64_t size);
    void operator()(std::int64_t index) const;

  private:
    Backend& backend_;
    std::int64_t size_;
    RotatedBuffers a_, b_, c_;
};

std::string_view precision_name(DType dtype);  // "fp32", "bf16"
// Precisions that this backend multiplies matrices in.
std::vector<DType> product_types(const Backend& backend);

}  // namespace tw

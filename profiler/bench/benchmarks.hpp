// The entry points that registry.cpp lists; one file each.
#pragma once

#include "profiler/bench/benchmark.hpp"

namespace tw {

void run_training_steps(BenchContext& context);
void run_gemm(BenchContext& context);
void run_batched_products(BenchContext& context);
void run_sustained(BenchContext& context);
void run_attention(BenchContext& context);
void run_norms(BenchContext& context);
void run_elementwise(BenchContext& context);
void run_embedding(BenchContext& context);
void run_cross_entropy(BenchContext& context);
void run_convolution(BenchContext& context);
void run_optimizer(BenchContext& context);
void run_copies(BenchContext& context);
void run_dispatch(BenchContext& context);
void run_memory_outside(BenchContext& context);
void run_busy_neighbours(BenchContext& context);
void run_point_to_point(BenchContext& context);
void run_collectives(BenchContext& context);
void run_overlap(BenchContext& context);
void run_crowd(BenchContext& context);

// A kernel over rows x width, as the element-wise benchmarks name it: "norm" of {rows, width}.
SampleSeries kernel_point(std::string_view kernel, DType dtype, std::int64_t rows, std::int64_t width);

}  // namespace tw

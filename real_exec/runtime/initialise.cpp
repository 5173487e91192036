// Initial values: every element of the whole tensor from a counter of its own, so that any layout holds the
// same model.
#include "real_exec/runtime/initialise.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <thread>

#include "base/prng.hpp"
#include "real_exec/checkpoint/tensor_region.hpp"
#include "real_exec/runtime/stage_state.hpp"

namespace tw {
namespace {

// FNV-1a (Fowler, Noll, Vo): a stream for each tensor.
std::uint64_t stream_of(std::string_view name) {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (const char c : name)
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return hash;
}

// Standard normal number i: Box-Muller over the pair that i belongs to.
double normal_at(std::uint64_t seed, std::uint64_t stream, std::int64_t i) {
    const auto pair = static_cast<std::uint64_t>(i / 2);
    const auto uniform = [&](std::uint64_t counter) {
        return static_cast<double>(counter_random(seed, stream, counter) >> 11U) * 0x1.0p-53;
    };
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(2 * pair)));
    const double angle = 2 * std::numbers::pi * uniform(2 * pair + 1);
    return radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

}  // namespace

std::vector<float> initial_values(const Parameter& p, std::uint64_t seed, std::int64_t first,
                                  std::int64_t count, int threads) {
    constexpr std::int64_t kFew = 1 << 16;  // not worth a thread
    std::vector<float> values(static_cast<std::size_t>(count), 0.0F);
    const std::uint64_t stream = stream_of(p.name);
    const std::vector<ElementRun> runs = runs_of(region_of(p, first, count));
    const std::int64_t shares = std::clamp<std::int64_t>(count / kFew, 1, std::max(1, threads));
    // A share has its part of every run.
    const auto draw = [&](std::int64_t share) {
        for (const ElementRun& run : runs) {
            const std::int64_t end = run.length * (share + 1) / shares;
            for (std::int64_t i = run.length * share / shares; i < end; ++i) {
                const double value =
                    p.init_std > 0 ? p.init_std * normal_at(seed, stream, run.at + i) : p.init_value;
                values[static_cast<std::size_t>(run.local + i)] = static_cast<float>(value);
            }
        }
    };
    std::vector<std::thread> others;
    for (std::int64_t share = 1; share < shares; ++share)
        others.emplace_back(draw, share);
    draw(0);
    for (std::thread& other : others)
        other.join();
    return values;
}

void StageState::initialise_owned(const Bucket& b, std::uint64_t seed, int threads) {
    Backend& backend = *options_.backend;
    // All elements of whole buckets, the shard of sharded ones.
    const bool sharded = options_.shard_parameters;
    const std::int64_t value_begin = sharded ? b.shard_begin() : 0;
    const std::int64_t value_end = value_begin + (sharded ? b.shard_elements() : b.elements);
    const std::int64_t master_begin = owned_begin(b), master_end = master_begin + owned_elements(b);
    const auto put = [&](const Tensor& to, std::int64_t at, const float* from, std::int64_t count) {
        const Tensor target{
            static_cast<std::byte*>(to.data) + static_cast<std::size_t>(at) * bytes_of(to.dtype), to.dtype,
            Shape{count}};
        if (to.dtype == DType::F32) {
            backend.copy_from_host(target, from);
            return;
        }
        Buffer staged = backend.allocate(DType::F32, Shape{count}, MemoryUse::Temporaries);
        const Tensor fp32 = staged.view(DType::F32, Shape{count});
        backend.copy_from_host(fp32, from);
        backend.copy(fp32, target);
    };
    for (const BucketSlice& slice : b.slices) {
        const Parameter& p = module_->parameters()[static_cast<std::size_t>(slice.parameter)];
        const std::int64_t from = std::max(value_begin, slice.begin);
        const std::int64_t to = std::min(value_end, slice.begin + slice.elements);
        if (from >= to) continue;
        const std::vector<float> values = initial_values(p, seed, from - slice.begin, to - from, threads);
        const Tensor value{b.value.data(), options_.compute, Shape{value_end - value_begin}};
        put(value, from - value_begin, values.data(), to - from);
        if (!b.master) continue;
        const std::int64_t first = std::max(master_begin, from), last = std::min(master_end, to);
        if (first < last) {
            put(owned_master(b), first - master_begin, values.data() + (first - from), last - first);
        }
    }
}

void StageState::initialise(std::uint64_t seed, int threads) {
    for (const Bucket& b : buckets_)
        initialise_owned(b, seed, threads);
    options_.backend->synchronize();
    bind_all();
}

void StageState::values_from_master() {
    for (const Bucket& b : buckets_) {
        if (b.master) options_.backend->copy(owned_master(b), owned_values(b));
    }
}

}  // namespace tw

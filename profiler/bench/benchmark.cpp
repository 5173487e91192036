#include "profiler/bench/benchmark.hpp"

#include <algorithm>

namespace tw {

bool BenchContext::measured(const SampleSeries& point) const {
    return std::any_of(document->samples.begin(), document->samples.end(),
                       [&](const SampleSeries& known) { return known.same_point(point); });
}

void BenchContext::keep(SampleSeries point) {
    for (SampleSeries& known : document->samples) {
        if (!known.same_point(point)) continue;
        known.values.insert(known.values.end(), point.values.begin(), point.values.end());
        return;
    }
    document->samples.push_back(std::move(point));
}

void BenchContext::sample(SampleSeries point, const BenchBody& body) {
    if (measured(point)) return;
    const BenchBody whole = [&](std::int64_t index) {
        body(index);
        backend->synchronize();
    };
    if (sampler->measure(point, whole)) keep(std::move(point));
}

void BenchContext::sample_together(SampleSeries point, const BenchBody& body, bool everyone) {
    const bool leads = team->rank() == 0;
    const bool wanted = leads && !sampler->over() && !measured(point);
    if (team->agree(wanted ? 1 : 0) == 0) return;
    std::int64_t index = 0;
    const bool takes_part = everyone || team->active();
    Communicator* group = everyone ? &team->all() : team->measuring();
    const auto together = [&](std::int64_t calls) {
        if (!takes_part) return 0.0;
        (void)group->barrier();
        const double begin = sampler->now();
        for (std::int64_t i = 0; i < calls; ++i) {
            body(index++);
            backend->synchronize();
        }
        return (sampler->now() - begin) / static_cast<double>(calls);
    };
    for (int i = 0; i < 2; ++i)
        together(1);
    if (leads) {
        const bool done = sampler->measure_with(point, [&](std::int64_t calls) {
            team->agree(static_cast<double>(calls));
            return together(calls);
        });
        team->agree(0);
        if (done) keep(std::move(point));
        return;
    }
    while (true) {
        const auto calls = static_cast<std::int64_t>(team->agree(0));
        if (calls == 0) break;
        together(calls);
    }
}

RotatedBuffers::RotatedBuffers(Backend& backend, std::size_t bytes, std::size_t together) {
    const std::size_t count = std::clamp<std::size_t>(together / std::max<std::size_t>(1, bytes), 2, 64);
    for (std::size_t i = 0; i < count; ++i) {
        buffers_.push_back(backend.allocate(bytes, MemoryUse::Temporaries));
        const auto floats = static_cast<std::int64_t>(bytes / 4);
        if (floats > 0) backend.fill({buffers_.back().data(), DType::F32, Shape{floats}}, 0.01);
    }
}

RotatedProduct::RotatedProduct(Backend& backend, std::int64_t size)
    : backend_(backend),
      size_(size),
      a_(backend, static_cast<std::size_t>(size * size) * 4),
      b_(backend, static_cast<std::size_t>(size * size) * 4),
      c_(backend, static_cast<std::size_t>(size * size) * 4) {}

void RotatedProduct::operator()(std::int64_t index) const {
    const auto view = [&](const RotatedBuffers& of) {
        return MatrixView{of.at(index), DType::F32, size_, size_, size_};
    };
    backend_.gemm(view(a_), false, view(b_), false, view(c_), false);
}

std::string_view precision_name(DType dtype) {
    switch (dtype) {
        case DType::BF16:
            return "bf16";
        case DType::F16:
            return "fp16";
        default:
            return "fp32";
    }
}

std::vector<DType> product_types(const Backend&) {
    return {DType::F32, DType::BF16};
}

}  // namespace tw

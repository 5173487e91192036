// What the tests of kernels share: memory with random contents, and a fixture for each instruction set.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "real_exec/backend/cpu/cpu_backend.hpp"

namespace tw::cpu {

using Doubles = std::vector<double>;

// A backend and the memory of one test.
class Bench {
  public:
    explicit Bench(const Kernels& kernels, int threads = 1) : backend_({threads}, kernels) {}
    CpuBackend& operator*() { return backend_; }
    CpuBackend* operator->() { return &backend_; }
    Tensor empty(DType type, const Shape& shape) {
        memory_.push_back(backend_.allocate(type, shape, MemoryUse::Temporaries));
        return memory_.back().view(type, shape);
    }
    // Values in [-scale, scale], as the type holds them.
    Tensor random(const Shape& shape, double scale = 1, DType type = DType::F32) {
        const Tensor exact = empty(DType::F32, shape);
        for (std::int64_t i = 0; i < exact.elements(); ++i)
            exact.as<float>()[i] = static_cast<float>(scale * (2 * prng_.uniform() - 1));
        if (type == DType::F32) return exact;
        const Tensor narrow = empty(type, shape);
        backend_.copy(exact, narrow);
        return narrow;
    }
    Tensor zeros(const Shape& shape, DType type = DType::F32) {
        const Tensor t = empty(type, shape);
        backend_.fill(t, 0);
        return t;
    }
    Tensor integers(const std::vector<std::int32_t>& values, const Shape& shape) {
        const Tensor t = empty(DType::I32, shape);
        backend_.copy_from_host(t, values.data());
        return t;
    }
    Doubles read(const Tensor& t) {
        Buffer wide = backend_.allocate(DType::F32, t.shape, MemoryUse::Temporaries);
        const Tensor exact = wide.view(DType::F32, t.shape);
        backend_.copy(t, exact);
        return {exact.as<float>(), exact.as<float>() + exact.elements()};
    }
    void clear() { memory_.clear(); }
    ~Bench() { memory_.clear(); }

  private:
    CpuBackend backend_;
    std::vector<Buffer> memory_;
    Prng prng_{11};
};

inline void expect_near(const Doubles& got, const Doubles& expected, double absolute, double relative,
                        const char* what) {
    ASSERT_EQ(got.size(), expected.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], expected[i], absolute + relative * std::abs(expected[i])) << what << " at " << i;
}

class KernelTest : public ::testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        if (kernels_named(GetParam()) == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
    }
    const Kernels& kernels() { return *kernels_named(GetParam()); }
};

inline auto isa_name() {
    return [](const auto& test) { return std::string(test.param); };
}

}  // namespace tw::cpu

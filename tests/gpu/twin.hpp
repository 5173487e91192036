// The same tensors on the CPU's backend and on the device under test, and the comparison of what both made of
// them. Where the device computes in fp16, which the CPU's kernels do not have, the CPU's side is fp32 with
// values that fp16 holds.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "real_exec/backend/backend.hpp"
#include "real_exec/checkpoint/float_convert.hpp"
#include "tests/gpu/device_under_test.hpp"

namespace tw::testing {

// One tensor on both sides: [0] the CPU's, [1] the device's.
struct Both {
    std::array<Buffer, 2> buffers;
    std::array<Tensor, 2> tensors;
    const Tensor& operator[](int side) const { return tensors[static_cast<std::size_t>(side)]; }
    [[nodiscard]] MatrixView matrix(int side) const { return MatrixView::of((*this)[side]); }
    [[nodiscard]] MatrixView columns(int side, std::int64_t begin, std::int64_t count) const {
        return matrix(side).columns(begin, count);
    }
};

class Twin : public ::testing::TestWithParam<DType> {
  protected:
    void SetUp() override {
        std::string why;
        device = make_device_under_test(why);
        if (device == nullptr) GTEST_SKIP() << "NO GPU TEST WAS RUN: " << why;
        cpu = make_cpu_backend();
    }
    // One device for all of a process's tests would hide what a test leaves behind; each has its own.
    std::unique_ptr<Backend> cpu, device;

    static DType cpu_type(DType dtype) { return dtype == DType::F16 ? DType::F32 : dtype; }

    Both make(DType dtype, const Shape& shape, const std::function<double(std::uint64_t)>& value) {
        const auto n = static_cast<std::size_t>(shape.elements());
        std::vector<float> values(n);
        for (std::size_t i = 0; i < n; ++i)
            values[i] = static_cast<float>(value(i));
        Both both;
        for (int side = 0; side < 2; ++side) {
            const DType own = side == 0 ? cpu_type(dtype) : dtype;
            Backend& backend = side == 0 ? *cpu : *device;
            both.buffers[static_cast<std::size_t>(side)] =
                backend.allocate(own, shape, MemoryUse::Temporaries);
            Tensor& tensor = both.tensors[static_cast<std::size_t>(side)];
            tensor = both.buffers[static_cast<std::size_t>(side)].view(own, shape);
            // Through the narrow type on both sides.
            std::vector<std::byte> narrow(n * bytes_of(dtype)), bytes(n * bytes_of(own));
            convert_elements(values.data(), DType::F32, narrow.data(), dtype, static_cast<std::int64_t>(n));
            convert_elements(narrow.data(), dtype, bytes.data(), own, static_cast<std::int64_t>(n));
            backend.copy_from_host(tensor, bytes.data());
            backend.synchronize();
        }
        return both;
    }
    Both random(DType dtype, const Shape& shape, double scale = 1, double mean = 0) {
        const std::uint64_t stream = ++streams_;
        return make(dtype, shape, [=](std::uint64_t i) {
            const double u = static_cast<double>(counter_random(7, stream, i) >> 11U) * 0x1.0p-53;
            const double v = static_cast<double>(counter_random(8, stream, i) >> 11U) * 0x1.0p-53;
            return mean + scale * std::sqrt(-2 * std::log(1 - u)) * std::cos(6.283185307179586 * v);
        });
    }
    Both zeros(DType dtype, const Shape& shape) {
        return make(dtype, shape, [](std::uint64_t) { return 0.0; });
    }
    Both integers(const Shape& shape, const std::function<std::int32_t(std::size_t)>& value) {
        std::vector<std::int32_t> values(static_cast<std::size_t>(shape.elements()));
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = value(i);
        Both both;
        for (int side = 0; side < 2; ++side) {
            Backend& backend = side == 0 ? *cpu : *device;
            const auto s = static_cast<std::size_t>(side);
            both.buffers[s] = backend.allocate(DType::I32, shape, MemoryUse::Temporaries);
            both.tensors[s] = both.buffers[s].view(DType::I32, shape);
            backend.copy_from_host(both.tensors[s], values.data());
            backend.synchronize();
        }
        return both;
    }

    // body(backend, side) on both.
    void on_both(const std::function<void(Backend&, int)>& body) {
        body(*cpu, 0);
        body(*device, 1);
        device->synchronize();
    }

    std::vector<double> values(const Both& both, int side) {
        Backend& backend = side == 0 ? *cpu : *device;
        const Tensor& tensor = both[side];
        const auto n = static_cast<std::size_t>(tensor.elements());
        std::vector<std::byte> bytes(tensor.bytes());
        backend.copy_to_host(bytes.data(), tensor);
        std::vector<double> out(n);
        if (tensor.dtype == DType::I32) {
            const auto* p = reinterpret_cast<const std::int32_t*>(bytes.data());
            for (std::size_t i = 0; i < n; ++i)
                out[i] = p[i];
            return out;
        }
        std::vector<float> floats(n);
        convert_elements(bytes.data(), tensor.dtype, floats.data(), DType::F32, static_cast<std::int64_t>(n));
        for (std::size_t i = 0; i < n; ++i)
            out[i] = static_cast<double>(floats[i]);
        return out;
    }
    // The largest difference is at most `tolerance` of the largest value.
    void expect_same(const Both& both, double tolerance, const std::string& what) {
        const std::vector<double> expected = values(both, 0), got = values(both, 1);
        double largest = 0, worst = 0;
        std::size_t where = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
            largest = std::max(largest, std::abs(expected[i]));
            const double error = std::abs(got[i] - expected[i]);
            if (!(error <= worst)) {
                worst = error;
                where = i;
            }
        }
        EXPECT_TRUE(worst <= tolerance * std::max(largest, 1e-30))
            << what << ": element " << where << " is " << got[where] << ", the CPU has " << expected[where]
            << " (largest " << largest << ")";
    }
    // Rounding of the type, and of sums in another order.
    static double tolerance(DType dtype) {
        return dtype == DType::F32 ? 2e-5 : dtype == DType::BF16 ? 1.5e-2 : 3e-3;
    }

  private:
    std::uint64_t streams_ = 0;
};

inline std::string type_name(const ::testing::TestParamInfo<DType>& info) {
    return std::string(to_string(info.param));
}

}  // namespace tw::testing

#include <vector>

#include <gtest/gtest.h>

#include "real_exec/backend/cuda/cuda_backend.hpp"
#include "tests/gpu/device_under_test.hpp"

namespace tw::testing {

std::unique_ptr<Backend> make_device_under_test(std::string&) {
    return std::make_unique<cuda::CudaBackend>(*cuda::open_device(0), false);
}

namespace {

// There are as many events as moments at one time, however many there have been.
TEST(DeviceClock, UsesItsEventsAgain) {
    cuda::DeviceClock clock;
    EXPECT_FALSE(clock.aligned());
    clock.align(nullptr);
    const int of_alignment = clock.events();
    EXPECT_LE(of_alignment, 2);
    for (int i = 0; i < 100; ++i)
        EXPECT_TRUE(clock.record(nullptr)->time());
    EXPECT_EQ(clock.events(), of_alignment);
    std::vector<std::unique_ptr<Moment>> held;
    for (int i = 0; i < 10; ++i)
        held.push_back(clock.record(nullptr));
    EXPECT_EQ(clock.events(), 11);  // and the one that they are held against
    clock.align(nullptr);
    held.clear();
    clock.align(nullptr);
    EXPECT_LE(clock.events(), 13);
}

}  // namespace
}  // namespace tw::testing

#include "real_exec/backend/make_backend.hpp"

#include <cstdlib>

#include <gtest/gtest.h>

namespace tw {
namespace {

TEST(MakeBackend, CpuByName) {
    const auto backend = make_backend("cpu");
    ASSERT_TRUE(backend) << to_string(backend.errors());
    EXPECT_EQ((*backend)->name(), "cpu");
    EXPECT_TRUE((*backend)->host_memory());
    EXPECT_FALSE((*backend)->holds(backend->get()));
}

TEST(MakeBackend, UnknownNamesListTheKnownOnes) {
    const auto backend = make_backend("tpu");
    ASSERT_FALSE(backend);
    EXPECT_EQ(to_string(backend.errors()), "backend: unknown backend 'tpu' (hint: cpu, cuda)");
}

TEST(MakeBackend, ARankTakesTheGpuOfItsNumberOrTheOnlyOne) {
    EXPECT_EQ(visible_device(3, 8, false), 3);
    EXPECT_EQ(visible_device(3, 1, false), 0);  // the launcher shows each rank its own
    EXPECT_EQ(visible_device(3, 2, false), 3);  // the device's own message says that there are two
    EXPECT_EQ(visible_device(3, 2, true), 1);
    EXPECT_EQ(visible_device(3, 0, true), 3);
}

TEST(MakeBackend, AMissingModuleIsNamed) {
    ::setenv("TRAINWRIGHT_CUDA_MODULE", "/nowhere/libtrainwright_cuda.so", 1);
    const auto backend = make_backend("cuda");
    ::unsetenv("TRAINWRIGHT_CUDA_MODULE");
    ASSERT_FALSE(backend);
    EXPECT_NE(
        to_string(backend.errors()).find("no CUDA module: /nowhere/libtrainwright_cuda.so is not there"),
        std::string::npos)
        << to_string(backend.errors());
    const Status present = backend_present("cuda");
    ASSERT_FALSE(present);
    EXPECT_EQ(to_string(present.errors()), to_string(backend.errors()));
    EXPECT_TRUE(backend_present("cpu"));
}

}  // namespace
}  // namespace tw

#include "models/hardware/cluster.hpp"

#include <gtest/gtest.h>

namespace tw {
namespace {

TEST(LoadCluster, H100IsADgxWithOneNicPerDevice) {
    const auto cluster = load_cluster("h100:64");
    ASSERT_TRUE(cluster.has_value());
    EXPECT_EQ(cluster->devices(), 64);
}

}  // namespace
}  // namespace tw

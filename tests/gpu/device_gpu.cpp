#include <iostream>

#include <gtest/gtest.h>

#include "real_exec/backend/make_backend.hpp"
#include "tests/gpu/device_under_test.hpp"

namespace tw::testing {

std::unique_ptr<Backend> make_device_under_test(std::string& why) {
    Result<std::unique_ptr<Backend>> made = make_backend("cuda");
    if (made) return std::move(*made);
    why = to_string(made.errors());
    return nullptr;
}

}  // namespace tw::testing

// 77: every test was skipped.
int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    const int failed = RUN_ALL_TESTS();
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    if (failed != 0 || all.successful_test_count() > 0 || all.skipped_test_count() == 0) return failed;
    std::cerr << "NO GPU TEST WAS RUN\n";
    return 77;
}

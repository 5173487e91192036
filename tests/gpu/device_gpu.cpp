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

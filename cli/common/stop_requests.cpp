#include "cli/common/stop_requests.hpp"

#include <ctime>

namespace tw::cli {

StopRequests::Kind StopRequests::note() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    constexpr std::int64_t kSecond_ns = 1'000'000'000;
    const std::int64_t now_ns = std::int64_t{now.tv_sec} * kSecond_ns + now.tv_nsec;
    std::int64_t first_ns = 0;
    if (first_ns_.compare_exchange_strong(first_ns, now_ns)) return Kind::First;
    const auto one_request_ns = static_cast<std::int64_t>(kOneRequest_s * static_cast<double>(kSecond_ns));
    return now_ns - first_ns <= one_request_ns ? Kind::Repeated : Kind::Again;
}

}  // namespace tw::cli

#include "real_exec/runtime/clock.hpp"

#include <array>
#include <limits>

namespace tw {
namespace {

constexpr int kRounds = 16;
constexpr int kTag = 30001;

Tensor as_words(double& value) {
    return {&value, DType::I32, Shape{2}};
}

}  // namespace

Result<ClockOffset> measure_clock_offset(Communicator& group, const RunClock& clock) {
    ClockOffset best;
    if (group.size() == 1) return best;
    best.uncertainty_s = std::numeric_limits<double>::infinity();
    const auto exchange = [&](double& own, int peer, bool first) -> Status {
        for (const bool sending : {first, !first}) {
            const Status done = sending ? group.send(as_words(own), peer, kTag)->wait()
                                        : group.receive(as_words(own), peer, kTag)->wait();
            if (!done) return done;
        }
        return ok();
    };
    if (group.rank() == 0) {
        for (int peer = 1; peer < group.size(); ++peer) {
            for (int round = 0; round < kRounds; ++round) {
                double token = 0;
                if (Status got = group.receive(as_words(token), peer, kTag)->wait(); !got)
                    return got.errors();
                double now = clock.seconds();
                if (Status sent = group.send(as_words(now), peer, kTag)->wait(); !sent) return sent.errors();
            }
        }
        return ClockOffset{};
    }
    for (int round = 0; round < kRounds; ++round) {
        double token = 0;
        const double before = clock.seconds();
        if (Status done = exchange(token, 0, true); !done) return done.errors();
        const double after = clock.seconds();
        const double half = (after - before) / 2;
        if (half < best.uncertainty_s) best = {token - (before + half), half};
    }
    return best;
}

}  // namespace tw

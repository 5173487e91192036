#include "real_exec/backend/cuda/device_clock.hpp"

#include <chrono>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "real_exec/backend/cuda/runtime_api.hpp"

namespace tw::cuda {
namespace {

constexpr int kRounds = 4;

HostTime::duration seconds(double s) {
    return std::chrono::duration_cast<HostTime::duration>(std::chrono::duration<double>(s));
}

}  // namespace

struct DeviceClock::Pool {
    std::vector<StreamEvent> free;
    int made = 0;

    Pool() = default;
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;
    ~Pool() {
        for (const StreamEvent event : free)
            destroy_event(event);
    }
};

// One of the pool's, for its lifetime.
class DeviceClock::Event {
  public:
    explicit Event(Pool& pool) : pool_(pool) {
        if (pool.free.empty()) {
            event_ = make_timed_event();
            ++pool.made;
            return;
        }
        event_ = pool.free.back();
        pool.free.pop_back();
    }
    ~Event() { pool_.free.push_back(event_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    [[nodiscard]] StreamEvent get() const { return event_; }

  private:
    Pool& pool_;
    StreamEvent event_ = nullptr;
};

struct DeviceClock::Base {
    explicit Base(Pool& pool) : event(pool) {}
    Event event;
    HostTime time;             // of the event
    HostTime::duration round;  // the host's, around the event
};

class DeviceClock::Point final : public Moment {
  public:
    Point(Pool& pool, std::shared_ptr<Base> base, Stream stream) : base_(std::move(base)), event_(pool) {
        cuda::record(event_.get(), stream);
    }
    [[nodiscard]] std::optional<HostTime> time() override {
        if (!time_ && has_happened(event_.get()))
            time_ = base_->time + seconds(elapsed_s(base_->event.get(), event_.get()));
        return time_;
    }

  private:
    std::shared_ptr<Base> base_;
    Event event_;
    std::optional<HostTime> time_;
};

DeviceClock::DeviceClock() : pool_(std::make_unique<Pool>()) {}
DeviceClock::~DeviceClock() = default;

void DeviceClock::align(Stream stream) {
    synchronize(stream);
    std::shared_ptr<Base> best;
    for (int round = 0; round < kRounds; ++round) {
        auto base = std::make_shared<Base>(*pool_);
        const HostTime before = std::chrono::steady_clock::now();
        cuda::record(base->event.get(), stream);
        synchronize(stream);
        base->round = std::chrono::steady_clock::now() - before;
        base->time = before + base->round / 2;
        if (best == nullptr || base->round < best->round) best = std::move(base);
    }
    base_ = std::move(best);
}

bool DeviceClock::aligned() const {
    return base_ != nullptr;
}

std::unique_ptr<Moment> DeviceClock::record(Stream stream) {
    TW_CHECK_MSG(aligned(), "a moment before the clocks were aligned");
    return std::make_unique<Point>(*pool_, base_, stream);
}

int DeviceClock::events() const {
    return pool_->made;
}

}  // namespace tw::cuda

#include "real_exec/runtime/lanes.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "real_exec/runtime/compressed_reduce.hpp"
#include "real_exec/runtime/driven_communicator.hpp"
#include "real_exec/runtime/gather.hpp"
#include "tests/real_exec/runtime/failing_group.hpp"

namespace tw {
namespace {

using testing::ended_by;
using testing::FailingGroup;

class OneLane final : public LaneHandler {
  public:
    explicit OneLane(Communicator& group) : group_(group) {}
    std::vector<RequestPtr> start(std::uint32_t) override {
        std::vector<RequestPtr> requests;
        requests.push_back(group_.all_reduce({}));
        return requests;
    }
    void complete(std::uint32_t) override { ++completed; }
    int completed = 0;

  private:
    Communicator& group_;
};

struct Rank {
    explicit Rank(double watchdog_s)
        : handler(group), lanes(transport, clock, handler, "rank 0", watchdog_s) {
        Instruction in;
        in.opcode = Opcode::AllReduce;
        in.stream = Stream::Dp;
        program.instructions = {in};
        program.wait_begin = {0, 0};
        lanes.begin(program, 7);
    }
    testing::ThrowingTransport transport;
    FailingGroup group;
    RunClock clock;
    OneLane handler;
    RankProgram program;
    Lanes lanes;
};

TEST(Lanes, AFailedTransferEndsTheRun) {
    Rank rank(60);
    EXPECT_EQ(ended_by([&] {
                  rank.lanes.enqueue(0);
                  rank.lanes.drain();
              }),
              "rank 0, step 7: the network: the cable is cut");
    EXPECT_EQ(rank.handler.completed, 0);
}

TEST(Lanes, AFailedRequestEndsTheRun) {
    Rank rank(60);
    const RequestPtr failed = rank.group.all_reduce({});
    EXPECT_NE(ended_by([&] { rank.lanes.wait(*failed, "figures"); }), "");
    const auto driven = drive(rank.group, rank.lanes);
    EXPECT_NE(ended_by([&] { (void)driven->all_reduce({})->wait(); }), "");
    EXPECT_NE(ended_by([&] { (void)driven->all_reduce({})->test(); }), "");
    GatheredNumbers figures(rank.group, {1.0});
    EXPECT_NE(ended_by([&] { (void)rank.lanes.completed(figures.request()); }), "");
}

TEST(Lanes, AChainStopsAtWhatFails) {
    FailingGroup group;
    int begun = 0;
    const auto next = [&] {
        ++begun;
        return group.all_reduce({});
    };
    const RequestPtr chain = chain_operations({next, next});
    EXPECT_TRUE(chain->test());
    EXPECT_FALSE(chain->wait());
    EXPECT_EQ(begun, 1);
}

// A program of several steps: the message is of the step that the instruction belongs to.
TEST(Lanes, NamesTheStepOfTheInstruction) {
    Rank rank(60);
    rank.lanes.events()[0].step = 9;
    EXPECT_EQ(rank.lanes.step(), 9);
    EXPECT_EQ(ended_by([&] {
                  rank.lanes.enqueue(0);
                  rank.lanes.drain();
              }),
              "rank 0, step 9: the network: the cable is cut");
}

TEST(Lanes, GivesUpAtTheStepOfTheInstruction) {
    Rank rank(0.05);
    rank.lanes.events()[0].step = 9;
    const std::string said =
        ended_by([&] { rank.lanes.wait_until([] { return false; }, "the end of the step"); });
    EXPECT_EQ(said.rfind("rank 0, step 9: nothing has happened for 0 s while it waits for the end", 0), 0U)
        << said;
}

class SlowRequest final : public Request {
  public:
    explicit SlowRequest(int polls) : polls_(polls) {}
    bool test() override { return --polls_ <= 0; }
    Status wait() override {
        polls_ = 0;
        return ok();
    }

  private:
    int polls_;
};

class SlowLane final : public LaneHandler {
  public:
    std::vector<RequestPtr> start(std::uint32_t) override {
        std::vector<RequestPtr> requests;
        requests.push_back(std::make_unique<SlowRequest>(50));
        return requests;
    }
    void complete(std::uint32_t) override { ++completed; }
    int completed = 0;
};

// Transfers come to their end while a device computes, and that time counts as computation.
TEST(Lanes, GoOnWhileADeviceComputes) {
    testing::ThrowingTransport transport;
    RunClock clock;
    SlowLane handler;
    Lanes lanes(transport, clock, handler, "rank 0", 60);
    RankProgram program;
    Instruction transfer;
    transfer.opcode = Opcode::AllReduce;
    transfer.stream = Stream::Dp;
    program.instructions = {transfer, Instruction{}};
    program.wait_begin = {0, 0, 0};
    lanes.begin(program, 0);
    lanes.enqueue(0);
    lanes.host_started(1);
    ASSERT_EQ(handler.completed, 0);
    const double waited = lanes.waited_s(), until = clock.seconds() + 0.3;
    lanes.compute_until([&] { return clock.seconds() > until; });
    EXPECT_EQ(handler.completed, 1);
    EXPECT_EQ(lanes.waited_s(), waited);
    lanes.host_finished(1);
    lanes.drain();
}

using namespace std::chrono_literals;

// An operation of a device, which the host sees 3 ms after its end; without times the host's own.
class DeviceRequest final : public Request {
  public:
    explicit DeviceRequest(std::optional<DeviceTimes> times) : times_(times) {}
    bool test() override { return !times_ || std::chrono::steady_clock::now() > times_->end + 3ms; }
    Status wait() override { return ok(); }
    [[nodiscard]] std::optional<DeviceTimes> device_times() const override { return times_; }

  private:
    std::optional<DeviceTimes> times_;
};

class DeviceLane final : public LaneHandler {
  public:
    std::vector<RequestPtr> start(std::uint32_t index) override {
        asked = std::chrono::steady_clock::now();
        std::vector<RequestPtr> requests;
        requests.push_back(std::make_unique<DeviceRequest>(DeviceTimes{asked + 2ms, asked + 4ms}));
        if (index == 0)
            requests.push_back(std::make_unique<DeviceRequest>(DeviceTimes{asked + 1ms, asked + 6ms}));
        if (index == 1) requests.push_back(std::make_unique<DeviceRequest>(std::nullopt));
        return requests;
    }
    void complete(std::uint32_t) override {}
    HostTime asked;
};

// Events hold when the device began and ended; they arrive when the host asked for them.
TEST(Lanes, TimesOfADevice) {
    testing::ThrowingTransport transport;
    RunClock clock;
    DeviceLane handler;
    Lanes lanes(transport, clock, handler, "rank 0", 60);
    RankProgram program;
    Instruction transfer;
    transfer.opcode = Opcode::AllReduce;
    transfer.stream = Stream::Dp;
    program.instructions = {transfer, transfer, Instruction{}, Instruction{}};
    program.wait_begin = {0, 0, 0, 0, 0};
    lanes.begin(program, 0);
    lanes.enqueue(0);
    lanes.drain();
    const TraceEvent& transfers = lanes.events()[0];  // from the first one's start to the last one's end
    EXPECT_EQ(transfers.start, clock.at(handler.asked + 1ms));
    EXPECT_EQ(transfers.end, clock.at(handler.asked + 6ms));
    EXPECT_LE(transfers.arrival, clock.at(handler.asked));

    lanes.enqueue(1);
    lanes.drain();
    const TraceEvent& mixed = lanes.events()[1];  // one of its operations is the host's: so is the event
    EXPECT_EQ(mixed.start, mixed.arrival);
    EXPECT_GT(mixed.end, clock.at(handler.asked + 7ms));

    lanes.wait_for_dependencies(2);
    lanes.host_started(2);
    const HostTime asked = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(10ms);
    lanes.host_finished(2, DeviceTimes{asked + 2ms, asked + 6ms});
    const TraceEvent& compute = lanes.events()[2];
    EXPECT_EQ(compute.start, clock.at(asked + 2ms));
    EXPECT_EQ(compute.end, clock.at(asked + 6ms));
    EXPECT_LE(compute.arrival, clock.at(asked));

    // Clocks that differ by a little: nothing runs before it is asked for.
    lanes.wait_for_dependencies(3);
    lanes.host_started(3);
    lanes.host_finished(3, DeviceTimes{asked - 2ms, asked - 1ms});
    EXPECT_EQ(lanes.events()[3].start, lanes.events()[3].arrival);
    EXPECT_EQ(lanes.events()[3].end, lanes.events()[3].start);
}

// The watchdog's thread gives five seconds beside its own time.
TEST(Lanes, NoWatchdogEndsARest) {
    Rank rank(0.1);
    const auto begin = std::chrono::steady_clock::now();
    rank.lanes.host_started(0);  // the watchdog counts from here
    rank.lanes.rest_until([&] { return std::chrono::steady_clock::now() - begin > std::chrono::seconds(6); });
    EXPECT_LT(rank.lanes.waited_s(), 1);  // a disk is no communication
}

}  // namespace
}  // namespace tw

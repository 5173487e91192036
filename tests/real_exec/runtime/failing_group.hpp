// A group whose operations all fail, and a transport whose abort() throws: what ends a run, inside a test.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "real_exec/comm/communicator.hpp"

namespace tw::testing {

class FailedRequest final : public Request {
  public:
    bool test() override { return true; }
    Status wait() override { return Error{ErrorCode::Failure, "the cable is cut", "the network", ""}; }
};

class FailingGroup final : public Communicator {
  public:
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] int size() const override { return 2; }
    [[nodiscard]] std::span<const int> global_ranks() const override { return ranks_; }
    [[nodiscard]] std::string_view name() const override { return "dp"; }
    RequestPtr all_reduce(const Tensor&) override { return failed(); }
    RequestPtr all_reduce_max(const Tensor&) override { return failed(); }
    RequestPtr reduce_scatter(const Tensor&, const Tensor&) override { return failed(); }
    RequestPtr all_gather(const Tensor&, const Tensor&) override { return failed(); }
    RequestPtr broadcast(const Tensor&, int) override { return failed(); }
    RequestPtr all_to_all(const Tensor&, std::span<const std::int64_t>, const Tensor&,
                          std::span<const std::int64_t>) override {
        return failed();
    }
    RequestPtr send(const Tensor&, int, int) override { return failed(); }
    RequestPtr receive(const Tensor&, int, int) override { return failed(); }
    Status barrier() override { return failed()->wait(); }

  private:
    static RequestPtr failed() { return std::make_unique<FailedRequest>(); }
    std::vector<int> ranks_ = {0, 1};
};

class ThrowingTransport final : public Transport {
  public:
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] int size() const override { return 2; }
    Result<std::unique_ptr<Communicator>> create(std::string, std::span<const int>) override {
        return std::unique_ptr<Communicator>(std::make_unique<FailingGroup>());
    }
    void progress() override {}
    [[noreturn]] void abort(int, std::string_view message) override {
        throw std::runtime_error(std::string(message));
    }
};

// With what message `work` ended the run; empty: it did not.
inline std::string ended_by(const std::function<void()>& work) {
    try {
        work();
    } catch (const std::runtime_error& ended) {
        return ended.what();
    }
    return "";
}

}  // namespace tw::testing

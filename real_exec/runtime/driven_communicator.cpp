#include "real_exec/runtime/driven_communicator.hpp"

#include <string>

namespace tw {
namespace {

class DrivenRequest final : public Request {
  public:
    DrivenRequest(RequestPtr request, Lanes& lanes, std::string name)
        : request_(std::move(request)), lanes_(&lanes), name_(std::move(name)) {}
    bool test() override { return lanes_->completed(*request_); }
    Status wait() override {
        lanes_->wait(*request_, name_.c_str());
        return ok();
    }
    [[nodiscard]] std::optional<DeviceTimes> device_times() const override {
        return request_->device_times();
    }
    [[nodiscard]] std::string waiting_for() const override { return request_->waiting_for(); }

  private:
    RequestPtr request_;
    Lanes* lanes_;
    std::string name_;
};

class DrivenCommunicator final : public Communicator {
  public:
    DrivenCommunicator(Communicator& inner, Lanes& lanes) : inner_(inner), lanes_(lanes) {}
    [[nodiscard]] int rank() const override { return inner_.rank(); }
    [[nodiscard]] int size() const override { return inner_.size(); }
    [[nodiscard]] std::span<const int> global_ranks() const override { return inner_.global_ranks(); }
    [[nodiscard]] std::string_view name() const override { return inner_.name(); }

    RequestPtr all_reduce(const Tensor& t) override { return driven(inner_.all_reduce(t)); }
    RequestPtr all_reduce_max(const Tensor& t) override { return driven(inner_.all_reduce_max(t)); }
    RequestPtr reduce_scatter(const Tensor& whole, const Tensor& own) override {
        return driven(inner_.reduce_scatter(whole, own));
    }
    RequestPtr all_gather(const Tensor& own, const Tensor& whole) override {
        return driven(inner_.all_gather(own, whole));
    }
    RequestPtr broadcast(const Tensor& t, int root) override { return driven(inner_.broadcast(t, root)); }
    RequestPtr all_to_all(const Tensor& send, std::span<const std::int64_t> send_elements,
                          const Tensor& receive, std::span<const std::int64_t> receive_elements) override {
        return driven(inner_.all_to_all(send, send_elements, receive, receive_elements));
    }
    RequestPtr send(const Tensor& t, int to, int tag) override { return driven(inner_.send(t, to, tag)); }
    RequestPtr receive(const Tensor& t, int from, int tag) override {
        return driven(inner_.receive(t, from, tag));
    }
    Status barrier() override { return inner_.barrier(); }

  private:
    RequestPtr driven(RequestPtr request) {
        return std::make_unique<DrivenRequest>(std::move(request), lanes_,
                                               "the layers' " + std::string(inner_.name()) + " collective");
    }
    Communicator& inner_;
    Lanes& lanes_;
};

}  // namespace

std::unique_ptr<Communicator> drive(Communicator& communicator, Lanes& lanes) {
    return std::make_unique<DrivenCommunicator>(communicator, lanes);
}

}  // namespace tw

#include "real_exec/comm/staged/staged_transport.hpp"

#include <cstdlib>
#include <utility>

namespace tw {
namespace {

// One operation's tensors as the host sees them.
class Copies {
  public:
    explicit Copies(Backend& backend) : backend_(backend) {}

    // The tensor itself where the host can reach it, else a copy. read: its values are needed; result: they
    // come back.
    Tensor take(const Tensor& tensor, bool read, bool result) {
        if (!backend_.holds(tensor.data) || tensor.bytes() == 0) return tensor;
        Copy copy{tensor, std::make_unique_for_overwrite<std::byte[]>(tensor.bytes()), result};
        if (read) backend_.copy_to_host(copy.host.get(), tensor);
        copies_.push_back(std::move(copy));
        return {copies_.back().host.get(), tensor.dtype, tensor.shape};
    }
    void give_back() {
        for (const Copy& copy : copies_) {
            if (copy.result) backend_.copy_from_host(copy.device, copy.host.get());
        }
        copies_.clear();
    }

  private:
    struct Copy {
        Tensor device;
        std::unique_ptr<std::byte[]> host;
        bool result = false;
    };
    Backend& backend_;
    std::vector<Copy> copies_;
};

class StagedRequest final : public Request {
  public:
    StagedRequest(RequestPtr inner, Copies copies) : inner_(std::move(inner)), copies_(std::move(copies)) {}
    bool test() override {
        if (!done_ && inner_->test()) (void)wait();
        return done_;
    }
    Status wait() override {
        if (done_) return outcome_;
        (void)(outcome_ = inner_->wait());
        if (outcome_) copies_.give_back();
        done_ = true;
        return outcome_;
    }
    [[nodiscard]] std::string waiting_for() const override { return inner_->waiting_for(); }

  private:
    RequestPtr inner_;
    Copies copies_;
    bool done_ = false;
    Status outcome_ = ok();
};

class StagedCommunicator final : public Communicator {
  public:
    StagedCommunicator(std::unique_ptr<Communicator> inner, Backend& backend)
        : inner_(std::move(inner)), backend_(backend) {}
    [[nodiscard]] int rank() const override { return inner_->rank(); }
    [[nodiscard]] int size() const override { return inner_->size(); }
    [[nodiscard]] std::span<const int> global_ranks() const override { return inner_->global_ranks(); }
    [[nodiscard]] std::string_view name() const override { return inner_->name(); }

    RequestPtr all_reduce(const Tensor& t) override {
        Copies copies(backend_);
        const Tensor here = copies.take(t, true, true);
        return staged(inner_->all_reduce(here), std::move(copies));
    }
    RequestPtr all_reduce_max(const Tensor& t) override {
        Copies copies(backend_);
        const Tensor here = copies.take(t, true, true);
        return staged(inner_->all_reduce_max(here), std::move(copies));
    }
    RequestPtr reduce_scatter(const Tensor& whole, const Tensor& own) override {
        Copies copies(backend_);
        const Tensor from = copies.take(whole, true, false);
        const Tensor to = copies.take(own, false, true);
        return staged(inner_->reduce_scatter(from, to), std::move(copies));
    }
    RequestPtr all_gather(const Tensor& own, const Tensor& whole) override {
        Copies copies(backend_);
        const Tensor from = copies.take(own, true, false);
        const Tensor to = copies.take(whole, false, true);
        return staged(inner_->all_gather(from, to), std::move(copies));
    }
    RequestPtr broadcast(const Tensor& t, int root) override {
        Copies copies(backend_);
        const Tensor here = copies.take(t, root == rank(), root != rank());
        return staged(inner_->broadcast(here, root), std::move(copies));
    }
    RequestPtr all_to_all(const Tensor& send, std::span<const std::int64_t> send_elements,
                          const Tensor& receive, std::span<const std::int64_t> receive_elements) override {
        Copies copies(backend_);
        const Tensor from = copies.take(send, true, false);
        const Tensor to = copies.take(receive, false, true);
        return staged(inner_->all_to_all(from, send_elements, to, receive_elements), std::move(copies));
    }
    RequestPtr send(const Tensor& t, int to, int tag) override {
        Copies copies(backend_);
        const Tensor here = copies.take(t, true, false);
        return staged(inner_->send(here, to, tag), std::move(copies));
    }
    RequestPtr receive(const Tensor& t, int from, int tag) override {
        Copies copies(backend_);
        const Tensor here = copies.take(t, false, true);
        return staged(inner_->receive(here, from, tag), std::move(copies));
    }
    Status barrier() override { return inner_->barrier(); }

  private:
    // Copies move with their blocks: what the inner request points at stays where it is. They are taken ahead
    // of this call, whose arguments come in any order.
    static RequestPtr staged(RequestPtr inner, Copies copies) {
        return std::make_unique<StagedRequest>(std::move(inner), std::move(copies));
    }
    std::unique_ptr<Communicator> inner_;
    Backend& backend_;
};

class StagedTransport final : public Transport {
  public:
    StagedTransport(std::unique_ptr<Transport> inner, Backend& backend)
        : inner_(std::move(inner)), backend_(backend) {}
    [[nodiscard]] int rank() const override { return inner_->rank(); }
    [[nodiscard]] int size() const override { return inner_->size(); }
    Result<std::unique_ptr<Communicator>> create(std::string name, std::span<const int> ranks) override {
        auto made = inner_->create(std::move(name), ranks);
        if (!made) return made.errors();
        return std::unique_ptr<Communicator>(
            std::make_unique<StagedCommunicator>(std::move(*made), backend_));
    }
    void progress() override { inner_->progress(); }
    [[noreturn]] void abort(int exit_code, std::string_view message) override {
        inner_->abort(exit_code, message);
        std::_Exit(exit_code);
    }

  private:
    std::unique_ptr<Transport> inner_;
    Backend& backend_;
};

}  // namespace

std::unique_ptr<Transport> stage_through_host(std::unique_ptr<Transport> inner, Backend& backend) {
    return std::make_unique<StagedTransport>(std::move(inner), backend);
}

}  // namespace tw

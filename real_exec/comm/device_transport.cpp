#include "real_exec/comm/device_transport.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include <unistd.h>

#include "real_exec/backend/cuda_module.hpp"
#include "real_exec/comm/nccl/nccl_bootstrap.hpp"

namespace tw {
namespace {

// NCCL's transport with what it was started by; `inner` may be missing.
class StartedTransport final : public Transport {
  public:
    StartedTransport(std::unique_ptr<Transport> inner, std::unique_ptr<KeyValueStore> store,
                     std::unique_ptr<Transport> nccl)
        : inner_(std::move(inner)), store_(std::move(store)), nccl_(std::move(nccl)) {}
    [[nodiscard]] int rank() const override { return nccl_->rank(); }
    [[nodiscard]] int size() const override { return nccl_->size(); }
    Result<std::unique_ptr<Communicator>> create(std::string name, std::span<const int> ranks) override {
        return nccl_->create(std::move(name), ranks);
    }
    Result<std::unique_ptr<Communicator>> create_for_messages(std::string name, std::span<const int> ranks,
                                                              std::span<const Route> routes) override {
        return nccl_->create_for_messages(std::move(name), ranks, routes);
    }
    void progress() override { nccl_->progress(); }
    [[noreturn]] void abort(int exit_code, std::string_view message) override {
        if (inner_) inner_->abort(exit_code, message);
        nccl_->abort(exit_code, message);
        std::_Exit(exit_code);
    }

  private:
    std::unique_ptr<Transport> inner_;
    std::unique_ptr<KeyValueStore> store_;
    std::unique_ptr<Transport> nccl_;
};

Result<std::unique_ptr<Transport>> start(std::unique_ptr<Transport> inner,
                                         std::unique_ptr<KeyValueStore> store, int rank, int size,
                                         Backend& backend, double deadline_s) {
    const Result<const cuda::Module*> module = cuda::load_module();
    if (!module) return module.errors();
    if ((*module)->make_nccl == nullptr) {
        return Error{ErrorCode::Failure, "the CUDA module was built without NCCL", "nccl",
                     "build where nccl.h and libnccl are, or let transfers go through the host"};
    }
    cuda::NcclBootstrap bootstrap;
    bootstrap.rank = rank;
    bootstrap.size = size;
    bootstrap.store = store.get();
    bootstrap.deadline_s = deadline_s;
    auto nccl = (*module)->make_nccl(bootstrap, backend);
    if (!nccl) return nccl.errors();
    return std::unique_ptr<Transport>(
        std::make_unique<StartedTransport>(std::move(inner), std::move(store), std::move(*nccl)));
}

}  // namespace

int local_rank(const LauncherVariables& environment) {
    for (const char* name :
         {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID"}) {
        const char* text = environment(name);
        if (text == nullptr) continue;
        int value = 0;
        const auto [end, bad] = std::from_chars(text, text + std::strlen(text), value);
        if (bad == std::errc{} && *end == '\0' && value >= 0) return value;
    }
    return 0;
}

Result<std::unique_ptr<Transport>> nccl_by_environment(Backend& backend, const LauncherVariables& environment,
                                                       double deadline_s) {
    const Result<LaunchedRank> self = launched_rank(environment);
    if (!self) return self.errors();
    auto store = open_store(self->address, self->rank == 0, deadline_s);
    if (!store) return store.errors();
    return start(nullptr, std::move(*store), self->rank, self->size, backend, deadline_s);
}

Result<std::unique_ptr<Transport>> nccl_over(std::unique_ptr<Transport> inner, Backend& backend,
                                             double deadline_s) {
    std::vector<int> all(static_cast<std::size_t>(inner->size()));
    std::iota(all.begin(), all.end(), 0);
    auto world = inner->create("rendezvous", all);
    if (!world) return world.errors();
    // Host name, then the port: 0 where rank 0 cannot listen, which ends all ranks alike.
    struct Address {
        std::array<char, 252> host{};
        std::uint32_t port = 0;
    } address;
    static_assert(sizeof address == 256);
    std::unique_ptr<KeyValueStore> store;
    Errors failed;
    if (inner->rank() == 0) {
        ::gethostname(address.host.data(), address.host.size() - 1);
        auto opened = open_store({"0.0.0.0", 0}, true, deadline_s);
        if (opened) {
            store = std::move(*opened);
            address.port = port_of(*store);
        } else {
            failed = opened.errors();
        }
    }
    if (Status sent = (*world)->broadcast({&address, DType::I32, Shape{64}}, 0)->wait(); !sent)
        return sent.errors();
    if (!failed.empty()) return failed;
    if (address.port == 0)
        return Error{ErrorCode::Failure, "rank 0 cannot listen", "nccl", "its message says why"};
    if (inner->rank() != 0) {
        auto opened =
            open_store({address.host.data(), static_cast<std::uint16_t>(address.port)}, false, deadline_s);
        if (!opened) return opened.errors();
        store = std::move(*opened);
    }
    world->reset();
    const int rank = inner->rank(), size = inner->size();
    return start(std::move(inner), std::move(store), rank, size, backend, deadline_s);
}

}  // namespace tw

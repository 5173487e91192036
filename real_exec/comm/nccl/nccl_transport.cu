#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime.h>
#include <nccl.h>
#include <sched.h>

#include "real_exec/backend/cuda/cuda_backend.hpp"
#include "real_exec/comm/nccl/nccl_transport.hpp"

namespace tw::cuda {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

void require(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "CUDA: %s: %s\n", what, cudaGetErrorString(status));
    std::abort();
}

ncclDataType_t type_of(DType dtype) {
    switch (dtype) {
        case DType::F32:
            return ncclFloat32;
        case DType::BF16:
            return ncclBfloat16;
        case DType::F16:
            return ncclFloat16;
        case DType::I32:
            return ncclInt32;
    }
    return ncclFloat32;
}

// A non-blocking communicator's call goes on in the background: waits until it is through.
Status settle(ncclComm_t comm, ncclResult_t result, const std::string& what, double deadline_s) {
    const auto begin = Clock::now();
    while (result == ncclInProgress) {
        if (ncclCommGetAsyncError(comm, &result) != ncclSuccess) break;
        if (result != ncclInProgress) break;
        if (seconds_since(begin) > deadline_s) {
            return Error{ErrorCode::Failure,
                         what + " waits for " + std::to_string(static_cast<int>(deadline_s)) + " s", "nccl",
                         "is every rank of the group running?"};
        }
        sched_yield();
    }
    if (result == ncclSuccess) return ok();
    return Error{ErrorCode::Failure, what + ": " + ncclGetErrorString(result), "nccl",
                 ncclGetLastError(comm)};
}

// Its kernels go ahead of the blocks of a product that wait for multiprocessors: peers wait for them.
cudaStream_t urgent_stream() {
    int least = 0, greatest = 0;
    require(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream");
    cudaStream_t stream = nullptr;
    require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "stream");
    return stream;
}

constexpr double kClosing_s = 5;

// One NCCL communicator and the stream of its operations.
struct Channel {
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    bool failed = false;  // what is under way is given up

    Channel() = default;
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    ~Channel() {
        if (comm != nullptr) {
            // What does not come to its end is given up: destroying it would wait once more.
            const bool given_up = failed || std::uncaught_exceptions() > 0 ||
                                  !settle(comm, ncclCommFinalize(comm), "closing a communicator", kClosing_s);
            given_up ? ncclCommAbort(comm) : ncclCommDestroy(comm);
        }
        if (stream != nullptr) cudaStreamDestroy(stream);
    }
};

// Host memory that takes part through the device; `host`: where the result goes when the operation is done.
struct Staged {
    Buffer buffer;
    void* host = nullptr;
    std::size_t bytes = 0;
};

class NcclRequest final : public Request {
  public:
    NcclRequest(std::string what, Channel* channel, CudaBackend& backend, double deadline_s)
        : what_(std::move(what)), channel_(channel), backend_(backend), deadline_s_(deadline_s) {}
    ~NcclRequest() override {
        TW_CHECK_MSG(done_ || std::uncaught_exceptions() > 0,
                     "an NCCL request was dropped before it completed");
        if (event_ != nullptr) cudaEventDestroy(event_);
    }
    NcclRequest(const NcclRequest&) = delete;
    NcclRequest& operator=(const NcclRequest&) = delete;

    // Behind what the backend has been asked to compute so far. The channel's work before it is done then,
    // but its peers may not have come.
    void begin() {
        cudaEvent_t ready = nullptr;
        require(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming), "event");
        require(cudaEventRecord(ready, static_cast<cudaStream_t>(backend_.stream())), "event");
        require(cudaStreamWaitEvent(channel_->stream, ready, 0), "event");
        require(cudaEventDestroy(ready), "event");
        start_ = backend_.moment_on(channel_->stream);
    }
    void posted(Status status) {
        if (!status) {
            fail(std::move(status));
            return;
        }
        end_ = backend_.moment_on(channel_->stream);
        require(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "event");
        require(cudaEventRecord(event_, channel_->stream), "event");
    }
    // A group of one has no channel: what it copies is on the backend's own stream.
    void posted_alone() {
        copy_back();
        done_ = true;
    }

    // A tensor's place on the device: its own, or a copy's. `result`: it comes back when the operation is
    // done.
    void* place(const Tensor& tensor, bool result) {
        if (tensor.bytes() == 0 || is_device_memory(tensor.data)) return tensor.data;
        Staged staged;
        staged.buffer = backend_.allocate(tensor.bytes(), MemoryUse::CommunicationBuffers);
        staged.host = result ? tensor.data : nullptr;
        staged.bytes = tensor.bytes();
        copy_to_device(staged.buffer.data(), tensor.data, staged.bytes, backend_.stream());
        cuda::synchronize(backend_.stream());
        staged_.push_back(std::move(staged));
        return staged_.back().buffer.data();
    }

    bool test() override {
        if (done_) return true;
        ncclResult_t state = ncclSuccess;
        ncclCommGetAsyncError(channel_->comm, &state);
        if (state != ncclSuccess && state != ncclInProgress) {
            fail(Error{ErrorCode::Failure, what_ + ": " + ncclGetErrorString(state), "nccl",
                       ncclGetLastError(channel_->comm)});
            return true;
        }
        if (!has_happened(event_)) return false;
        // On the backend's stream: a copy on the channel's would wait for all that was posted behind this.
        copy_back();
        done_ = true;
        return true;
    }
    Status wait() override {
        const auto begin = Clock::now();
        for (int spins = 0; !test(); ++spins) {
            if (spins % 16 == 15) sched_yield();
            if (spins % 1024 == 1023 && seconds_since(begin) > deadline_s_) {
                fail(Error{ErrorCode::Failure,
                           what_ + " waits for " + std::to_string(static_cast<int>(deadline_s_)) + " s",
                           "nccl", "a rank of the group has not posted it"});
            }
        }
        return failed_;
    }
    [[nodiscard]] std::optional<DeviceTimes> device_times() const override {
        if (!start_ || !end_) return std::nullopt;
        const std::optional<HostTime> start = start_->time(), end = end_->time();
        if (!start || !end) return std::nullopt;
        return DeviceTimes{*start, *end};
    }
    [[nodiscard]] std::string waiting_for() const override { return what_; }

  private:
    void fail(Status error) {
        done_ = true;
        channel_->failed = true;
        (void)(failed_ = std::move(error));
    }
    void copy_back() {
        for (const Staged& staged : staged_) {
            if (staged.host != nullptr)
                cuda::copy_to_host(staged.host, staged.buffer.data(), staged.bytes, backend_.stream());
        }
        staged_.clear();
    }

    std::string what_;
    Channel* channel_;
    CudaBackend& backend_;
    double deadline_s_;
    cudaEvent_t event_ = nullptr;
    std::unique_ptr<Moment> start_, end_;  // null: nobody asks
    std::vector<Staged> staged_;
    Status failed_ = ok();
    bool done_ = false;
};

class NcclCommunicator final : public Communicator {
  public:
    // `key`: this group's among all groups of the run.
    NcclCommunicator(std::string name, std::vector<int> ranks, int rank, CudaBackend& backend,
                     const NcclBootstrap& bootstrap, std::string key)
        : name_(std::move(name)),
          ranks_(std::move(ranks)),
          rank_(rank),
          backend_(backend),
          bootstrap_(bootstrap),
          key_(std::move(key)) {}

    Status connect() { return size() == 1 ? ok() : connect(collective_, "", rank_, size()); }
    // All members walk through the routes in the same order, so that nobody waits in a circle.
    Status open_routes(std::span<const Route> routes) {
        for (const Route& route : routes) {
            TW_CHECK(route.from != route.to);
            if (route.from != rank_ && route.to != rank_) continue;
            const auto [at, added] = routes_.try_emplace({route.from, route.to});
            if (!added) continue;
            std::string between(" ");
            between.append(std::to_string(route.from)).append(">").append(std::to_string(route.to));
            if (Status made = connect(at->second, between, route.from == rank_ ? 0 : 1, 2); !made)
                return made;
            // NCCL connects two ranks when both have posted their first message: later, that could be a
            // circle.
            float token = 0;
            const Tensor first{&token, DType::F32, Shape{1}};
            const RequestPtr met =
                route.from == rank_ ? send(first, route.to, 0) : receive(first, route.from, 0);
            if (Status done = met->wait(); !done) return done;
        }
        return ok();
    }

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return static_cast<int>(ranks_.size()); }
    [[nodiscard]] std::span<const int> global_ranks() const override { return ranks_; }
    [[nodiscard]] std::string_view name() const override { return name_; }

    RequestPtr all_reduce(const Tensor& t) override { return reduce(t, ncclSum, "all-reduce"); }
    RequestPtr all_reduce_max(const Tensor& t) override {
        TW_CHECK(t.dtype == DType::F32);
        return reduce(t, ncclMax, "all-reduce (max)");
    }
    RequestPtr reduce_scatter(const Tensor& whole, const Tensor& own) override {
        TW_CHECK(whole.elements() == own.elements() * size() && whole.dtype == own.dtype);
        return post("reduce-scatter", collective_, whole.bytes(), [&](NcclRequest& r) {
            void* from = r.place(whole, false);
            void* to = r.place(own, true);
            if (size() == 1) return copy(to, from, own.bytes());
            r.begin();
            return ncclReduceScatter(from, to, count(own), type_of(own.dtype), ncclSum, collective_.comm,
                                     collective_.stream);
        });
    }
    RequestPtr all_gather(const Tensor& own, const Tensor& whole) override {
        TW_CHECK(whole.elements() == own.elements() * size() && whole.dtype == own.dtype);
        return post("all-gather", collective_, whole.bytes(), [&](NcclRequest& r) {
            void* from = r.place(own, false);
            void* to = r.place(whole, true);
            if (size() == 1) return copy(to, from, own.bytes());
            r.begin();
            return ncclAllGather(from, to, count(own), type_of(own.dtype), collective_.comm,
                                 collective_.stream);
        });
    }
    RequestPtr broadcast(const Tensor& t, int root) override {
        return post("broadcast", collective_, t.bytes(), [&](NcclRequest& r) {
            void* at = r.place(t, true);
            if (size() == 1) return ncclSuccess;
            r.begin();
            return ncclBroadcast(at, at, count(t), type_of(t.dtype), root, collective_.comm,
                                 collective_.stream);
        });
    }
    RequestPtr all_to_all(const Tensor& send, std::span<const std::int64_t> send_elements,
                          const Tensor& receive, std::span<const std::int64_t> receive_elements) override {
        return post("all-to-all", collective_, send.bytes(), [&](NcclRequest& r) {
            auto* from = static_cast<std::byte*>(r.place(send, false));
            auto* to = static_cast<std::byte*>(r.place(receive, true));
            if (size() == 1) return copy(to, from, send.bytes());
            r.begin();
            const std::size_t element = bytes_of(send.dtype);
            ncclResult_t result = ncclGroupStart();
            for (std::size_t p = 0; p < ranks_.size(); ++p) {
                const auto out = static_cast<std::size_t>(send_elements[p]);
                const auto in = static_cast<std::size_t>(receive_elements[p]);
                const int peer = static_cast<int>(p);
                if (out > 0)
                    note(result, ncclSend(from, out, type_of(send.dtype), peer, collective_.comm,
                                          collective_.stream));
                if (in > 0)
                    note(result,
                         ncclRecv(to, in, type_of(send.dtype), peer, collective_.comm, collective_.stream));
                from += out * element;
                to += in * element;
            }
            note(result, ncclGroupEnd());
            return result;
        });
    }
    RequestPtr send(const Tensor& t, int to, int) override {
        TW_CHECK(to >= 0 && to < size() && to != rank_);
        const Way way = way_of(rank_, to, to);
        return post("send", *way.channel, t.bytes(), [&](NcclRequest& r) {
            void* from = r.place(t, false);
            r.begin();
            return ncclSend(from, count(t), type_of(t.dtype), way.peer, way.channel->comm,
                            way.channel->stream);
        });
    }
    RequestPtr receive(const Tensor& t, int from, int) override {
        TW_CHECK(from >= 0 && from < size() && from != rank_);
        const Way way = way_of(from, rank_, from);
        return post("receive", *way.channel, t.bytes(), [&](NcclRequest& r) {
            void* to = r.place(t, true);
            r.begin();
            return ncclRecv(to, count(t), type_of(t.dtype), way.peer, way.channel->comm, way.channel->stream);
        });
    }
    Status barrier() override {
        float token = 0;
        return all_reduce_max({&token, DType::F32, Shape{1}})->wait();
    }

  private:
    struct Way {
        Channel* channel = nullptr;
        int peer = 0;  // in the channel's communicator
    };
    Way way_of(int from, int to, int peer) {
        const auto own = routes_.find({from, to});
        if (own == routes_.end()) return {&collective_, peer};
        return {&own->second, from == rank_ ? 1 : 0};
    }
    // `part`: of the group, as a part of the key.
    Status connect(Channel& channel, const std::string& part, int rank, int ranks) {
        ncclUniqueId id{};
        if (rank == 0) {
            if (const ncclResult_t got = ncclGetUniqueId(&id); got != ncclSuccess)
                return Error{ErrorCode::Failure, ncclGetErrorString(got), "nccl", ""};
            if (Status set = bootstrap_.store->set(key_ + part, std::string(id.internal, sizeof id.internal));
                !set)
                return set;
        } else {
            const Result<std::string> text = bootstrap_.store->get(key_ + part, bootstrap_.deadline_s);
            if (!text) return text.errors();
            if (text->size() != sizeof id.internal)
                return Error{ErrorCode::Failure, "rank 0 runs another NCCL", "nccl",
                             "use one build on all nodes"};
            std::memcpy(id.internal, text->data(), sizeof id.internal);
        }
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        const ncclResult_t begun = ncclCommInitRankConfig(&channel.comm, ranks, id, rank, &config);
        Status made = settle(channel.comm, begun, name_ + part + ": connecting", bootstrap_.deadline_s);
        channel.failed = !made;
        if (made) channel.stream = urgent_stream();
        return made;
    }
    static std::size_t count(const Tensor& t) { return static_cast<std::size_t>(t.elements()); }
    // In-progress is not an error; the first error stays.
    static void note(ncclResult_t& result, ncclResult_t next) {
        if (result == ncclSuccess || result == ncclInProgress) result = next;
    }
    ncclResult_t copy(void* to, const void* from, std::size_t bytes) {
        if (to != from && bytes > 0) copy_on_device(to, from, bytes, backend_.stream());
        return ncclSuccess;
    }

    template <class Enqueue>
    RequestPtr post(const char* operation, Channel& channel, std::size_t bytes, Enqueue enqueue) {
        const std::string what = name_ + " " + operation + " of " + std::to_string(bytes) + " B";
        auto request = std::make_unique<NcclRequest>(what, &channel, backend_, bootstrap_.deadline_s);
        TW_CHECK_MSG(size() == 1 || channel.comm != nullptr, "a group for messages was used for more");
        const ncclResult_t result = enqueue(*request);
        if (size() == 1) {
            request->posted_alone();
        } else {
            request->posted(settle(channel.comm, result, what, bootstrap_.deadline_s));
        }
        return request;
    }
    RequestPtr reduce(const Tensor& t, ncclRedOp_t operation, const char* what) {
        return post(what, collective_, t.bytes(), [&](NcclRequest& r) {
            void* at = r.place(t, true);
            if (size() == 1) return ncclSuccess;
            r.begin();
            return ncclAllReduce(at, at, count(t), type_of(t.dtype), operation, collective_.comm,
                                 collective_.stream);
        });
    }

    std::string name_;
    std::vector<int> ranks_;
    int rank_;
    CudaBackend& backend_;
    const NcclBootstrap& bootstrap_;
    std::string key_;
    Channel collective_;
    std::map<std::pair<int, int>, Channel> routes_;  // by sender and receiver
};

class NcclTransport final : public Transport {
  public:
    NcclTransport(const NcclBootstrap& bootstrap, CudaBackend& backend)
        : bootstrap_(bootstrap), backend_(backend) {}
    [[nodiscard]] int rank() const override { return bootstrap_.rank; }
    [[nodiscard]] int size() const override { return bootstrap_.size; }

    Result<std::unique_ptr<Communicator>> create(std::string name, std::span<const int> ranks) override {
        std::unique_ptr<NcclCommunicator> made = group_of(std::move(name), ranks);
        if (Status connected = made->connect(); !connected) return connected.errors();
        return std::unique_ptr<Communicator>(std::move(made));
    }
    Result<std::unique_ptr<Communicator>> create_for_messages(std::string name, std::span<const int> ranks,
                                                              std::span<const Route> routes) override {
        std::unique_ptr<NcclCommunicator> made = group_of(std::move(name), ranks);
        if (Status opened = made->open_routes(routes); !opened) return opened.errors();
        return std::unique_ptr<Communicator>(std::move(made));
    }
    void progress() override {}  // NCCL's kernels and threads need no help
    [[noreturn]] void abort(int exit_code, std::string_view message) override {
        // The launcher ends the others when a rank fails; those that wait for it meet their deadline.
        std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
        std::fflush(stderr);
        std::_Exit(exit_code);
    }

  private:
    std::unique_ptr<NcclCommunicator> group_of(std::string name, std::span<const int> ranks) {
        std::string key = name;
        int own = -1;
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            key.append(i == 0 ? ":" : ",").append(std::to_string(ranks[i]));
            if (ranks[i] == bootstrap_.rank) own = static_cast<int>(i);
        }
        TW_CHECK_MSG(own >= 0, "a communicator is created by its members");
        const int before = created_[key]++;
        key.append("#").append(std::to_string(before));
        return std::make_unique<NcclCommunicator>(std::move(name),
                                                  std::vector<int>(ranks.begin(), ranks.end()), own, backend_,
                                                  bootstrap_, std::move(key));
    }

    NcclBootstrap bootstrap_;
    CudaBackend& backend_;
    std::map<std::string, int> created_;  // how often, so that keys differ
};

}  // namespace

Result<std::unique_ptr<Transport>> make_nccl_transport(const NcclBootstrap& bootstrap, Backend& backend) {
    TW_CHECK(bootstrap.store != nullptr || bootstrap.size == 1);
    ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);  // read when NCCL makes its first communicator
    return std::unique_ptr<Transport>(
        std::make_unique<NcclTransport>(bootstrap, static_cast<CudaBackend&>(backend)));
}

}  // namespace tw::cuda

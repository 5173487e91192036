#include "real_exec/comm/local/local_transport.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "real_exec/backend/copy_bytes.hpp"
#include "real_exec/comm/reduce.hpp"

namespace tw {
namespace {

enum class Kind : std::uint8_t { AllReduce, Max, ReduceScatter, AllGather, Broadcast, AllToAll, Barrier };

const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::AllReduce:
            return "all-reduce";
        case Kind::Max:
            return "all-reduce (max)";
        case Kind::ReduceScatter:
            return "reduce-scatter";
        case Kind::AllGather:
            return "all-gather";
        case Kind::Broadcast:
            return "broadcast";
        case Kind::AllToAll:
            return "all-to-all";
        case Kind::Barrier:
            return "barrier";
    }
    return "?";
}

// What one member brings to a collective.
struct Part {
    bool here = false;
    Tensor in, out;
    std::vector<std::int64_t> send, receive;
};

struct Operation {
    Kind kind = Kind::Barrier;
    int root = 0, arrived = 0;
    bool done = false;
    std::vector<Part> parts;
};

std::byte* at(const Tensor& tensor, std::int64_t element) {
    return static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(element) * bytes_of(tensor.dtype);
}

void run_all_to_all(const Operation& op) {
    const std::size_t size = op.parts.size();
    for (std::size_t to = 0; to < size; ++to) {
        std::int64_t written = 0;
        for (std::size_t from = 0; from < size; ++from) {
            const Part& sender = op.parts[from];
            std::int64_t begin = 0;
            for (std::size_t i = 0; i < to; ++i)
                begin += sender.send[i];
            const std::int64_t count = sender.send[to];
            TW_CHECK(count == op.parts[to].receive[from]);
            copy_bytes(at(op.parts[to].out, written), at(sender.in, begin),
                       static_cast<std::size_t>(count) * bytes_of(sender.in.dtype));
            written += count;
        }
    }
}

void run(const Operation& op) {
    const std::size_t size = op.parts.size();
    const Tensor& first = op.parts[0].in;
    std::vector<const void*> inputs;
    for (const Part& part : op.parts)
        inputs.push_back(part.in.data);
    switch (op.kind) {
        case Kind::AllReduce:
        case Kind::Max: {
            if (op.kind == Kind::Max) {
                max_of(inputs, first.data, first.elements());
            } else {
                sum_in_order(inputs, first.data, first.elements(), first.dtype);
            }
            for (std::size_t r = 1; r < size; ++r)
                copy_bytes(op.parts[r].in.data, first.data, first.bytes());
            return;
        }
        case Kind::ReduceScatter: {
            for (std::size_t r = 0; r < size; ++r) {
                const std::int64_t count = op.parts[r].out.elements();
                std::vector<const void*> own;
                for (const Part& part : op.parts)
                    own.push_back(at(part.in, static_cast<std::int64_t>(r) * count));
                sum_in_order(own, op.parts[r].out.data, count, first.dtype);
            }
            return;
        }
        case Kind::AllGather:
            for (const Part& to : op.parts) {
                for (std::size_t r = 0; r < size; ++r) {
                    std::byte* place = at(to.out, static_cast<std::int64_t>(r) * first.elements());
                    if (place != op.parts[r].in.data)
                        move_bytes(place, op.parts[r].in.data, op.parts[r].in.bytes());
                }
            }
            return;
        case Kind::Broadcast: {
            const Tensor& root = op.parts[static_cast<std::size_t>(op.root)].in;
            for (const Part& part : op.parts) {
                if (part.in.data != root.data) copy_bytes(part.in.data, root.data, root.bytes());
            }
            return;
        }
        case Kind::AllToAll:
            run_all_to_all(op);
            return;
        case Kind::Barrier:
            return;
    }
}

// A message whose other end has not come yet.
struct Message {
    Tensor tensor;
    std::shared_ptr<bool> done;
};
using Lane = std::tuple<int, int, int>;  // from, to, tag

struct Group {
    std::map<std::uint64_t, Operation> operations;
    std::vector<std::uint64_t> next;  // of each member
    std::map<Lane, std::deque<Message>> sent, wanted;
};

struct Hub {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::pair<std::vector<int>, std::uint64_t>, std::shared_ptr<Group>> groups;
    std::map<std::pair<std::vector<int>, int>, std::uint64_t> created;  // by ranks and creator
    double deadline_s = 60;
    int size = 0;
};

class LocalRequest final : public Request {
  public:
    LocalRequest(Hub& hub, std::function<bool()> done, std::function<std::string()> missing)
        : hub_(hub), done_(std::move(done)), missing_(std::move(missing)) {}
    bool test() override {
        const std::lock_guard lock(hub_.mutex);
        return done_();
    }
    Status wait() override {
        std::unique_lock lock(hub_.mutex);
        const bool finished =
            hub_.changed.wait_for(lock, std::chrono::duration<double>(hub_.deadline_s), done_);
        if (finished) return ok();
        return Error{ErrorCode::Failure, "no progress within the deadline: " + missing_(), "", ""};
    }
    [[nodiscard]] std::string waiting_for() const override {
        const std::lock_guard lock(hub_.mutex);
        return done_() ? "" : missing_();
    }

  private:
    Hub& hub_;
    std::function<bool()> done_;
    std::function<std::string()> missing_;
};

class LocalCommunicator final : public Communicator {
  public:
    LocalCommunicator(std::shared_ptr<Hub> hub, std::shared_ptr<Group> group, std::string name,
                      std::vector<int> ranks, int rank)
        : hub_(std::move(hub)),
          group_(std::move(group)),
          name_(std::move(name)),
          ranks_(std::move(ranks)),
          rank_(rank) {}

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return static_cast<int>(ranks_.size()); }
    [[nodiscard]] std::span<const int> global_ranks() const override { return ranks_; }
    [[nodiscard]] std::string_view name() const override { return name_; }

    RequestPtr all_reduce(const Tensor& t) override {
        return collective(Kind::AllReduce, {true, t, {}, {}, {}});
    }
    RequestPtr all_reduce_max(const Tensor& t) override {
        return collective(Kind::Max, {true, t, {}, {}, {}});
    }
    RequestPtr reduce_scatter(const Tensor& whole, const Tensor& part) override {
        TW_CHECK(whole.elements() == part.elements() * size());
        return collective(Kind::ReduceScatter, {true, whole, part, {}, {}});
    }
    RequestPtr all_gather(const Tensor& part, const Tensor& whole) override {
        TW_CHECK(whole.elements() == part.elements() * size());
        return collective(Kind::AllGather, {true, part, whole, {}, {}});
    }
    RequestPtr broadcast(const Tensor& t, int root) override {
        return collective(Kind::Broadcast, {true, t, {}, {}, {}}, root);
    }
    RequestPtr all_to_all(const Tensor& send, std::span<const std::int64_t> send_elements,
                          const Tensor& receive, std::span<const std::int64_t> receive_elements) override {
        return collective(Kind::AllToAll, {true,
                                           send,
                                           receive,
                                           {send_elements.begin(), send_elements.end()},
                                           {receive_elements.begin(), receive_elements.end()}});
    }
    Status barrier() override { return collective(Kind::Barrier, {true, {}, {}, {}, {}})->wait(); }

    RequestPtr send(const Tensor& tensor, int to, int tag) override {
        return transfer(tensor, {rank_, to, tag}, true);
    }
    RequestPtr receive(const Tensor& tensor, int from, int tag) override {
        return transfer(tensor, {from, rank_, tag}, false);
    }

  private:
    RequestPtr collective(Kind kind, Part part, int root = 0) {
        const std::lock_guard lock(hub_->mutex);
        const std::uint64_t number = group_->next[static_cast<std::size_t>(rank_)]++;
        Operation& op = group_->operations[number];
        if (op.arrived == 0) {
            op.kind = kind;
            op.root = root;
            op.parts.resize(ranks_.size());
        }
        TW_CHECK_MSG(op.kind == kind && op.root == root, "members of a group call different collectives");
        op.parts[static_cast<std::size_t>(rank_)] = std::move(part);
        if (++op.arrived == size()) {
            run(op);
            group_->operations.erase(number);  // what is not there is done
            hub_->changed.notify_all();
        }
        const auto done = [group = group_, number] { return group->operations.count(number) == 0; };
        const auto missing = [this, group = group_, number, kind] {
            std::string text = std::string(name_of(kind)) + " of group " + name_ + " misses rank";
            const Operation& waiting = group->operations.at(number);
            for (std::size_t r = 0; r < ranks_.size(); ++r) {
                if (!waiting.parts[r].here) text += " " + std::to_string(ranks_[r]);
            }
            return text;
        };
        return std::make_unique<LocalRequest>(*hub_, done, missing);
    }

    RequestPtr transfer(const Tensor& tensor, const Lane& lane, bool sends) {
        const std::lock_guard lock(hub_->mutex);
        std::deque<Message>& others = sends ? group_->wanted[lane] : group_->sent[lane];
        auto done = std::make_shared<bool>(false);
        if (!others.empty()) {
            const Message other = others.front();
            others.pop_front();
            const Tensor& from = sends ? tensor : other.tensor;
            const Tensor& to = sends ? other.tensor : tensor;
            TW_CHECK(from.bytes() == to.bytes());
            copy_bytes(to.data, from.data, from.bytes());
            *done = *other.done = true;
            hub_->changed.notify_all();
        } else {
            (sends ? group_->sent[lane] : group_->wanted[lane]).push_back({tensor, done});
        }
        const int partner = ranks_[static_cast<std::size_t>(sends ? std::get<1>(lane) : std::get<0>(lane))];
        const auto missing = [sends, partner, name = name_] {
            return std::string(sends ? "send to" : "receive from") + " rank " + std::to_string(partner) +
                   " of group " + name;
        };
        return std::make_unique<LocalRequest>(
            *hub_, [done] { return *done; }, missing);
    }

    std::shared_ptr<Hub> hub_;
    std::shared_ptr<Group> group_;
    std::string name_;
    std::vector<int> ranks_;
    int rank_;
};

class LocalTransport final : public Transport {
  public:
    LocalTransport(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return hub_->size; }
    Result<std::unique_ptr<Communicator>> create(std::string name, std::span<const int> ranks) override {
        const std::vector<int> members(ranks.begin(), ranks.end());
        int own = -1;
        for (std::size_t i = 0; i < members.size(); ++i)
            own = members[i] == rank_ ? static_cast<int>(i) : own;
        TW_CHECK_MSG(own >= 0, "a communicator is created by its members");
        const std::lock_guard lock(hub_->mutex);
        // The n-th creation over the same ranks is the same group on every one of them.
        const std::uint64_t number = hub_->created[{members, rank_}]++;
        std::shared_ptr<Group>& group = hub_->groups[{members, number}];
        if (group == nullptr) {
            group = std::make_shared<Group>();
            group->next.assign(members.size(), 0);
        }
        return std::unique_ptr<Communicator>(
            std::make_unique<LocalCommunicator>(hub_, group, std::move(name), members, own));
    }
    void progress() override {}
    [[noreturn]] void abort(int exit_code, std::string_view message) override {
        std::fprintf(stderr, "rank %d: %.*s\n", rank_, static_cast<int>(message.size()), message.data());
        std::_Exit(exit_code);
    }

  private:
    std::shared_ptr<Hub> hub_;
    int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> local_transports(int ranks, double deadline_s) {
    auto hub = std::make_shared<Hub>();
    hub->size = ranks;
    hub->deadline_s = deadline_s;
    std::vector<std::unique_ptr<Transport>> transports;
    for (int r = 0; r < ranks; ++r)
        transports.push_back(std::make_unique<LocalTransport>(hub, r));
    return transports;
}

void run_local_ranks(int ranks, const std::function<void(Transport&)>& body, double deadline_s) {
    auto transports = local_transports(ranks, deadline_s);
    std::vector<std::thread> threads;
    for (int r = 1; r < ranks; ++r)
        threads.emplace_back([&, r] { body(*transports[static_cast<std::size_t>(r)]); });
    body(*transports[0]);
    for (std::thread& thread : threads)
        thread.join();
}

}  // namespace tw

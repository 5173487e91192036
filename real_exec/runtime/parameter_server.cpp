#include "real_exec/runtime/parameter_server.hpp"

#include <algorithm>

namespace tw {
namespace {

Tensor elements_of(const Tensor& whole, std::int64_t begin, std::int64_t count) {
    return whole.rows(begin, count);
}

}  // namespace

ParameterServer::ParameterServer(Backend& backend, StageState& state, const Groups& groups, Lanes& lanes,
                                 OptimizerKind kind, const OptimizerOptions& options,
                                 const Schedule& schedule)
    : backend_(backend),
      state_(state),
      lanes_(lanes),
      kind_(kind),
      options_(options),
      schedule_(schedule),
      pushes_(schedule.steps - schedule.first_step) {
    const StageStateOptions& o = state.options();
    int number = 0;
    for (Bucket& bucket : state.buckets()) {
        Served served;
        served.bucket = &bucket;
        served.group = &groups.replicas(o.stage, bucket.expert);
        // Stages share a communicator: two tags for each of their buckets.
        constexpr int kBuckets = 64;
        TW_CHECK(number < kBuckets);
        served.tag = 2 * (o.stage * kBuckets + number++);
        const Shape shard{bucket.shard_elements()};
        served.pushed = backend.allocate(o.gradient, Shape{bucket.elements}, MemoryUse::CommunicationBuffers);
        served.current = backend.allocate(o.compute, shard, MemoryUse::CommunicationBuffers);
        for (int w = 0; w < served.group->size(); ++w) {
            Worker worker;
            worker.gradient = backend.allocate(o.gradient, shard, MemoryUse::CommunicationBuffers);
            worker.values = backend.allocate(o.compute, shard, MemoryUse::CommunicationBuffers);
            served.workers.push_back(std::move(worker));
        }
        served_.push_back(std::move(served));
    }
    for (Served& served : served_) {
        for (int w = 0; w < served.group->size(); ++w)
            expect(served, w);
    }
}

ParameterServer::~ParameterServer() = default;

void ParameterServer::expect(Served& served, int w) {
    Worker& worker = served.workers[static_cast<std::size_t>(w)];
    if (worker.clock >= schedule_.steps - schedule_.first_step) return;
    const Shape shard{served.bucket->shard_elements()};
    worker.receiving =
        served.group->receive(worker.gradient.view(state_.options().gradient, shard), w, served.tag);
}

void ParameterServer::push(double scale) {
    for (Served& served : served_) {
        // The answers to the push before have come, so that it has arrived everywhere.
        while (!served.sending.empty()) {
            if (lanes_.completed(*served.sending.back())) served.sending.pop_back();
        }
        const Tensor out = served.pushed.view(state_.options().gradient, Shape{served.bucket->elements});
        backend_.axpby(scale, state_.grads(*served.bucket), 0, out);
        backend_.synchronize();
        send_to_servers(served);
    }
}

void ParameterServer::send_to_servers(Served& served) {
    const Tensor out = served.pushed.view(state_.options().gradient, Shape{served.bucket->elements});
    const std::int64_t shard = served.bucket->shard_elements();
    for (int server = 0; server < served.group->size(); ++server)
        served.sending.push_back(
            served.group->send(elements_of(out, shard * server, shard), server, served.tag));
}

void ParameterServer::end_after(std::int64_t steps) {
    pushes_ = steps - schedule_.first_step;
}

void ParameterServer::close() {
    if (pushes_ == schedule_.steps - schedule_.first_step) return;
    for (Served& served : served_)
        send_to_servers(served);
}

std::vector<RequestPtr> ParameterServer::pull() {
    std::vector<RequestPtr> requests;
    for (Served& served : served_) {
        const Tensor values = state_.values(*served.bucket);
        const std::int64_t shard = served.bucket->shard_elements();
        for (int server = 0; server < served.group->size(); ++server)
            requests.push_back(
                served.group->receive(elements_of(values, shard * server, shard), server, served.tag + 1));
    }
    return requests;
}

bool ParameterServer::serve() {
    bool moved = false;
    for (Served& served : served_) {
        for (std::size_t w = 0; w < served.workers.size(); ++w) {
            Worker& worker = served.workers[w];
            if (worker.answering && lanes_.completed(*worker.answering)) worker.answering.reset();
            if (!worker.receiving || !lanes_.completed(*worker.receiving)) continue;
            worker.receiving.reset();
            moved = true;
            if (worker.clock == pushes_) continue;  // close()
            apply(served, worker);
            worker.waits = true;
            expect(served, static_cast<int>(w));
        }
        // An update may release whom a bound held back.
        for (std::size_t w = 0; w < served.workers.size(); ++w)
            moved |= answer(served, static_cast<int>(w));
    }
    return moved;
}

void ParameterServer::apply(Served& served, Worker& worker) {
    Bucket& bucket = *served.bucket;
    const StageStateOptions& o = state_.options();
    const Shape shard{bucket.shard_elements()};
    UpdateSpec spec;
    spec.kind = kind_;
    spec.rate =
        options_.rate.at(schedule_.first_step + worker.clock, schedule_.steps, schedule_.global_batch);
    spec.update = ++served.updates;
    UpdateTensors tensors;
    tensors.values = served.current.view(o.compute, shard);
    tensors.master = state_.owned_master(bucket);
    tensors.grads = worker.gradient.view(o.gradient, shard);
    tensors.first = state_.first_moment(bucket);
    tensors.second = state_.second_moment(bucket);
    update_bucket(backend_, spec, options_, state_, bucket, tensors);
    ++worker.clock;
}

bool ParameterServer::answer(Served& served, int w) {
    Worker& worker = served.workers[static_cast<std::size_t>(w)];
    if (!worker.waits || worker.answering) return false;
    std::int64_t slowest = worker.clock;
    for (const Worker& other : served.workers)
        slowest = std::min(slowest, other.clock);
    if (schedule_.staleness >= 0 && worker.clock - slowest > schedule_.staleness) return false;
    largest_lead_ = std::max(largest_lead_, worker.clock - slowest);
    const StageStateOptions& o = state_.options();
    const Shape shard{served.bucket->shard_elements()};
    const Tensor out = worker.values.view(o.compute, shard);
    backend_.copy(state_.owned_master(*served.bucket), out);
    backend_.synchronize();
    worker.answering = served.group->send(out, w, served.tag + 1);
    worker.waits = false;
    return true;
}

bool ParameterServer::finished() const {
    return std::all_of(served_.begin(), served_.end(), [&](const Served& served) {
        const bool sent = std::all_of(served.sending.begin(), served.sending.end(),
                                      [&](const RequestPtr& request) { return lanes_.completed(*request); });
        return sent && std::all_of(served.workers.begin(), served.workers.end(), [&](const Worker& worker) {
                   return worker.clock == pushes_ && !worker.receiving && !worker.waits && !worker.answering;
               });
    });
}

std::int64_t ParameterServer::updates() const {
    return served_.empty() ? 0 : served_.front().updates;
}

}  // namespace tw

// An asynchronous parameter server over the replicas of one stage (Li et al. 2014; Dean et al. 2012): replica
// j serves the j-th shard of every bucket. A worker pushes its own mean gradient when its step is done and
// waits for nobody but the servers' answer; a server applies each push when it comes and answers with the
// parameters of that moment. With a bound of s clocks a server holds the answer to a worker back until no
// other one is more than s steps behind it (stale synchronous parallel, Ho et al. 2013, section 2).
//
// Servers are no threads: serve() is called between layers and in every wait of their rank.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "real_exec/runtime/groups.hpp"
#include "real_exec/runtime/lanes.hpp"
#include "real_exec/runtime/optimizer_update.hpp"
#include "real_exec/runtime/stage_state.hpp"

namespace tw {

class ParameterServer {
  public:
    struct Schedule {
        std::int64_t first_step = 0, steps = 0;  // [first_step, steps) are run
        std::int64_t global_batch = 1;
        int staleness = -1;  // clocks; < 0: no bound
    };
    // All outlive it. The state shards its update, and its master is apart from its values.
    ParameterServer(Backend& backend, StageState& state, const Groups& groups, Lanes& lanes,
                    OptimizerKind kind, const OptimizerOptions& options, const Schedule& schedule);
    ~ParameterServer();
    ParameterServer(const ParameterServer&) = delete;
    ParameterServer& operator=(const ParameterServer&) = delete;

    // Worker: sends this step's gradients times `scale`; the gradients may be changed afterwards.
    void push(double scale);
    // Worker: the answers to the last push, into the values.
    std::vector<RequestPtr> pull();

    // Server: applies what has come and answers; true where anything happened.
    bool serve();

    // A run that ends early, after `steps` steps (Schedule::first_step's earlier ones among them). All ranks
    // call end_after() before any of them calls close(), with which a worker takes back the push that its
    // servers still expect.
    void end_after(std::int64_t steps);
    void close();
    // Every push of the run has been applied and answered.
    [[nodiscard]] bool finished() const;
    [[nodiscard]] std::int64_t updates() const;  // of this run
    // Largest lead, in steps, of a worker over the slowest when it was answered; for tests and notes.
    [[nodiscard]] std::int64_t largest_lead() const { return largest_lead_; }

  private:
    struct Worker {
        Buffer gradient, values;  // what it sends, and what it is answered
        RequestPtr receiving, answering;
        std::int64_t clock = 0;  // pushes that have come
        bool waits = false;      // for an answer that is held back
    };
    // One bucket: what this rank sends as a worker, and its shard as a server.
    struct Served {
        Bucket* bucket = nullptr;
        Communicator* group = nullptr;
        int tag = 0;
        Buffer pushed;  // scaled gradients on their way
        std::vector<RequestPtr> sending;
        Buffer current;  // the shard in the compute type
        std::vector<Worker> workers;
        std::int64_t updates = 0;
    };
    void send_to_servers(Served& served);
    void expect(Served& served, int worker);
    void apply(Served& served, Worker& worker);
    bool answer(Served& served, int worker);

    Backend& backend_;
    StageState& state_;
    Lanes& lanes_;
    OptimizerKind kind_;
    const OptimizerOptions& options_;
    Schedule schedule_;
    std::int64_t pushes_;  // of each worker, until the run's end
    std::vector<Served> served_;
    std::int64_t largest_lead_ = 0;
};

}  // namespace tw

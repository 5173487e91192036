#include "real_exec/data/prefetcher.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace tw {
namespace {

using StepBatches = Result<std::vector<HostBatch>>;

StepBatches prepare(const Dataset& dataset, const PrefetchPlan& plan, std::int64_t step) {
    const DataOptions& options = dataset.options();
    const bool images = options.kind == SampleKind::Images;
    std::vector<HostBatch> batches;
    for (const std::int64_t first : plan.first_sample) {
        HostBatch batch;
        batch.first_sample = first;
        batch.count = plan.microbatch;
        const auto count = static_cast<std::size_t>(plan.microbatch);
        const std::size_t tokens = count * static_cast<std::size_t>(options.seq_len);
        if (images) {
            batch.images.resize(count *
                                static_cast<std::size_t>(options.channels * options.height * options.width));
        } else {
            batch.tokens.resize(tokens);
        }
        batch.targets.resize(images ? count : tokens);
        const Status filled = dataset.fill(step, first, plan.microbatch,
                                           {batch.tokens.data(), batch.targets.data(), batch.images.data()});
        if (!filled) return filled.errors();
        batches.push_back(std::move(batch));
    }
    return batches;
}

}  // namespace

struct Prefetcher::Work {
    const Dataset* dataset = nullptr;
    PrefetchPlan plan;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<StepBatches> ready;
    std::int64_t next_taken = 0;
    bool stop = false;
    double waited_s = 0;
    std::thread thread;

    void run() {
        for (std::int64_t step = plan.first_step; step < plan.last_step; ++step) {
            {
                std::unique_lock lock(mutex);
                changed.wait(
                    lock, [&] { return stop || static_cast<int>(ready.size()) < std::max(1, plan.depth); });
                if (stop) return;
            }
            StepBatches batches = prepare(*dataset, plan, step);
            const std::scoped_lock lock(mutex);
            ready.push_back(std::move(batches));
            changed.notify_all();
        }
    }
};

Prefetcher::Prefetcher(const Dataset& dataset, PrefetchPlan plan) : work_(std::make_unique<Work>()) {
    work_->dataset = &dataset;
    work_->plan = std::move(plan);
    work_->next_taken = work_->plan.first_step;
    work_->thread = std::thread([work = work_.get()] { work->run(); });
}

Prefetcher::~Prefetcher() {
    {
        const std::scoped_lock lock(work_->mutex);
        work_->stop = true;
        work_->changed.notify_all();
    }
    work_->thread.join();
}

Result<std::vector<HostBatch>> Prefetcher::take(std::int64_t step) {
    std::unique_lock lock(work_->mutex);
    TW_CHECK_MSG(step == work_->next_taken && step < work_->plan.last_step, "steps are taken in order");
    const auto begin = std::chrono::steady_clock::now();
    work_->changed.wait(lock, [&] { return !work_->ready.empty(); });
    work_->waited_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    StepBatches batches = std::move(work_->ready.front());
    work_->ready.pop_front();
    ++work_->next_taken;
    work_->changed.notify_all();
    return batches;
}

double Prefetcher::waited_s() const {
    const std::scoped_lock lock(work_->mutex);
    return work_->waited_s;
}

}  // namespace tw

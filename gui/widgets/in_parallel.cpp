#include "gui/widgets/in_parallel.hpp"

#include <QThread>
#include <QThreadPool>
#include <algorithm>
#include <atomic>
#include <memory>

namespace tw::gui {
namespace {

// Outlives the call: a helper may come when everything is done.
struct Shared {
    std::atomic<std::size_t> next{0}, done{0};
    std::size_t count = 0;
    const std::function<void(std::size_t)>* work = nullptr;  // while done < count

    void run() {
        for (std::size_t n = next.fetch_add(1); n < count; n = next.fetch_add(1)) {
            (*work)(n);
            if (done.fetch_add(1) + 1 == count) done.notify_all();
        }
    }
};

QThreadPool& helpers() {
    static QThreadPool pool;
    static const bool made = [] {
        pool.setMaxThreadCount(std::clamp(QThread::idealThreadCount() - 1, 1, 7));
        return true;
    }();
    static_cast<void>(made);
    return pool;
}

}  // namespace

void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
    constexpr std::size_t kWorthwhile = 8;  // calls a thread
    const auto shared = std::make_shared<Shared>();
    shared->count = count;
    shared->work = &work;
    QThreadPool& pool = helpers();
    const auto most = std::min(static_cast<std::size_t>(pool.maxThreadCount()), count / kWorthwhile);
    for (std::size_t n = 0; n < most; ++n)
        if (!pool.tryStart([shared] { shared->run(); })) break;
    shared->run();
    for (std::size_t done = shared->done; done < count; done = shared->done)
        shared->done.wait(done);
}

}  // namespace tw::gui

// Workers: a loop whose bodies run on several threads. By TBB; in builds with the thread sanitizer, which
// does not see how TBB's own library hands work over and would call every hand-over a race, by threads of its
// own.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_THREAD__)
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>
#else
#include <algorithm>

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#endif

namespace tw {

class Workers {
  public:
    // 0: as many threads as there are processors; more than TBB has are as many as it has.
    explicit Workers(int threads);

    // body(0) … body(count - 1), each once, on any thread and in any order; returns when all have returned.
    template <class Body>
    void for_each(std::size_t count, const Body& body);

  private:
#if defined(__SANITIZE_THREAD__)
    std::size_t threads_;
#else
    tbb::task_arena arena_;
#endif
};

#if defined(__SANITIZE_THREAD__)

inline Workers::Workers(int threads)
    : threads_(threads > 0 ? static_cast<std::size_t>(threads)
                           : std::max(1U, std::thread::hardware_concurrency())) {}

template <class Body>
void Workers::for_each(std::size_t count, const Body& body) {
    std::atomic<std::size_t> next{0};
    const auto run = [&] {
        for (std::size_t i = next++; i < count; i = next++)
            body(i);
    };
    std::vector<std::thread> others(std::min(threads_, count) - std::min<std::size_t>(1, count));
    for (std::thread& other : others)
        other = std::thread(run);
    run();
    for (std::thread& other : others)
        other.join();
}

#else

inline Workers::Workers(int threads)
    : arena_(threads > 0 ? std::min(threads, static_cast<int>(tbb::global_control::active_value(
                                                 tbb::global_control::max_allowed_parallelism)))
                         : tbb::task_arena::automatic) {}

template <class Body>
void Workers::for_each(std::size_t count, const Body& body) {
    arena_.execute([&] { tbb::parallel_for(std::size_t{0}, count, body); });
}

#endif

}  // namespace tw

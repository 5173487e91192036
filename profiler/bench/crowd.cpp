// More ranks than cores: whoever is waited for may itself wait for a core. Products alone and products with
// an all-reduce after each, by all ranks at once: what the latter takes beyond the former is the wait of a
// collective between long computations. All-reduces alone: the wait where nobody computes. Messages between
// two ranks while all others compute: the wait of a message. Each holds the message's own time, which is
// small beside the wait.
#include <functional>

#include "profiler/bench/benchmarks.hpp"

namespace tw {

void run_crowd(BenchContext& c) {
    Backend& b = *c.backend;
    constexpr std::int64_t kSize = 448, kFloats = std::int64_t{1} << 14;
    const RotatedProduct product(b, kSize);
    const RotatedBuffers sum(b, kFloats * 4), out(b, kFloats * 4), in(b, kFloats * 4);
    Communicator& all = c.team->all();
    const auto point = [&](const char* what) {
        SampleSeries s;
        s.benchmark = "crowd";
        s.variant = what;
        s.shape = {{"ranks", static_cast<double>(c.team->everyone())},
                   {"cores", static_cast<double>(c.team->size())}};
        return s;
    };
    const auto reduce = [&](std::int64_t i) {
        (void)all.all_reduce(sum.tensor(i, DType::F32, {kFloats}))->wait();
    };
    c.sample_together(point("product"), std::cref(product), true);
    c.sample_together(
        point("product, all_reduce"),
        [&](std::int64_t i) {
            product(i);
            reduce(i);
        },
        true);
    c.sample_together(point("all_reduce"), reduce, true);
    // There and back. The others compute for longer than that, so that every core stays taken.
    const int rank = all.rank(), last = all.size() - 1;
    c.sample_together(
        point("message there and back, beside products"),
        [&](std::int64_t i) {
            if (rank != 0 && rank != last) {
                for (int again = 0; again < 4; ++again)
                    product(4 * i + again);
                return;
            }
            const int peer = rank == 0 ? last : 0;
            for (const bool turn : {true, false}) {
                const RequestPtr request = (rank == 0) == turn
                                               ? all.send(out.tensor(i, DType::F32, {kFloats}), peer, 1)
                                               : all.receive(in.tensor(i, DType::F32, {kFloats}), peer, 1);
                (void)request->wait();
            }
        },
        true);
}

}  // namespace tw

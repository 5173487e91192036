// More ranks than cores: whoever is waited for may itself wait for a core. All ranks at once compute products
// with an all-reduce after each of them, and with one after every eighth: the difference is the wait of a
// collective between long computations, the rest the product's own time on shared cores. All-reduces alone:
// the wait where nobody computes. The same among the ranks of each half, beside which the other half fills
// the cores. Messages between two ranks while all others compute: the wait of a message. Each holds the
// message's own time, which is small beside the wait.
#include <string>

#include "profiler/bench/benchmarks.hpp"
#include "profiler/fit/crowd_waits.hpp"

namespace tw {

void run_crowd(BenchContext& c) {
    Backend& b = *c.backend;
    constexpr std::int64_t kSize = 448, kFloats = std::int64_t{1} << 14;
    const RotatedProduct product(b, kSize);
    const RotatedBuffers sum(b, kFloats * 4), out(b, kFloats * 4), in(b, kFloats * 4);
    Communicator& all = c.team->all();
    const auto point = [&](std::string what) {
        SampleSeries s;
        s.benchmark = "crowd";
        s.variant = std::move(what);
        s.shape = {{"ranks", static_cast<double>(c.team->everyone())},
                   {"cores", static_cast<double>(c.team->size())}};
        return s;
    };
    const auto reduce_among = [&](Communicator& group) {
        return [&](std::int64_t i) { (void)group.all_reduce(sum.tensor(i, DType::F32, {kFloats}))->wait(); };
    };
    const auto sample_group = [&](Communicator& group, const std::string& name) {
        const auto reduce = reduce_among(group);
        for (const std::int64_t products : {std::int64_t{1}, kCrowdProducts}) {
            c.sample_together(
                point(products == 1 ? "product, all_reduce" + name : "products, all_reduce" + name),
                [&](std::int64_t i) {
                    for (std::int64_t p = 0; p < products; ++p)
                        product(products * i + p);
                    reduce(i);
                },
                true);
        }
        c.sample_together(point("all_reduce" + name), reduce, true);
    };
    sample_group(all, "");
    if (c.team->half() != nullptr) sample_group(*c.team->half(), " of half");
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

// Messages between two ranks of one host, and of two where there are two: there and back, halved.
#include "profiler/bench/benchmarks.hpp"

namespace tw {

void run_point_to_point(BenchContext& c) {
    Team& team = *c.team;
    Communicator& all = *team.measuring();
    for (const bool far : {false, true}) {
        const int peer = far ? team.far_rank() : (team.far_rank() == 1 ? -1 : 1);
        if (peer < 0) continue;
        for (int power = 10; power <= 24; power += 2) {
            const std::int64_t floats = (std::int64_t{1} << power) / 4;
            const RotatedBuffers out(*c.backend, static_cast<std::size_t>(floats) * 4),
                in(*c.backend, static_cast<std::size_t>(floats) * 4);
            SampleSeries point;
            point.benchmark = "collective";
            point.variant = "send_recv";
            point.shape = {{"group", 2}, {"bytes", static_cast<double>(floats) * 4}};
            if (far) point.shape.emplace_back("nodes", 2);
            const int rank = all.rank();
            c.sample_together(std::move(point), [&](std::int64_t i) {
                if (rank != 0 && rank != peer) return;
                const int other = rank == 0 ? peer : 0;
                const Tensor send = out.tensor(i, DType::F32, {floats});
                const Tensor receive = in.tensor(i, DType::F32, {floats});
                for (const bool turn : {true, false}) {
                    RequestPtr request =
                        (rank == 0) == turn ? all.send(send, other, 1) : all.receive(receive, other, 1);
                    (void)request->wait();
                }
            });
        }
    }
}

}  // namespace tw

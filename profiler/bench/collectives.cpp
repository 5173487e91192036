// Every collective over sizes and over groups of the first two, four, ... ranks. Sizes as nccl-tests counts
// them.
#include <array>
#include <vector>

#include "models/graph/op.hpp"
#include "profiler/bench/benchmarks.hpp"

namespace tw {
namespace {

constexpr std::array kKinds = {CollectiveKind::AllReduce, CollectiveKind::AllGather,
                               CollectiveKind::ReduceScatter, CollectiveKind::Broadcast,
                               CollectiveKind::AllToAll};

RequestPtr start(Communicator& group, CollectiveKind kind, const Tensor& whole, const Tensor& other) {
    const std::int64_t part = whole.elements() / group.size();
    const std::vector<std::int64_t> parts(static_cast<std::size_t>(group.size()), part);
    const Tensor own{other.data, whole.dtype, Shape{part}};
    switch (kind) {
        case CollectiveKind::AllGather:
            return group.all_gather(own, whole);
        case CollectiveKind::ReduceScatter:
            return group.reduce_scatter(whole, own);
        case CollectiveKind::Broadcast:
            return group.broadcast(whole, 0);
        case CollectiveKind::AllToAll:
            return group.all_to_all(whole, parts, other, parts);
        default:
            return group.all_reduce(whole);
    }
}

}  // namespace

void run_collectives(BenchContext& c) {
    for (const Team::Group& group : c.team->groups()) {
        for (int power = 10; power <= 24; power += 2) {
            const std::int64_t floats = (std::int64_t{1} << power) / 4 / group.size * group.size;
            const RotatedBuffers whole(*c.backend, static_cast<std::size_t>(floats) * 4),
                other(*c.backend, static_cast<std::size_t>(floats) * 4);
            for (const CollectiveKind kind : kKinds) {
                SampleSeries point;
                point.benchmark = "collective";
                point.variant = std::string(to_string(kind));
                point.shape = {{"group", static_cast<double>(group.size)},
                               {"bytes", static_cast<double>(floats) * 4}};
                if (group.nodes > 1) point.shape.emplace_back("nodes", static_cast<double>(group.nodes));
                c.sample_together(std::move(point), [&](std::int64_t i) {
                    if (!group.members) return;
                    (void)start(*group.members, kind, whole.tensor(i, DType::F32, {floats}),
                                other.tensor(i, DType::F32, {floats}))
                        ->wait();
                });
            }
        }
    }
}

}  // namespace tw

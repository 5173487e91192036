#include <fmt/format.h>

#include "plan/schedule/generators/generators.hpp"

namespace tw {

ComputeOrder empty_order(const ScheduleShape& shape, const GeneratorInfo& info) {
    ComputeOrder order;
    order.stages = shape.ranks * shape.virtual_stages;
    order.microbatches = shape.microbatches;
    order.boundary = info.boundary;
    order.semantics = info.semantics;
    order.splits_backward = info.splits_backward;
    const auto stages = static_cast<std::size_t>(order.stages);
    order.rank_of_stage.resize(stages);
    for (std::size_t s = 0; s < stages; ++s) {
        order.rank_of_stage[s] = static_cast<std::uint16_t>(s % static_cast<std::size_t>(shape.ranks));
    }
    order.replicas_of_stage.assign(stages, 1);
    order.ranks.resize(static_cast<std::size_t>(shape.ranks));
    return order;
}

void place_in_a_v(ComputeOrder& order) {
    const std::size_t ranks = order.ranks.size();
    for (std::size_t r = 0; r < ranks; ++r) {
        order.rank_of_stage[r] = static_cast<std::uint16_t>(r);
        order.rank_of_stage[2 * ranks - 1 - r] = static_cast<std::uint16_t>(r);
    }
}

int steps_for_a_period(int microbatches, int workers) {
    return std::max(4, 2 + (2 * workers + microbatches - 1) / microbatches);
}

Errors check_shape(const ScheduleShape& shape, const GeneratorInfo& info) {
    constexpr int kMaxStages = 16384;  // stages are 16 bits wide, and a peer has two lanes
    constexpr int kMaxMicrobatches = 1 << 20;
    Errors errors;
    const auto error = [&](std::string message, std::string context, std::string hint) {
        errors.push_back({ErrorCode::Unreadable, std::move(message), std::move(context), std::move(hint)});
    };
    const auto in_range = [&](int value, int high, const char* name) {
        if (value >= 1 && value <= high) return true;
        error(fmt::format("{} is {}, outside 1..{}", name, value, high), name,
              fmt::format("{} {}", name, value < 1 ? 1 : high));
        return false;
    };
    bool sane = in_range(shape.ranks, kMaxStages, "ranks");
    sane &= in_range(shape.virtual_stages, kMaxStages, "virtual_stages");
    sane &= in_range(shape.microbatches, kMaxMicrobatches, "microbatches");
    if (!sane) return errors;
    if (info.fixed_virtual_stages > 0 && shape.virtual_stages != info.fixed_virtual_stages) {
        error(fmt::format("{} places exactly {} stages on a rank, not {}", info.name,
                          info.fixed_virtual_stages, shape.virtual_stages),
              "virtual_stages", fmt::format("virtual_stages {}", info.fixed_virtual_stages));
    } else if (!info.virtual_stages && info.fixed_virtual_stages == 0 && shape.virtual_stages != 1) {
        error(fmt::format("{} places one stage on a rank, not {}", info.name, shape.virtual_stages),
              "virtual_stages", "virtual_stages 1, or the schedule interleaved");
    }
    if (shape.ranks > kMaxStages / shape.virtual_stages) {
        error(fmt::format("{} ranks of {} stages are more than {} stages", shape.ranks, shape.virtual_stages,
                          kMaxStages),
              "virtual_stages", fmt::format("virtual_stages {}", kMaxStages / shape.ranks));
    }
    if (!shape.replicas.empty() && !info.replicates) {
        for (const int replicas : shape.replicas) {
            if (replicas == 1) continue;
            error(fmt::format("{} runs one replica of each stage, not {}", info.name, replicas), "replicas",
                  "data parallelism over the whole pipeline, or the schedule pipedream");
            break;
        }
    }
    if (shape.microbatch_group > 0 && !info.interleaved) {
        error(fmt::format("groups of microbatches belong to interleaved; {} runs one after the other",
                          info.name),
              "microbatch_group", "microbatch_group 0, or the schedule interleaved");
    }
    if (shape.vertical_sync && !info.replicates) {
        error(fmt::format("vertical sync belongs to pipedream's weight versions; {} has one version",
                          info.name),
              "vertical_sync", "vertical_sync false, or the schedule pipedream");
    }
    return errors;
}

}  // namespace tw

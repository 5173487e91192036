// What a plan may say about its gradient synchronisation beside the method's name. Each method uses some of
// them (GradientSync::options); the others are refused where they are given.
#pragma once

#include <cstdint>
#include <string_view>

namespace tw {

struct SyncOptions {
    int servers = 0;              // parameter servers; 0: a shard of the parameters on every replica
    int staleness = -1;           // ps-async: largest lead in clocks (Ho et al. 2013); -1: unbounded
    int local_steps = 16;         // local-sgd: H
    bool outer_momentum = false;  // local-sgd: DiLoCo's outer optimizer
    double density = 0.01;        // top-k, count-sketch: share of the gradient that is sent
    std::int64_t block = 256;     // 8-bit: elements that share a scale
    int rank = 4;                 // powersgd
    int sketch_rows = 5;          // count-sketch
    double sketch_width = 0.02;   // count-sketch: columns over parameters
    friend bool operator==(const SyncOptions&, const SyncOptions&) = default;
};

// visit(name, member) for each option, in the order of documents.
template <class Visit>
void for_each_sync_option(Visit&& visit) {
    using namespace std::string_view_literals;
    visit("servers"sv, &SyncOptions::servers);
    visit("staleness"sv, &SyncOptions::staleness);
    visit("local_steps"sv, &SyncOptions::local_steps);
    visit("outer_momentum"sv, &SyncOptions::outer_momentum);
    visit("density"sv, &SyncOptions::density);
    visit("block"sv, &SyncOptions::block);
    visit("rank"sv, &SyncOptions::rank);
    visit("sketch_rows"sv, &SyncOptions::sketch_rows);
    visit("sketch_width"sv, &SyncOptions::sketch_width);
}

}  // namespace tw

#include "profiler/bench/team.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include <unistd.h>

#include "base/check.hpp"

namespace tw {
namespace {

// A number for this host: 24 bits, which a float holds exactly (FNV-1a).
float host_number() {
    char name[256] = {};
    gethostname(name, sizeof name - 1);
    std::uint32_t hash = 2166136261U;
    for (const char* c = name; *c != '\0'; ++c)
        hash = (hash ^ static_cast<unsigned char>(*c)) * 16777619U;
    return static_cast<float>(hash & 0xffffffU);
}

}  // namespace

Result<std::unique_ptr<Team>> Team::create(Transport& transport, int active) {
    auto team = std::make_unique<Team>();
    std::vector<int> ranks(static_cast<std::size_t>(transport.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    auto all = transport.create("profile", ranks);
    if (!all) return all.errors();
    team->all_ = std::move(*all);
    const int size = std::clamp(active, 1, transport.size());
    team->active_size_ = size;
    if (transport.rank() < size) {
        auto measuring = transport.create("profile-active",
                                          std::span<const int>(ranks).first(static_cast<std::size_t>(size)));
        if (!measuring) return measuring.errors();
        team->active_ = std::move(*measuring);
    }
    for (int members = 2; members <= size; members *= 2)
        team->sizes_.push_back(members);
    if (size > 1 && team->sizes_.back() != size) team->sizes_.push_back(size);
    for (const int members : team->sizes_) {
        if (transport.rank() >= members) {
            team->firsts_.push_back(nullptr);
            continue;
        }
        auto group = transport.create("profile-" + std::to_string(members),
                                      std::span<const int>(ranks).first(static_cast<std::size_t>(members)));
        if (!group) return group.errors();
        team->firsts_.push_back(std::move(*group));
    }
    if (transport.size() > 1) {
        std::vector<float> hosts(ranks.size());
        float own = host_number();
        if (Status done =
                team->all_
                    ->all_gather({&own, DType::F32, Shape{1}},
                                 {hosts.data(), DType::F32, Shape{static_cast<std::int64_t>(hosts.size())}})
                    ->wait();
            !done)
            return done.errors();
        team->nodes_ = static_cast<int>(std::set<float>(hosts.begin(), hosts.end()).size());
        for (int r = size - 1; r > 0; --r) {
            if (hosts[static_cast<std::size_t>(r)] != hosts[0]) team->far_rank_ = r;
        }
    }
    return team;
}

Communicator* Team::first(int members) const {
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
        if (sizes_[i] == members) return firsts_[i].get();
    }
    return nullptr;
}

double Team::agree(double value) const {
    if (all_->size() == 1) return value;
    // Two floats hold a double's leading digits and the rest.
    float parts[2] = {static_cast<float>(value), 0};
    parts[1] = static_cast<float>(value - static_cast<double>(parts[0]));
    const RequestPtr request = all_->broadcast({parts, DType::F32, Shape{2}}, 0);
    while (!request->test())
        std::this_thread::sleep_for(std::chrono::microseconds(500));
    return static_cast<double>(parts[0]) + static_cast<double>(parts[1]);
}

void Team::follow() const {
    while (true) {
        const double wanted = agree(0);
        if (wanted == kEnd) return;
        while (wanted > 0 && agree(0) > 0) {
        }
    }
}

}  // namespace tw

#include "profiler/bench/team.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include <fmt/format.h>
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

// A number for the host of every rank.
Result<std::vector<float>> hosts_of_ranks(Communicator& all) {
    std::vector<float> hosts(static_cast<std::size_t>(all.size()), 0);
    if (all.size() == 1) return hosts;
    float own = host_number();
    if (Status done =
            all.all_gather({&own, DType::F32, Shape{1}},
                           {hosts.data(), DType::F32, Shape{static_cast<std::int64_t>(hosts.size())}})
                ->wait();
        !done)
        return done.errors();
    return hosts;
}

bool evenly_spread(const std::vector<int>& ranks, const std::vector<float>& hosts) {
    std::map<float, int> on_host;
    for (const int r : ranks)
        ++on_host[hosts[static_cast<std::size_t>(r)]];
    return std::all_of(on_host.begin(), on_host.end(),
                       [&](const auto& host) { return host.second == on_host.begin()->second; });
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
    if (const std::size_t half = ranks.size() / 2; half >= 2 && ranks.size() == 2 * half) {
        const bool second = static_cast<std::size_t>(transport.rank()) >= half;
        auto own = transport.create(second ? "profile-second-half" : "profile-first-half",
                                    std::span<const int>(ranks).subspan(second ? half : 0, half));
        if (!own) return own.errors();
        team->half_ = std::move(*own);
    }
    const auto hosts = hosts_of_ranks(*team->all_);
    if (!hosts) return hosts.errors();
    const auto nodes_of = [&](std::span<const int> of) {
        std::set<float> distinct;
        for (const int r : of)
            distinct.insert((*hosts)[static_cast<std::size_t>(r)]);
        return static_cast<int>(distinct.size());
    };
    team->nodes_ = nodes_of(ranks);
    for (int r = size - 1; r > 0; --r) {
        if ((*hosts)[static_cast<std::size_t>(r)] != hosts->front()) team->far_rank_ = r;
    }
    std::vector<std::vector<int>> wanted;
    const auto want = [&](std::vector<int> members) {
        if (!evenly_spread(members, *hosts)) return;
        if (std::find(wanted.begin(), wanted.end(), members) == wanted.end())
            wanted.push_back(std::move(members));
    };
    for (int members = 2; members < 2 * size && size > 1; members *= 2)
        want({ranks.begin(), ranks.begin() + std::min(members, size)});
    std::vector<int> one_of_each;
    for (int r = 0; r < size; ++r) {
        const auto same = [&](int other) {
            return (*hosts)[static_cast<std::size_t>(other)] == (*hosts)[static_cast<std::size_t>(r)];
        };
        if (std::none_of(one_of_each.begin(), one_of_each.end(), same)) one_of_each.push_back(r);
    }
    if (one_of_each.size() > 1) want(one_of_each);
    for (const std::vector<int>& members : wanted) {
        Group group;
        group.size = static_cast<int>(members.size());
        group.nodes = nodes_of(members);
        if (std::find(members.begin(), members.end(), transport.rank()) != members.end()) {
            auto made = transport.create(fmt::format("profile-{}-{}", group.size, group.nodes), members);
            if (!made) return made.errors();
            group.members = std::move(*made);
        }
        team->groups_.push_back(std::move(group));
    }
    return team;
}

double Team::agree(double value) const {
    if (all_->size() == 1) return value;
    // Two floats hold a double's leading digits and the rest.
    float parts[2] = {static_cast<float>(value), 0};
    parts[1] = static_cast<float>(value - static_cast<double>(parts[0]));
    const RequestPtr request = all_->broadcast({parts, DType::F32, Shape{2}}, 0);
    // The longer rank 0 measures alone, the more seldom it is disturbed.
    using namespace std::chrono_literals;
    const auto begin = std::chrono::steady_clock::now();
    while (!request->test()) {
        const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - begin;
        std::this_thread::sleep_for(std::clamp<std::chrono::nanoseconds>(waited / 8, 200us, 10ms));
    }
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

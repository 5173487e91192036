#include "planner/why_nothing_fits.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "planner/infeasible.hpp"
#include "planner/search.hpp"

namespace tw {
namespace {

constexpr int kMostTimesTheDevices = 64;
constexpr int kSizesBetween = 8;  // cluster sizes tried between one that is too small and its double

class Clock {
  public:
    Clock(double limit_s, const std::atomic<bool>* stop)
        : limit_s_(limit_s), stop_(stop), start_(std::chrono::steady_clock::now()) {}
    [[nodiscard]] double left() const {
        if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) return 0;
        const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
        return std::max(0.0, limit_s_ - spent);
    }

  private:
    double limit_s_;
    const std::atomic<bool>* stop_;
    std::chrono::steady_clock::time_point start_;
};

// The best by memory of those that fit.
std::optional<RankedPlan> best_by_memory(const std::shared_ptr<const Environment>& environment,
                                         PlanRequest request, double limit_s) {
    request.objective = Objective::Memory;
    request.top = 1;
    request.every = false;
    request.time_limit_s = limit_s;
    const SearchSpace space(*environment, request);
    if (space.meshes().empty()) return std::nullopt;
    PlanAnswer answer = best_first_search(Simulator(environment), space, request);
    if (answer.plans.empty()) return std::nullopt;
    return std::move(answer.plans.front());
}

// One that fits: as plans are looked at by how little memory they may need, not far from the smallest.
std::optional<RankedPlan> some_that_fits(const std::shared_ptr<const Environment>& environment,
                                         PlanRequest request, const Clock& clock) {
    std::atomic<bool> enough{false};
    request.stop = &enough;
    request.progress = [&](const SearchProgress& progress) {
        enough = !progress.best->empty() || clock.left() <= 0;
    };
    return clock.left() > 0 ? best_by_memory(environment, request, clock.left()) : std::nullopt;
}

struct FixedKey {
    std::string_view name;
    void (*release)(PlanConstraints&);
};

constexpr std::array kFixedKeys = {
    FixedKey{"dp", [](PlanConstraints& fix) { fix.dp = {}; }},
    FixedKey{"tp", [](PlanConstraints& fix) { fix.tp = {}; }},
    FixedKey{"sp", [](PlanConstraints& fix) { fix.sp = {}; }},
    FixedKey{"pp", [](PlanConstraints& fix) { fix.pp = {}; }},
    FixedKey{"vpp", [](PlanConstraints& fix) { fix.vpp = {}; }},
    FixedKey{"cp", [](PlanConstraints& fix) { fix.cp = {}; }},
    FixedKey{"ep", [](PlanConstraints& fix) { fix.ep = {}; }},
    FixedKey{"etp", [](PlanConstraints& fix) { fix.etp = {}; }},
    FixedKey{"mbs", [](PlanConstraints& fix) { fix.mbs = {}; }},
    FixedKey{"zero", [](PlanConstraints& fix) { fix.zero = fix.zero_shard = {}; }},
    FixedKey{"recompute",
             [](PlanConstraints& fix) {
                 fix.recompute = {};
                 fix.full_blocks = {};
                 fix.modules = {};
             }},
    FixedKey{"schedule", [](PlanConstraints& fix) { fix.schedule = {}; }},
};

std::string fits_with(const std::string& what, const RankedPlan& plan) {
    return fmt::format("{}: {} then fits, with {} a device", what, summary(plan.plan),
                       format_bytes(plan.evaluation.peak_device_bytes));
}

// Where one constraint alone keeps plans from fitting: each of these; else all together, where that helps.
void without_constraints(const std::shared_ptr<const Environment>& environment, const PlanRequest& request,
                         const Clock& clock, std::vector<std::string>& help) {
    if (request.constraints == PlanConstraints{}) return;
    const std::size_t before = help.size();
    for (const FixedKey& key : kFixedKeys) {
        PlanRequest released = request;
        key.release(released.constraints);
        if (released.constraints == request.constraints) continue;
        const auto plan = some_that_fits(environment, released, clock);
        if (plan) help.push_back(fits_with(fmt::format("without {} in --fix", key.name), *plan));
    }
    if (help.size() > before) return;
    PlanRequest released = request;
    released.constraints = {};
    const auto plan = some_that_fits(environment, released, clock);
    if (plan) help.push_back(fits_with("without --fix", *plan));
}

// The cluster with so many devices; nothing where they are no whole nodes, nor a part of one.
std::shared_ptr<const Environment> with_devices(const Environment& environment, int devices) {
    auto larger = std::make_shared<Environment>(environment);
    NodeGroup& group = larger->cluster.groups.front();
    const auto whole = load_node_type(group.type.name);
    if (whole && whole->device == group.type.device && whole->devices > group.type.devices)
        group.type = *whole;
    if (devices < group.type.devices) {
        group.type = part_of_node(group.type, devices);
        group.nodes = 1;
    } else if (devices % group.type.devices == 0) {
        group.nodes = devices / group.type.devices;
    } else {
        return nullptr;
    }
    return larger;
}

void more_devices(const Environment& environment, const PlanRequest& request, const Clock& clock,
                  std::vector<std::string>& help) {
    if (!environment.cluster.uniform()) return;
    const int devices = environment.cluster.devices();
    const auto fitting = [&](int count) -> std::optional<RankedPlan> {
        const auto larger = with_devices(environment, count);
        return larger ? some_that_fits(larger, request, clock) : std::nullopt;
    };
    int most = devices;
    std::optional<RankedPlan> plan;
    while (!plan && most < devices * kMostTimesTheDevices && clock.left() > 0) {
        most *= 2;
        plan = fitting(most);
    }
    if (!plan) return;
    const int step = std::max(1, most / 2 / kSizesBetween);
    for (int count = most / 2 + step; count < most && clock.left() > 0; count += step) {
        if (auto fewer = fitting(count)) {
            plan = std::move(fewer);
            most = count;
        }
    }
    help.push_back(fits_with(fmt::format("with {} devices, {} more", most, most - devices), *plan));
}

void offloaded(const std::shared_ptr<const Environment>& environment, PlanRequest request, const Clock& clock,
               std::vector<std::string>& help) {
    if (request.base.offload_optimizer > 0) return;
    request.base.offload_optimizer = 1;
    const auto plan = some_that_fits(environment, request, clock);
    if (!plan ||
        !check_plan(environment->graph, environment->cluster, plan->plan, request.target).errors.empty())
        return;
    help.push_back(fits_with(
        "with optimizer states in host memory (\"offload_optimizer\": 1 in a plan document; not searched)",
        *plan));
}

}  // namespace

std::optional<RankedPlan> smallest_plan(const std::shared_ptr<const Environment>& environment,
                                        const PlanRequest& request, double limit_s) {
    auto large = std::make_shared<Environment>(*environment);
    for (NodeGroup& group : large->cluster.groups)
        group.device.memory = Bytes(std::int64_t{1} << 50);
    PlanRequest quiet = request;
    quiet.progress = nullptr;
    auto plan = best_by_memory(large, quiet, limit_s);
    if (!plan) return std::nullopt;
    // Orders that keep to the memory there is hold less than on the large devices.
    const auto own = Simulator(environment).evaluate(plan->plan);
    if (own) plan->evaluation = *own;
    return plan;
}

std::vector<std::string> why_nothing_fits(const std::shared_ptr<const Environment>& environment,
                                          const PlanRequest& request, double limit_s) {
    const Clock clock(limit_s, request.stop);
    std::vector<std::string> missing;
    const auto smallest = smallest_plan(environment, request, clock.left() / 2);
    if (!smallest) return missing;
    const double needed = smallest->evaluation.required_bytes;
    std::string text =
        fmt::format("memory: the smallest plan needs {} a device ({}), there are {}", format_bytes(needed),
                    summary(smallest->plan), format_bytes(environment->usable_memory()));
    double least = environment->usable_memory();
    for (const NodeGroup& group : environment->cluster.groups)
        least = std::min(least, environment->usable_memory(group.device));
    if (least < environment->usable_memory())
        text += fmt::format(", of the smallest devices {}", format_bytes(least));
    if (environment->memory_headroom > 0)
        text += fmt::format(" beside the {:.1f} % to be left free", 100 * environment->memory_headroom);
    missing.push_back(std::move(text));
    without_constraints(environment, request, clock, missing);
    offloaded(environment, request, clock, missing);
    more_devices(*environment, request, clock, missing);
    return missing;
}

}  // namespace tw

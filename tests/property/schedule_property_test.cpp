// Properties of every registered schedule over many shapes and lowering options; a new generator is tested by
// being in the registry.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "plan/schedule/check.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/schedule/lower.hpp"
#include "plan/schedule/pytorch_csv.hpp"
#include "plan/schedule/text.hpp"
#include "tests/support/test_scale.hpp"

namespace tw {
namespace {

constexpr std::uint64_t kSeed = 20240111;

// Options drawn at random, all P2p modes equally often.
LoweringOptions random_options(Prng& random, int stages) {
    const auto coin = [&] { return random.integer(0, 1) == 1; };
    LoweringOptions options;
    options.p2p = static_cast<LoweringOptions::P2p>(random.integer(0, 2));
    options.batch_p2p = coin();
    options.overlap_p2p = coin();
    options.grad_sync = static_cast<LoweringOptions::GradSync>(random.integer(0, 2));
    options.overlap_grad_sync = coin();
    options.sync_every_microbatch = random.integer(0, 3) == 0;
    options.gather_params_after_step = coin();
    options.overlap_param_gather = coin();
    options.unshard = random.integer(0, 3) == 0;
    options.tied_embeddings = coin();
    options.grad_norm = random.integer(0, 3) != 0;
    options.offload_activations = random.integer(0, 3) == 0;
    options.parameter_server = random.integer(0, 7) == 0;
    if (coin()) {
        for (int s = 0; s < stages; ++s)
            options.buckets.push_back(static_cast<int>(random.integer(1, 4)));
    }
    return options;
}

std::string describe(const GeneratorInfo& info, const ScheduleShape& shape) {
    return info.name + " p" + std::to_string(shape.ranks) + " v" + std::to_string(shape.virtual_stages) +
           " m" + std::to_string(shape.microbatches);
}

// Calls visit(shape) for all legal shapes with p 1..8, v 1..3, m 1..16.
template <class Visit>
void for_legal_shapes(const ScheduleGenerator& generator, const Visit& visit) {
    for (int p = 1; p <= 8; ++p) {
        for (int v = 1; v <= 3; ++v) {
            for (int m = 1; m <= 16; ++m) {
                ScheduleShape shape;
                shape.ranks = p;
                shape.virtual_stages = v;
                shape.microbatches = m;
                if (generator.check(shape).empty()) visit(shape);
            }
        }
    }
}

void expect_complete(const Schedule& schedule, const std::string& what) {
    std::map<std::tuple<Opcode, int, int>, int> computed;
    std::map<std::tuple<bool, int, int>, int> moved;
    for (const RankProgram& program : schedule.programs) {
        for (const Instruction& i : program.instructions) {
            if (is_compute(i.opcode) && i.part <= 1) {
                if (i.opcode == Opcode::OverlapForwardBackward) {
                    ++computed[{Opcode::Forward, i.stage, i.microbatch}];
                    ++computed[{Opcode::Backward, i.stage2, i.microbatch2}];
                } else {
                    ++computed[{i.opcode, i.stage, i.microbatch}];
                }
            }
            const bool gradient = i.opcode == Opcode::SendGrad || i.opcode == Opcode::RecvGrad;
            if (is_send(i.opcode)) ++moved[{gradient, i.stage + (gradient ? -1 : 1), i.microbatch}];
            if (is_receive(i.opcode)) --moved[{gradient, i.stage, i.microbatch}];
        }
    }
    for (const auto& [key, times] : computed)
        ASSERT_EQ(times, 1) << what;
    for (const auto& [key, balance] : moved)
        ASSERT_EQ(balance, 0) << what << ": sends differ from receives";
    const int cells = schedule.stages * schedule.microbatches * schedule.steps;
    int forwards = 0, whole = 0, inputs = 0, weights = 0;
    for (const auto& [key, times] : computed) {
        forwards += std::get<0>(key) == Opcode::Forward;
        whole += std::get<0>(key) == Opcode::Backward;
        inputs += std::get<0>(key) == Opcode::BackwardInput;
        weights += std::get<0>(key) == Opcode::BackwardWeight;
    }
    ASSERT_EQ(forwards, cells) << what;
    ASSERT_EQ(whole + inputs, cells) << what;
    ASSERT_EQ(inputs, weights) << what;
}

class EverySchedule : public testing::TestWithParam<const ScheduleGenerator*> {};

INSTANTIATE_TEST_SUITE_P(Registry, EverySchedule,
                         testing::ValuesIn(schedule_generators().begin(), schedule_generators().end()),
                         [](const auto& param) {
                             std::string name = param.param->info().name;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST_P(EverySchedule, OrdersAreLegalAndRepeatable) {
    const GeneratorInfo info = GetParam()->info();
    int shapes = 0;
    for_legal_shapes(*GetParam(), [&](const ScheduleShape& shape) {
        const ComputeOrder order = GetParam()->generate(shape, nullptr);
        const Errors errors = check_order(order);
        ASSERT_TRUE(errors.empty()) << describe(info, shape) << ": " << to_string(errors)
                                    << format_grid(order, &errors[0]);
        EXPECT_EQ(order.boundary, info.boundary);
        EXPECT_EQ(order.semantics, info.semantics);
        EXPECT_TRUE(GetParam()->generate(shape, nullptr).ranks == order.ranks) << describe(info, shape);
        const auto overlaps = [](const auto& actions) {
            return std::any_of(actions.begin(), actions.end(),
                               [](const Action& a) { return a.opcode == Opcode::OverlapForwardBackward; });
        };
        EXPECT_TRUE(info.overlaps_passes || std::none_of(order.ranks.begin(), order.ranks.end(), overlaps));
        for (const int peak : GetParam()->peak_in_flight(shape)) {
            EXPECT_GE(peak, 1);
            EXPECT_LE(peak, order.total_microbatches());
        }
        ++shapes;
    });
    EXPECT_GE(shapes, 30) << info.name;
}

TEST_P(EverySchedule, LoweredSchedulesRunInEveryP2pMode) {
    const GeneratorInfo info = GetParam()->info();
    Prng random(kSeed);
    for_legal_shapes(*GetParam(), [&](const ScheduleShape& shape) {
        const ComputeOrder order = GetParam()->generate(shape, nullptr);
        for (int draw = 0; draw < 3; ++draw) {
            const Schedule schedule = lower(order, info.name, random_options(random, order.stages));
            const Errors errors = check_schedule(schedule);
            ASSERT_TRUE(errors.empty()) << describe(info, shape) << ": " << to_string(errors[0]);
            expect_complete(schedule, describe(info, shape));
        }
    });
}

// Long orders of many microbatches are lowered with most of their steady phase left out, then lengthened.
TEST_P(EverySchedule, CopiesOfASteadyPhaseAreWhatEachActionGives) {
    const GeneratorInfo info = GetParam()->info();
    Prng random(kSeed, 2);
    const auto random_times = [&](std::size_t count) {
        std::vector<SimTime> times(count);
        for (SimTime& time : times)
            time = random.integer(5, 20);
        return times;
    };
    int copied = 0;
    for (int draw = 0; draw < scaled(60); ++draw) {
        ScheduleShape shape;
        shape.ranks = static_cast<int>(random.integer(1, 12));
        shape.virtual_stages = static_cast<int>(random.integer(1, 3));
        shape.microbatches = static_cast<int>(draw % 3 == 0 ? random.integer(1, 20 * shape.ranks)
                                                            : random.integer(1, 20) * shape.ranks);
        if (!GetParam()->check(shape).empty()) continue;
        const auto stages = static_cast<std::size_t>(shape.ranks * shape.virtual_stages);
        StageCosts costs;
        costs.forward = random_times(stages);
        costs.backward_input = random_times(stages);
        costs.backward_weight = random_times(stages);
        costs.transfer = random.integer(0, 3);
        costs.activation_bytes.assign(stages, 1.0);
        costs.weight_grad_bytes.assign(stages, 0.5);
        const ComputeOrder order = GetParam()->generate(shape, draw % 2 == 0 ? &costs : nullptr);
        const LoweringOptions options = random_options(random, order.stages);
        const Schedule schedule = lower(order, info.name, options);
        const auto each = lower_each(order, info.name, options);
        ASSERT_TRUE(each) << describe(info, shape);
        copied += schedule.steady.programs.empty() ? 0 : 1;
        EXPECT_EQ(schedule.microbatches, each->microbatches);
        EXPECT_EQ(schedule.duration_classes, each->duration_classes);
        EXPECT_EQ(schedule.size_classes, each->size_classes);
        EXPECT_EQ(schedule.groups, each->groups);
        EXPECT_EQ(schedule.senders, each->senders) << describe(info, shape);
        ASSERT_EQ(schedule.programs.size(), each->programs.size());
        for (std::size_t r = 0; r < schedule.programs.size(); ++r) {
            ASSERT_EQ(schedule.programs[r].instructions, each->programs[r].instructions)
                << describe(info, shape) << " rank " << r;
            ASSERT_EQ(schedule.programs[r].wait_begin, each->programs[r].wait_begin);
            ASSERT_EQ(schedule.programs[r].waits, each->programs[r].waits);
        }
    }
    if (info.name == "1f1b" || info.name == "zb-h1" || info.name == "interleaved" || info.name == "zb-v") {
        EXPECT_GT(copied, 0);
    }
}

TEST_P(EverySchedule, TextComesBackFieldByField) {
    const GeneratorInfo info = GetParam()->info();
    Prng random(kSeed, 1);
    int checked = 0;
    for_legal_shapes(*GetParam(), [&](const ScheduleShape& shape) {
        if (++checked % 5 != 0) return;
        const ComputeOrder order = GetParam()->generate(shape, nullptr);
        const Schedule schedule = lower(order, info.name, random_options(random, order.stages));
        const std::string text = format_schedule(schedule);
        const auto parsed = parse_schedule(text);
        ASSERT_TRUE(parsed) << to_string(parsed.errors());
        EXPECT_EQ(parsed->generator, schedule.generator);
        EXPECT_EQ(parsed->stages, schedule.stages);
        EXPECT_EQ(parsed->microbatches, schedule.microbatches);
        EXPECT_EQ(parsed->steps, schedule.steps);
        EXPECT_EQ(parsed->boundary, schedule.boundary);
        EXPECT_EQ(parsed->semantics, schedule.semantics);
        EXPECT_EQ(parsed->rank_of_stage, schedule.rank_of_stage);
        EXPECT_EQ(parsed->replicas_of_stage, schedule.replicas_of_stage);
        EXPECT_EQ(parsed->duration_classes, schedule.duration_classes);
        EXPECT_EQ(parsed->size_classes, schedule.size_classes);
        EXPECT_EQ(parsed->groups, schedule.groups);
        ASSERT_EQ(parsed->programs.size(), schedule.programs.size());
        for (std::size_t r = 0; r < schedule.programs.size(); ++r) {
            EXPECT_EQ(parsed->programs[r].instructions, schedule.programs[r].instructions);
            EXPECT_EQ(parsed->programs[r].wait_begin, schedule.programs[r].wait_begin);
            EXPECT_EQ(parsed->programs[r].waits, schedule.programs[r].waits);
        }
        EXPECT_EQ(format_schedule(*parsed), text);
    });
}

TEST_P(EverySchedule, PytorchsTableComesBack) {
    if (GetParam()->info().semantics != Semantics::Synchronous) GTEST_SKIP() << "PyTorch's schedules flush";
    for_legal_shapes(*GetParam(), [&](const ScheduleShape& shape) {
        const ComputeOrder order = GetParam()->generate(shape, nullptr);
        const auto back = read_pytorch_csv(write_pytorch_csv(order));
        ASSERT_TRUE(back) << to_string(back.errors());
        EXPECT_TRUE(back->ranks == order.ranks) << describe(GetParam()->info(), shape);
        EXPECT_EQ(back->rank_of_stage, order.rank_of_stage);
        LoweringOptions plain;
        plain.grad_norm = false;
        const auto schedule =
            read_pytorch_csv_schedule(write_pytorch_csv(lower(order, "x", plain)), plain.p2p);
        ASSERT_TRUE(schedule) << to_string(schedule.errors());
        EXPECT_TRUE(check_schedule(*schedule).empty()) << to_string(check_schedule(*schedule));
    });
}

TEST_P(EverySchedule, CostsMatterOnlyWhereTheInfoSaysSo) {
    StageCosts costs;
    costs.forward.assign(24, 700);
    costs.backward_input.assign(24, 1900);
    costs.backward_weight.assign(24, 300);
    costs.transfer = 250;
    for_legal_shapes(*GetParam(), [&](const ScheduleShape& shape) {
        const ComputeOrder order = GetParam()->generate(shape, &costs);
        if (!GetParam()->info().uses_costs) {
            EXPECT_TRUE(order.ranks == GetParam()->generate(shape, nullptr).ranks);
        } else {
            EXPECT_TRUE(check_order(order).empty());
        }
    });
}

TEST(PipeDreamReplicas, AnyReplicationRunsThrough) {
    Prng random(kSeed, 2);
    for (int draw = 0; draw < scaled(150); ++draw) {
        ScheduleShape shape;
        shape.ranks = static_cast<int>(random.integer(1, 5));
        int together = 1;
        for (int s = 0; s < shape.ranks; ++s) {
            shape.replicas.push_back(static_cast<int>(random.integer(1, 4)));
            together = std::lcm(together, shape.replicas.back());
        }
        shape.microbatches = together * static_cast<int>(random.integer(1, 2));
        const auto order = generate_order("pipedream", shape);
        ASSERT_TRUE(order) << to_string(order.errors());
        const Errors order_errors = check_order(*order);
        ASSERT_TRUE(order_errors.empty()) << to_string(order_errors[0]);
        const Schedule schedule = lower(*order, "pipedream", random_options(random, order->stages));
        const Errors errors = check_schedule(schedule);
        ASSERT_TRUE(errors.empty()) << to_string(errors[0]);
    }
}

TEST(ScheduleTextFuzz, DamagedTextsAreErrorsOrSchedules) {
    ScheduleShape shape;
    shape.ranks = 2;
    shape.microbatches = 2;
    const std::string good = format_schedule(lower(*generate_order("1f1b", shape), "1f1b", {}));
    const std::string csv = write_pytorch_csv(lower(*generate_order("1f1b", shape), "1f1b", {}));
    Prng random(kSeed, 3);
    for (int draw = 0; draw < scaled(4000); ++draw) {
        std::string text = draw % 2 == 0 ? good : csv;
        for (int edit = 0; edit < 3; ++edit) {
            const auto at =
                static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(text.size()) - 1));
            constexpr std::string_view kBytes = "0123456789FBIW_=, \n(;)\xff-";
            text[at] = kBytes[static_cast<std::size_t>(
                random.integer(0, static_cast<std::int64_t>(kBytes.size()) - 1))];
        }
        if (draw % 2 == 0) {
            const auto parsed = parse_schedule(text);
            if (parsed) (void)check_schedule(*parsed);
        } else {
            const auto order = read_pytorch_csv(text);
            if (order) {
                const Errors errors = check_order(*order);
                (void)format_grid(*order, errors.empty() ? nullptr : &errors[0]);
            }
            const auto schedule = read_pytorch_csv_schedule(text, LoweringOptions::P2p::Single);
            if (schedule) (void)check_schedule(*schedule);
        }
    }
}

}  // namespace
}  // namespace tw

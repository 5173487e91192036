#include "plan/fix_spec.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "tests/support/test_scale.hpp"

namespace tw {
namespace {

TEST(FixSpec, ReadsValuesRangesAndAlternatives) {
    const auto fix =
        parse_fix("tp=8, pp=2|4..8 ,schedule=1f1b|gpipe,mbs=1..8,zero=0..1,recompute=none|full,sp=on");
    ASSERT_TRUE(fix.has_value()) << to_string(fix.errors());
    EXPECT_TRUE(fix->tp.allows(8));
    EXPECT_FALSE(fix->tp.allows(4));
    for (const auto& [pp, allowed] :
         {std::pair{1, false}, {2, true}, {3, false}, {4, true}, {8, true}, {9, false}}) {
        EXPECT_EQ(fix->pp.allows(pp), allowed) << pp;
    }
    EXPECT_TRUE(fix->dp.any());
    EXPECT_TRUE(fix->dp.allows(12345));
    EXPECT_TRUE(fix->recompute.allows(RecomputeMode::Full));
    EXPECT_FALSE(fix->recompute.allows(RecomputeMode::Selective));
    EXPECT_TRUE(fix->schedule.allows("gpipe"));
    EXPECT_FALSE(fix->schedule.allows("naive"));
    EXPECT_TRUE(fix->sp.allows(1));
    EXPECT_FALSE(fix->sp.allows(0));
    EXPECT_EQ(to_string(*fix),
              "tp=8,pp=2|4..8,mbs=1..8,zero=0..1,sp=on,recompute=none|full,schedule=1f1b|gpipe");
}

TEST(FixSpec, AllowsAPlanWhereEveryKeyDoes) {
    ParallelPlan plan;
    plan.mesh = {.dp = 2, .pp = 2, .tp = 4, .cp = 1, .ep = 1};
    plan.stages.resize(2);
    plan.microbatch = 2;
    for (const char* spec : {"", "dp=2", "tp=4,pp=2", "cp=1,ep=1,vpp=1", "mbs=1..2", "zero=0", "sp=off",
                             "schedule=1f1b", "recompute=none|full"}) {
        EXPECT_TRUE(parse_fix(spec)->allows(plan)) << spec;
    }
    for (const char* spec : {"dp=1", "tp=8", "pp=4", "cp=2", "ep=2", "vpp=2", "mbs=3..9", "zero=1..3",
                             "sp=on", "schedule=gpipe", "recompute=full"}) {
        EXPECT_FALSE(parse_fix(spec)->allows(plan)) << spec;
    }
    plan.stages[1].recompute = RecomputeMode::Full;  // the stages decide, one by one
    EXPECT_FALSE(parse_fix("recompute=none")->allows(plan));
    EXPECT_TRUE(parse_fix("recompute=none|full")->allows(plan));
}

TEST(FixSpec, LabelsOfTablesAreChoices) {
    ParallelPlan plan;
    plan.mesh = {.dp = 4, .pp = 2, .tp = 2, .cp = 1, .ep = 1};
    plan.sequence_parallel = true;
    plan.stages.resize(2);
    plan.zero_stage = 2;
    plan.zero_shard = 2;
    plan.recompute = RecomputeMode::Full;
    for (StageSpec& stage : plan.stages) {
        stage.recompute = RecomputeMode::Full;
        stage.recompute_layers = 3;
    }
    EXPECT_EQ(summary(plan), "tp2 sp pp2 dp4 mbs1 1f1b zero2/2 full:3");
    for (const char* spec :
         {"recompute=full", "recompute=full:3", "recompute=full:2..4", "recompute=none|full:3",
          "recompute=full:1|full:3", "recompute=full:1|full", "zero=2", "zero=2/2", "zero=1..3/2",
          "zero=0|2/2", "etp=1", "tp2 sp pp2 dp4 mbs1 1f1b zero2/2 full:3"}) {
        const auto fix = parse_fix(spec);
        ASSERT_TRUE(fix.has_value()) << spec << ": " << to_string(fix.errors());
        EXPECT_TRUE(fix->allows(plan)) << spec;
        EXPECT_EQ(*parse_fix(to_string(*fix)), *fix) << to_string(*fix);
    }
    for (const char* spec :
         {"recompute=full:2", "recompute=full:all", "recompute=full:4..9", "zero=2/4", "zero=2/all",
          "tp2 pp2 dp4 mbs1 1f1b zero2/2 full:3", "tp2 sp pp2 dp4 mbs1 1f1b zero2 full:3",
          "tp2 sp pp2 dp4 mbs1 1f1b zero2/2 full", "tp2 sp pp2 dp4 mbs1 1f1b zero2/2",
          "tp2 sp pp2 dp4 vpp2 mbs1 1f1b zero2/2 full:3"}) {
        const auto fix = parse_fix(spec);
        ASSERT_TRUE(fix.has_value()) << spec << ": " << to_string(fix.errors());
        EXPECT_FALSE(fix->allows(plan)) << spec;
        EXPECT_EQ(*parse_fix(to_string(*fix)), *fix) << to_string(*fix);
    }
    plan.recompute = RecomputeMode::SelectiveOps;
    for (StageSpec& stage : plan.stages) {
        stage.recompute = RecomputeMode::SelectiveOps;
        stage.recompute_layers = -1;
    }
    for (const std::string& spec : {summary(plan), std::string("recompute=selective-ops"),
                                    std::string("recompute=none|selective-ops")}) {
        const auto fix = parse_fix(spec);
        ASSERT_TRUE(fix.has_value()) << spec << ": " << to_string(fix.errors());
        EXPECT_TRUE(fix->allows(plan)) << spec;
        EXPECT_EQ(*parse_fix(to_string(*fix)), *fix) << to_string(*fix);
    }
    EXPECT_FALSE(parse_fix("recompute=selective")->allows(plan));
    plan.recompute = RecomputeMode::Modules;
    plan.recompute_modules = {RecomputeModule::Norm, RecomputeModule::LatentUpProjection};
    for (StageSpec& stage : plan.stages)
        stage.recompute = RecomputeMode::Modules;
    EXPECT_EQ(summary(plan), "tp2 sp pp2 dp4 mbs1 1f1b zero2/2 modules:layernorm+mla_up_proj");
    for (const std::string& spec : {summary(plan), std::string("recompute=modules"),
                                    std::string("recompute=modules:mla_up_proj+layernorm"),
                                    std::string("recompute=none|modules:layernorm+mla_up_proj|full:2")}) {
        const auto fix = parse_fix(spec);
        ASSERT_TRUE(fix.has_value()) << spec << ": " << to_string(fix.errors());
        EXPECT_TRUE(fix->allows(plan)) << spec;
        EXPECT_EQ(*parse_fix(to_string(*fix)), *fix) << to_string(*fix);
    }
    EXPECT_FALSE(parse_fix("recompute=modules:layernorm")->allows(plan));
    EXPECT_FALSE(parse_fix("recompute=none|full")->allows(plan));
    EXPECT_EQ(parse_fix("recompute=modules:layrnorm").error().message,
              "recompute=modules: unknown module 'layrnorm'");
    EXPECT_EQ(parse_fix("recompute=modules:mlp|modules:moe").error().message,
              "recompute: two lists of modules, mlp and moe");
    EXPECT_EQ(parse_fix("recompute=full:x").error().message,
              "recompute=full: 'x' is not an integer from 0 to 1048576");
    for (const char* spec : {"recompute=full:-1", "zero=2/0", "tp=0"}) {  // what a hint says is legal
        const std::string hint = parse_fix(spec).error().hint;
        EXPECT_TRUE(parse_fix(hint.substr(0, hint.find(',')))) << hint;
        EXPECT_TRUE(parse_fix(hint.substr(hint.find(" or ") + 4))) << hint;
    }
    EXPECT_EQ(parse_fix("zero=0/5").error().hint, "zero=0 or zero=1/5");
    EXPECT_TRUE(parse_fix("zero=0/all"));
    for (const char* spec :
         {"zero=0|1/8", "zero=1/8|0"}) {  // stage 0 leaves the groups of stage 1 as they are
        const auto parsed = parse_fix(spec);
        ASSERT_TRUE(parsed);
        EXPECT_TRUE(parsed->zero_shard.allows(8)) << spec;
        EXPECT_FALSE(parsed->zero_shard.allows(4)) << spec;
        EXPECT_FALSE(parsed->zero_shard.allows(0)) << spec;
        EXPECT_EQ(parse_fix(to_string(*parsed)).value(), *parsed) << to_string(*parsed);
    }
    EXPECT_TRUE(parse_fix("zero=0..1|1/8")->zero_shard.any());
    // Words of labels that no key stands for.
    EXPECT_EQ(parse_fix("tp2 pp2 dp4 mbs1 1f1b offload").error().message,
              "a label's 'offload' cannot be fixed: no search moves optimizer states to host memory");
    EXPECT_EQ(
        parse_fix("tp2 pp2 dp4 mbs1 1f1b recompute-mixed").error().message,
        "a label's 'recompute-mixed' cannot be fixed: every stage of a search's plans recomputes alike");
    EXPECT_EQ(parse_fix("zero=2/0").error().message, "zero: '0' is not an integer from 1 to 1048576");
    EXPECT_TRUE(parse_fix("tp2 pp2 dp4 mbs1 1f1").error().hint.starts_with("did you mean '1f1b'?"));
    EXPECT_EQ(parse_fix("tp2 sp pp2 dp4 mbs1 1f1b zero2/2, layers 3, 5").error().hint,
              "leave ', layers 3, 5' out: the search splits layers by their times");
    EXPECT_EQ(parse_fix("tp 2").error().message, "'tp 2' is not of the form key=value");
}

TEST(FixSpec, RefusesWithTheNearestName) {
    const auto refused = [](const char* spec) {
        const auto fix = parse_fix(spec);
        EXPECT_FALSE(fix.has_value()) << spec;
        if (fix) return Error{};
        EXPECT_EQ(fix.errors().size(), 1U) << to_string(fix.errors());
        EXPECT_EQ(fix.error().code, ErrorCode::Usage);
        EXPECT_EQ(fix.error().context, "--fix");
        return fix.error();
    };
    EXPECT_EQ(refused("zeor=1").message, "unknown key 'zeor'");
    EXPECT_TRUE(refused("zeor=1").hint.starts_with("did you mean 'zero'?"));
    EXPECT_TRUE(refused("schedule=1f1").hint.starts_with("did you mean '1f1b'?"));
    EXPECT_TRUE(refused("recompute=slective").hint.starts_with("did you mean 'selective'?"));
    EXPECT_TRUE(refused("sp=offf").hint.starts_with("did you mean 'off'?"));
    EXPECT_EQ(refused("tp").message, "'tp' is not of the form key=value");
    EXPECT_EQ(refused("tp=2,").message, "'' is not of the form key=value");
    EXPECT_EQ(refused("tp=4,tp=8").message, "'tp' is given twice");
    EXPECT_EQ(refused("tp=4,tp=8").hint, "tp=4|8");
    EXPECT_EQ(refused("mbs=8..1").hint, "mbs=1..8");
    EXPECT_EQ(refused("zero=4").message, "zero: '4' is not an integer from 0 to 3");
    for (const char* spec : {"tp=", "tp=0", "tp=-1", "tp=8x", "tp=1..", "tp=|8", "tp=99999999999999999999",
                             "tp=1.5", "mbs=1..2..3", "tp=+8", "=8", "schedule=", "TP=8"}) {
        refused(spec);
    }
    EXPECT_EQ(parse_fix("a=1,tp=x..y,recompute=all").errors().size(), 4U);
}

TEST(FixSpec, TheCanonicalTextReadsBack) {
    Prng random(3);
    const std::vector<std::string> keys = {"dp", "tp", "pp", "vpp", "cp", "ep", "mbs"};
    for (int round = 0; round < 200; ++round) {
        std::string spec;
        for (const std::string& key : keys) {
            if (random.integer(0, 1) == 0) continue;
            const std::int64_t low = random.integer(1, 64);
            spec += fmt::format("{}{}={}", spec.empty() ? "" : ",", key, low);
            if (random.integer(0, 1) == 1) spec += fmt::format("..{}", low + random.integer(0, 9));
            if (random.integer(0, 1) == 1) spec += fmt::format("|{}", random.integer(1, 64));
        }
        const auto fix = parse_fix(spec);
        ASSERT_TRUE(fix.has_value()) << spec;
        EXPECT_EQ(*parse_fix(to_string(*fix)), *fix) << spec;
    }
}

// Bytes flipped, dropped and doubled: an error or constraints that print and read back, never a crash.
TEST(FixSpec, SurvivesMutations) {
    const std::string seed =
        "tp=8,pp=2|4..8,schedule=1f1b|gpipe,mbs=1..8,zero=0..1,recompute=none|full,sp=on";
    Prng random(5);
    for (int round = 0; round < scaled(5000); ++round) {
        std::string spec = seed;
        for (std::int64_t edits = random.integer(1, 3); edits > 0; --edits) {
            const auto at =
                static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(spec.size()) - 1));
            switch (random.integer(0, 2)) {
                case 0:
                    spec[at] = static_cast<char>(random.integer(0, 255));
                    break;
                case 1:
                    spec.erase(at, static_cast<std::size_t>(random.integer(1, 4)));
                    break;
                default:
                    spec.insert(at, spec.substr(at, static_cast<std::size_t>(random.integer(1, 8))));
                    break;
            }
            if (spec.empty()) spec.push_back(',');
        }
        const auto fix = parse_fix(spec);
        if (!fix) continue;
        EXPECT_EQ(*parse_fix(to_string(*fix)), *fix) << spec;
    }
}

}  // namespace
}  // namespace tw

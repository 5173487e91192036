#include "plan/plan_json.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/prng.hpp"
#include "plan/check_plan.hpp"
#include "plan/rules/keys.hpp"
#include "plan/stage_partition.hpp"
#include "tests/support/test_scale.hpp"

namespace tw {
namespace {

constexpr std::string_view kModel = "gpt2-tiny";

PlanDocument make_document() {
    PlanDocument document;
    document.model_name = kModel;
    document.model_document = *read_model_document(kModel);
    document.graph = std::move(load_model(kModel)->graph);
    document.cluster = *load_cluster("h100:8");
    document.plan.mesh = {.dp = 4, .pp = 2};
    document.plan.stages = uniform_partition(document.graph, 2, RecomputeMode::None);
    document.plan.microbatches = 4;
    document.plan.global_batch = 16;
    document.plan.seq_len = document.graph.default_seq_len;
    return document;
}

// What a rule calls a knob is found in the document, wherever it stands there.
TEST(PlanJson, EveryKeyOfARuleHasItsPlace) {
    PlanDocument document = make_document();
    document.plan.gradient_sync_options.servers = 4;  // written where it says something
    const Json json = plan_document_to_json(document);
    for (int knob = 0; knob <= static_cast<int>(PlanKnob::Cluster); ++knob) {
        const std::string key(user_key(static_cast<PlanKnob>(knob), TargetFramework::Trainwright));
        const std::string pointer = document_pointer(key);
        ASSERT_FALSE(pointer.empty()) << key;
        EXPECT_TRUE(json.contains(Json::json_pointer(pointer))) << pointer;
    }
    for (const char* key : {"master_weights", "optimizer_states", "gradient_reduce"})
        EXPECT_TRUE(json.contains(Json::json_pointer(document_pointer(key)))) << key;
    EXPECT_EQ(document_pointer("tp"), "/plan/mesh/tp");
    EXPECT_EQ(document_pointer("--tensor-model-parallel-size"), "");
}

// Blocks are what is split: GPT-2's embedding and head fill no stage of their own.
TEST(PlanJson, MoreStagesThanBlocksAreRefused) {
    Json json = plan_document_to_json(make_document());
    const auto blocks = make_document().graph.blocks;
    json.erase("order_digest");
    json["plan"].erase("stages");
    json["plan"]["mesh"]["pp"] = blocks + 1;
    const auto read = plan_document_from_json(json, "p.json");
    ASSERT_FALSE(read);
    EXPECT_NE(to_string(read.errors()).find(fmt::format("are more than the model's {} blocks", blocks)),
              std::string::npos)
        << to_string(read.errors());
    EXPECT_NE(to_string(read.errors()).find(fmt::format("at most {} stages", blocks)), std::string::npos);
    PlanDocument listed = make_document();
    listed.plan.mesh = {.dp = 1, .pp = 8};
    listed.plan.stages = uniform_partition(listed.graph, 8, RecomputeMode::None);
    const Errors errors = check_plan(listed.graph, listed.cluster, listed.plan).errors;
    EXPECT_NE(to_string(errors).find(fmt::format("at most {0} stages for {0} blocks", blocks)),
              std::string::npos)
        << to_string(errors);
}

template <class Enum>
Enum any(Prng& random, Enum last) {
    return static_cast<Enum>(random.integer(0, static_cast<std::int64_t>(last)));
}

// Any plan that the document can hold, legal or not.
ParallelPlan random_plan(Prng& random, int layers) {
    const auto integer = [&](std::int64_t low, std::int64_t high) {
        return static_cast<int>(random.integer(low, high));
    };
    const auto flag = [&] { return random.integer(0, 1) == 1; };
    ParallelPlan plan;
    plan.mesh = {.dp = integer(1, 64),
                 .pp = integer(1, 64),
                 .tp = integer(1, 64),
                 .cp = integer(1, 64),
                 .ep = integer(1, 64),
                 .etp = integer(1, 64)};
    for (int s = integer(1, 6); s > 0; --s) {
        plan.stages.push_back({integer(0, layers), integer(0, layers), any(random, RecomputeMode::Modules),
                               integer(-1, 9), integer(1, 15), integer(0, 3)});
    }
    plan.virtual_stages = integer(1, 8);
    plan.schedule = flag() ? "zb-h1" : "any \"name\"\\ \u00e9";
    plan.microbatch_group = integer(0, 32);
    plan.microbatch = integer(1, 1 << 20);
    plan.microbatches = integer(1, 1 << 20);
    plan.global_batch = random.integer(1, std::int64_t{1} << 40);
    plan.seq_len = random.integer(1, std::int64_t{1} << 31);
    plan.vocab_divisor = integer(1, 1024);
    plan.sequence_parallel = flag();
    plan.cp_kind = any(random, WorkShape::Cp::AllToAll);
    plan.zero_stage = integer(0, 3);
    plan.zero_shard = integer(0, 16);
    plan.recompute = any(random, RecomputeMode::Modules);
    for (const RecomputeModule module : kRecomputeModules) {
        if (recomputes_by(plan, RecomputeMode::Modules) && flag()) plan.recompute_modules.add(module);
    }
    plan.precision = {any(random, Precision::Fp8), any(random, Precision::Fp8), flag(), flag(), flag(),
                      any(random, Precision::Fp8), any(random, Precision::Fp8)};
    plan.optimizer = any(random, OptimizerKind::Lamb);
    plan.overlap = {flag(), flag(), flag(), flag()};
    plan.gradient_sync = "local-sgd";
    if (flag()) plan.gradient_sync_options.local_steps = integer(1, 1000);
    plan.gradient_sync_options.outer_momentum = flag();
    if (flag()) plan.collectives = {{"tp", "nvls/simple"}, {"dp", "tree"}, {"pp", "/ll128"}};
    plan.bucket_bytes = random.uniform() * 1e9;
    plan.offload_optimizer = random.uniform();
    plan.offload_activations = flag();
    plan.attention = any(random, AttentionKernel::CuDnn);
    plan.dropout = flag();
    plan.expert_imbalance = 1 + random.uniform();
    plan.expert_dispatch = any(random, WorkShape::ExpertDispatch::PerNode);
    plan.rank_order = "pp-dp-ep-cp-tp";
    plan.framework = "megatron";
    plan.semantics = any(random, Semantics::Asynchronous);
    return plan;
}

bool has_error(const Errors& errors, std::string_view pointer, std::string_view message) {
    return std::any_of(errors.begin(), errors.end(), [&](const Error& error) {
        return error.context == pointer && error.message.find(message) != std::string::npos;
    });
}

TEST(PlanJson, RandomPlansReadBackEqual) {
    const LayerGraph graph = std::move(load_model(kModel)->graph);
    Prng random(17);
    for (int round = 0; round < scaled(300); ++round) {
        const ParallelPlan plan = random_plan(random, graph.size());
        const std::string text = plan_to_json(plan).dump();
        const auto read = plan_from_json(*parse_json(text, "plan"), graph, "");
        ASSERT_TRUE(read.has_value()) << to_string(read.errors());
        ASSERT_EQ(*read, plan) << text;
        EXPECT_EQ(plan_to_json(*read).dump(), text);
    }
}

TEST(PlanJson, ModulesAreNamedWhereTheyAreRecomputed) {
    const LayerGraph graph = std::move(load_model(kModel)->graph);
    Json json = plan_to_json(make_document().plan);
    EXPECT_FALSE(json.contains("recompute_modules"));
    json.erase("stages");
    json["recompute"] = "modules";
    json["recompute_modules"] = Json::array({"mlp", "core_attn"});
    const auto read = plan_from_json(json, graph, "/plan");
    ASSERT_TRUE(read) << to_string(read.errors());
    EXPECT_EQ(read->stages.front().recompute, RecomputeMode::Modules);
    EXPECT_EQ(read->recompute_modules,
              (RecomputeModules{RecomputeModule::CoreAttention, RecomputeModule::Mlp}));
    EXPECT_EQ(summary(*read), "tp1 pp2 dp4 mbs1 1f1b modules:core_attn+mlp");
    EXPECT_EQ(plan_to_json(*read)["recompute_modules"], Json::array({"core_attn", "mlp"}));
    json["recompute_modules"] = Json::array({"mpl"});
    const auto wrong = plan_from_json(json, graph, "/plan");
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().context, "/plan/recompute_modules");
    EXPECT_TRUE(wrong.error().hint.starts_with("did you mean 'mlp'?")) << wrong.error().hint;
    json["recompute_modules"] = Json::array({"mlp"});
    json["recompute"] = "none";
    EXPECT_TRUE(has_error(plan_from_json(json, graph, "/plan").errors(), "/plan/recompute_modules",
                          "no stage's recompute is modules"));
}

TEST(PlanJson, CollectivesAreForcedByLegalNames) {
    const LayerGraph graph = std::move(load_model(kModel)->graph);
    Json json = plan_to_json(make_document().plan);
    json["collectives"] = {{"tp", "rings"}, {"dp", "tree/ll64"}, {"cp", "/"}, {"xp", "ring"}};
    const auto read = plan_from_json(json, graph, "/plan");
    ASSERT_FALSE(read);
    EXPECT_TRUE(has_error(read.errors(), "/plan/collectives/tp", "unknown collective algorithm 'rings'"));
    EXPECT_TRUE(has_error(read.errors(), "/plan/collectives/dp", "unknown protocol 'll64'"));
    EXPECT_TRUE(has_error(read.errors(), "/plan/collectives/cp", "neither an algorithm nor a protocol"));
    EXPECT_TRUE(has_error(read.errors(), "/plan/collectives/xp", "unknown key 'xp'"));
    EXPECT_NE(to_string(read.errors()).find("did you mean 'ring'? known: ring, tree, nvls"),
              std::string::npos)
        << to_string(read.errors());
    // Nothing is said where nothing is forced.
    EXPECT_FALSE(plan_to_json(make_document().plan).contains("collectives"));
}

TEST(PlanJson, OptionsOfGradientSynchronisation) {
    const LayerGraph graph = std::move(load_model(kModel)->graph);
    Json json = plan_to_json(make_document().plan);
    EXPECT_FALSE(json.contains("gradient_sync_options"));
    json["gradient_sync"] = "ps-async";
    json["gradient_sync_options"] = {{"servers", 4}, {"staleness", 2}};
    const auto plan = plan_from_json(json, graph, "/plan");
    ASSERT_TRUE(plan) << to_string(plan.errors());
    EXPECT_EQ(plan->gradient_sync_options, (SyncOptions{.servers = 4, .staleness = 2}));
    EXPECT_EQ(plan_to_json(*plan)["gradient_sync_options"], json["gradient_sync_options"]);

    const auto refused = [&](const char* method, const Json& options) {
        json["gradient_sync"] = method;
        json["gradient_sync_options"] = options;
        const auto read = plan_from_json(json, graph, "/plan");
        EXPECT_FALSE(read) << method;
        return read ? Errors{} : read.errors();
    };
    // A default too: what is said of another method is a mistake.
    const Errors other = refused("top-k", {{"servers", 0}, {"density", 0.01}});
    ASSERT_EQ(other.size(), 1U) << to_string(other);
    EXPECT_TRUE(has_error(other, "/plan/gradient_sync_options/servers", "top-k does not use 'servers'"));
    EXPECT_EQ(other[0].hint, "its options: density");
    EXPECT_TRUE(has_error(refused("zero", {{"density", 0.1}}), "/plan/gradient_sync_options/density",
                          "gradient sync zero does not use 'density'"));
    EXPECT_TRUE(
        has_error(refused("top-k", {{"density", 0}}), "/plan/gradient_sync_options/density", "0 is outside"));
    EXPECT_TRUE(has_error(refused("ps-sync", {{"servrs", 3}}), "/plan/gradient_sync_options/servrs",
                          "unknown key 'servrs'"));
    EXPECT_TRUE(has_error(refused("ps-sync", {{"servers", "3"}}), "/plan/gradient_sync_options/servers",
                          "expected an integer"));
    EXPECT_TRUE(has_error(refused("8-bit", 3), "/plan/gradient_sync_options", "expected an object"));
}

TEST(PlanJson, TheDocumentIsSelfContained) {
    const PlanDocument document = make_document();
    const std::string text = plan_document_to_json(document).dump(2);
    const auto path = std::filesystem::temp_directory_path() / fmt::format("plan_{}.json", ::getpid());
    ASSERT_TRUE(write_text_file(path, text).has_value());
    const auto read = read_plan_document(path.string());
    std::filesystem::remove(path);
    ASSERT_TRUE(read.has_value()) << to_string(read.errors());
    EXPECT_EQ(read->plan, document.plan);
    EXPECT_EQ(read->model_name, kModel);
    EXPECT_EQ(read->cluster, document.cluster);
    EXPECT_EQ(read->graph.parameters(), document.graph.parameters());
    EXPECT_EQ(read->graph.size(), document.graph.size());
    EXPECT_EQ(plan_document_to_json(*read).dump(2), text);
    EXPECT_TRUE(check_plan(read->graph, read->cluster, read->plan).errors.empty());
}

TEST(PlanJson, ShorthandSplitsTheLayersEvenly) {
    const LayerGraph graph = std::move(load_model(kModel)->graph);
    const auto read = [&](const char* text) {
        return plan_from_json(*parse_json(text, "plan"), graph, "/plan");
    };
    const auto plan =
        read(R"({"mesh": {"dp": 2, "pp": 2}, "schedule": "1f1b", "global_batch": 32, "microbatch": 4,
                               "recompute": "full"})");
    ASSERT_TRUE(plan.has_value()) << to_string(plan.errors());
    EXPECT_EQ(plan->microbatches, 4);
    EXPECT_EQ(plan->stages, uniform_partition(graph, 2, RecomputeMode::Full));
    EXPECT_EQ(plan->attention, AttentionKernel::Flash2);
    EXPECT_EQ(read(R"({"mesh": {"dp": 2}, "schedule": "gpipe", "microbatches": 3})")->global_batch, 6);
    // 33 does not divide by 8; check_plan says so.
    EXPECT_EQ(read(R"({"mesh": {"dp": 2}, "schedule": "gpipe", "microbatch": 4, "global_batch": 33})")
                  ->microbatches,
              4);

    const auto huge = read(
        R"({"mesh": {"pp": 1000000}, "virtual_stages": 1000000, "schedule": "1f1b", "microbatches": 1})");
    ASSERT_FALSE(huge.has_value());
    EXPECT_TRUE(has_error(huge.errors(), "/plan/mesh", "1000000000000 stages")) << to_string(huge.errors());
    const auto neither = read(R"({"mesh": {}, "schedule": "1f1b"})");
    ASSERT_FALSE(neither.has_value());
    EXPECT_TRUE(has_error(neither.errors(), "/plan/microbatches", "neither microbatches nor global_batch"));
}

TEST(PlanJson, AllErrorsAtOnceWithPointers) {
    Json json = plan_document_to_json(make_document());
    json["version"] = 2;
    json["extra"] = 1;
    json["plan"]["mesh"]["tp"] = 0;
    json["plan"]["mesh"]["tpp"] = 1;
    json["plan"]["recompute"] = "ful";
    json["plan"]["precision"]["compute"] = 16;
    json["plan"]["stages"][1]["first_layer"] = "x";
    json["plan"]["stages"][0].erase("last_layer");
    json["plan"]["offload_optimizer"] = 1.5;
    json["model"]["document"]["hiden"] = 3;
    json["cluster"]["oversubscription"] = -1;
    const auto read = plan_document_from_json(json, "p.json");
    ASSERT_FALSE(read.has_value());
    const Errors& errors = read.errors();
    EXPECT_TRUE(has_error(errors, "p.json: /version", "outside [1, 1]"));
    EXPECT_TRUE(has_error(errors, "p.json: /extra", "unknown key"));
    EXPECT_TRUE(has_error(errors, "p.json: /plan/mesh/tp", "0 is outside"));
    EXPECT_TRUE(has_error(errors, "p.json: /plan/mesh/tpp", "unknown key"));
    EXPECT_TRUE(has_error(errors, "p.json: /plan/recompute", "unknown name 'ful'"));
    EXPECT_TRUE(has_error(errors, "p.json: /plan/precision/compute", "expected a string"));
    EXPECT_TRUE(has_error(errors, "p.json: /plan/stages/1/first_layer", "expected an integer"));
    EXPECT_TRUE(has_error(errors, "p.json: /plan/stages/0/last_layer", "required key is missing"));
    EXPECT_TRUE(has_error(errors, "p.json: /plan/offload_optimizer", "1.5 is outside [0, 1]"));
    EXPECT_TRUE(has_error(errors, "p.json: /model/document/hiden", "unknown key"));
    EXPECT_TRUE(has_error(errors, "p.json: /cluster/oversubscription", "-1 is outside"));
    EXPECT_EQ(errors.size(), 11U) << to_string(errors);
    for (const Error& error : errors)
        EXPECT_EQ(error.code, ErrorCode::Unreadable);
}

// Operands alone are in nvfp4: nothing is held or sent in it.
TEST(PlanJson, NothingIsHeldInNvfp4) {
    Json json = plan_document_to_json(make_document());
    for (const char* key : {"compute", "parameters", "gradient_reduce", "optimizer_states"})
        json["plan"]["precision"][key] = "nvfp4";
    const auto read = plan_document_from_json(json, "p.json");
    ASSERT_FALSE(read.has_value());
    EXPECT_EQ(read.errors().size(), 3U) << to_string(read.errors());
    for (const char* key : {"parameters", "gradient_reduce", "optimizer_states"})
        EXPECT_TRUE(
            has_error(read.errors(), "p.json: /plan/precision/" + std::string(key), "unknown name 'nvfp4'"));
}

TEST(PlanJson, NothingIsTakenSilently) {
    Json json = plan_document_to_json(make_document());
    json["plan"]["framework"] = "megatorn";
    json["plan"]["mesh"]["tp"] = nullptr;
    json["plan"]["seq_len"] = nullptr;
    json["plan"]["schedule"] = nullptr;
    json["plan"]["bucket_bytes"] = 25;
    const auto read = plan_document_from_json(json, "p.json");
    ASSERT_FALSE(read.has_value());
    const Errors& errors = read.errors();
    EXPECT_TRUE(has_error(errors, "p.json: /plan/framework", "unknown name 'megatorn'"));
    EXPECT_TRUE(has_error(errors, "p.json: /plan/mesh/tp", "is null"));
    EXPECT_TRUE(has_error(errors, "p.json: /plan/seq_len", "is null"));
    EXPECT_TRUE(has_error(errors, "p.json: /plan/schedule", "is null, a value is required"));
    EXPECT_TRUE(has_error(errors, "p.json: /plan/bucket_bytes", "25 is outside [4096,"));
    EXPECT_EQ(errors.size(), 5U) << to_string(errors);
}

TEST(PlanJson, RefusesWhatIsNoPlanDocument) {
    for (const char* text :
         {"[]", "null", "3", "\"x\"", "{}", R"({"schema": "trainwright/model", "version": 1})",
          R"({"schema": "trainwright/plan", "version": 1, "model": [], "cluster": 1, "plan": "x"})"}) {
        const auto read = plan_document_from_json(*parse_json(text, "doc"), "doc");
        ASSERT_FALSE(read.has_value()) << text;
        for (const Error& error : read.errors()) {
            EXPECT_EQ(error.code, ErrorCode::Unreadable);
            EXPECT_TRUE(error.context.starts_with("doc")) << error.context;
        }
    }
    EXPECT_FALSE(read_plan_document("/no/such/plan.json").has_value());
    EXPECT_FALSE(read_model_document("/no/such/model").has_value());
}

// Values of every type in every place: an error, or a plan that writes and reads back; never a crash.
TEST(PlanJson, SurvivesReplacedValues) {
    const LayerGraph graph = std::move(load_model(kModel)->graph);
    const Json seed = plan_to_json(make_document().plan);
    const std::vector<Json> values = {nullptr,
                                      true,
                                      0,
                                      -1,
                                      1,
                                      2.5,
                                      1e300,
                                      9223372036854775807LL,
                                      18446744073709551615ULL,
                                      "",
                                      "fp32",
                                      Json::array(),
                                      Json::object(),
                                      Json::array({1, "x"})};
    int accepted = 0, refused = 0;
    const Json leaves = seed.flatten();
    for (const auto& item : leaves.items()) {
        for (const Json& value : values) {
            Json mutated = seed;
            mutated[Json::json_pointer(item.key())] = value;
            const auto plan = plan_from_json(mutated, graph, "/plan");
            if (!plan) {
                ++refused;
                for (const Error& error : plan.errors()) {
                    EXPECT_TRUE(error.context.starts_with("/plan/")) << error.context;
                }
                continue;
            }
            ++accepted;
            EXPECT_EQ(*plan_from_json(plan_to_json(*plan), graph, ""), *plan);
            check_plan(graph, *load_cluster("h100:8"), *plan);
        }
    }
    EXPECT_GT(accepted, 50);
    EXPECT_GT(refused, 100);
}

// Bytes of the whole document's text flipped, dropped and doubled.
TEST(PlanJson, SurvivesMutatedText) {
    const std::string seed = plan_document_to_json(make_document()).dump();
    Prng random(23);
    int parsed = 0;
    for (int round = 0; round < scaled(2000); ++round) {
        std::string text = seed;
        for (std::int64_t edits = random.integer(1, 2); edits > 0; --edits) {
            const auto at =
                static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(text.size()) - 1));
            switch (random.integer(0, 3)) {
                case 0:
                    text[at] = static_cast<char>(random.integer(32, 126));
                    break;
                case 1:
                    text.erase(at, static_cast<std::size_t>(random.integer(1, 8)));
                    break;
                case 2:
                    text[at] = static_cast<char>('0' + random.integer(0, 9));
                    break;
                default:
                    text.resize(at + 1);
                    break;
            }
        }
        const auto json = parse_json(text, "mutated");
        if (!json) continue;
        ++parsed;
        const auto read = plan_document_from_json(*json, "mutated");
        if (!read) {
            EXPECT_FALSE(read.errors().empty());
            continue;
        }
        check_plan(read->graph, read->cluster, read->plan);
        const auto again = plan_document_from_json(plan_document_to_json(*read), "again");
        ASSERT_TRUE(again.has_value()) << to_string(again.errors());
        EXPECT_EQ(again->plan, read->plan);
    }
    EXPECT_GT(parsed, 200);
}

}  // namespace
}  // namespace tw

// The scenario document: what it says, and that no damaged one passes or crashes.
#include "sim/scenario/scenario_json.hpp"

#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace tw {
namespace {

constexpr const char* kDocument = R"({"schema": "trainwright/scenario", "version": 1,
 "slow_ranks": [{"rank": 17, "time_factor": 1.3}, {"node": 3, "time_factor": 1.1}],
 "delays": [{"rank": 1, "phase": "backward", "seconds": 0.2}, {"node": 0, "phase": "forward", "seconds": 0.1}],
 "slow_nics": [{"node": 2, "rate_factor": 0.5}, {"node": 4, "nic": 1, "rate_factor": 0.1}],
 "dead_nics": [{"node": 5, "nic": 0}],
 "jitter": {"seed": 7, "compute_sigma": 0.02, "communication_sigma": 0.05},
 "steps": 12, "contention": false, "all_ranks": true})";

Result<Scenario> read(std::string_view text) {
    const auto json = parse_json(text, "s.json");
    if (!json) return json.errors();
    return scenario_from_json(*json, "s.json");
}

TEST(ScenarioJson, ReadsEveryMember) {
    const auto s = read(kDocument);
    ASSERT_TRUE(s.has_value()) << to_string(s.errors());
    ASSERT_EQ(s->slow_ranks.size(), 2U);
    EXPECT_EQ(s->slow_ranks[0].where.rank, 17);
    EXPECT_EQ(s->slow_ranks[0].time_factor, 1.3);
    EXPECT_EQ(s->slow_ranks[1].where.node, 3);
    EXPECT_EQ(s->slow_ranks[1].where.rank, -1);
    EXPECT_TRUE(s->delays[0].backward);
    EXPECT_FALSE(s->delays[1].backward);
    EXPECT_EQ(s->slow_nics[0].nic, -1);
    EXPECT_EQ(s->slow_nics[1].nic, 1);
    EXPECT_EQ(s->dead_nics[0].node, 5);
    EXPECT_EQ(s->jitter.seed, 7U);
    EXPECT_EQ(s->jitter.communication_sigma, 0.05);
    EXPECT_EQ(s->steps, 12);
    EXPECT_FALSE(s->contention);
    EXPECT_TRUE(s->all_ranks);
    EXPECT_EQ(scenario_to_json(*s), scenario_to_json(*scenario_from_json(scenario_to_json(*s), "again")));
}

TEST(ScenarioJson, AnEmptyOneIsAHealthyCluster) {
    const auto s = read(R"({"schema": "trainwright/scenario", "version": 1})");
    ASSERT_TRUE(s.has_value());
    EXPECT_TRUE(s->slow_ranks.empty() && s->dead_nics.empty());
    EXPECT_EQ(s->steps, 1);
    EXPECT_TRUE(s->contention);
    const auto jitter =
        read(R"({"schema": "trainwright/scenario", "version": 1, "jitter": {"compute_sigma": 0.1}})");
    EXPECT_EQ(jitter->steps, 10);
}

TEST(ScenarioJson, NamesEveryErrorWithItsPointer) {
    const auto s = read(R"({"schema": "trainwright/scenario", "version": 1,
        "slow_ranks": [{"rank": -1, "time_factor": 1}, {"time_factor": 0}, {"rank": 1, "node": 2, "time_factor": 2}],
        "delays": [{"rank": 0, "phase": "bakward", "seconds": 1}],
        "slow_nics": [{"node": 1, "rate_factor": 0}], "dead_nics": [3], "jiter": {}})");
    ASSERT_FALSE(s.has_value());
    const std::string text = to_string(s.errors());
    for (const char* pointer :
         {"/slow_ranks/0/rank", "/slow_ranks/1/rank", "/slow_ranks/1/time_factor", "/slow_ranks/2/node",
          "/delays/0/phase", "/slow_nics/0/rate_factor", "/dead_nics/0", "/jiter"})
        EXPECT_NE(text.find(std::string("s.json: ") + pointer), std::string::npos) << pointer << "\n" << text;
    EXPECT_NE(text.find("backward"), std::string::npos);
    EXPECT_NE(text.find("jitter"), std::string::npos);
    for (const Error& error : s.errors())
        EXPECT_EQ(error.code, ErrorCode::Unreadable);
}

// Bytes and values replaced at random: every document is either refused with an error or read back the same.
TEST(ScenarioJson, SurvivesDamage) {
    Prng random(2026);
    const std::string good = kDocument;
    const std::vector<std::string> values = {"null", "-1", "1e308", "0",      "\"x\"",
                                             "[]",   "{}", "true",  "1e-320", "99999999999"};
    int accepted = 0;
    for (int i = 0; i < 4000; ++i) {
        std::string text = good;
        const auto position = [&] {
            return static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(text.size()) - 1));
        };
        switch (random.integer(0, 3)) {
            case 0:
                text[position()] = static_cast<char>(random.integer(0, 255));
                break;
            case 1:
                text.resize(position());
                break;
            case 2:
                text.insert(position(), text.substr(position(), 12));
                break;
            default: {  // another value after a colon
                std::size_t colon = text.find(": ", position());
                if (colon == std::string::npos) colon = text.find(": ");
                const std::size_t end = text.find_first_of(",}]", colon);
                text.replace(colon + 2, end - colon - 2,
                             values[static_cast<std::size_t>(
                                 random.integer(0, static_cast<std::int64_t>(values.size()) - 1))]);
            }
        }
        const auto s = read(text);
        if (!s) {
            ASSERT_FALSE(s.errors().empty());
            for (const Error& error : s.errors())
                EXPECT_NE(error.context.find("s.json"), std::string::npos);
            continue;
        }
        ++accepted;
        const Json written = scenario_to_json(*s);
        const auto again = scenario_from_json(written, "again");
        ASSERT_TRUE(again.has_value()) << to_string(again.errors());
        EXPECT_EQ(written, scenario_to_json(*again));
    }
    EXPECT_GT(accepted, 50);  // some damage is harmless
    EXPECT_LT(accepted, 3000);
}

}  // namespace
}  // namespace tw

// Traces as documents: Chrome JSON and our own.
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "plan/trace/chrome.hpp"
#include "plan/trace/trace_json.hpp"
#include "tests/plan/trace/hand_traces.hpp"

namespace tw {
namespace {

Trace sample() {
    Trace trace =
        hand::run(hand::one_f_one_b(3, 4), {2'000'001, 4'000'000, 0, 1'500, 3'000'000, 7}, 2, "a \"title\"");
    hand::add_memory(trace, 100, 10, 1000);
    trace.size_class_bytes = {0, 4096};
    trace.stage_labels = {"layers 0-3", "layers 4-7", "layers 8-11"};
    trace.ranks[1].name = "PP01";
    trace.ranks[1].node = "node 0";
    trace.ranks[1].memory_capacity_bytes = 1500;  // of a larger device
    return trace;
}

std::string chrome(const Trace& trace) {
    std::ostringstream out;
    write_chrome_trace(trace, out);
    return out.str();
}

std::string own(const Trace& trace) {
    std::ostringstream out;
    write_trace(trace, out);
    return out.str();
}

TEST(Chrome, ParsesAndBalancesItsFlows) {
    const Trace trace = sample();
    const Json json = *parse_json(chrome(trace), "trace.json");
    std::map<std::string, int> kinds;
    std::map<std::int64_t, std::vector<Json>> flows;
    double first = 1e300;
    for (const Json& e : json["traceEvents"]) {
        const std::string kind = e["ph"];
        ++kinds[kind];
        if (kind == "X") first = std::min(first, e["ts"].get<double>());
        if (kind == "s" || kind == "f") flows[e["id"]].push_back(e);
    }
    std::size_t events = 0;
    for (const RankTrace& rank : trace.ranks)
        events += rank.events.size();
    EXPECT_EQ(kinds["X"], static_cast<int>(events));
    EXPECT_EQ(first, 0);
    EXPECT_EQ(kinds["s"], 2 * 2 * 4 * 2);
    EXPECT_EQ(kinds["s"], kinds["f"]);
    EXPECT_EQ(kinds["i"], 2);
    EXPECT_GT(kinds["C"], 0);
    for (const auto& [id, ends] : flows) {
        ASSERT_EQ(ends.size(), 2U) << id;
        EXPECT_NE(ends[0]["ph"], ends[1]["ph"]);
        EXPECT_NE(ends[0]["pid"], ends[1]["pid"]);
        EXPECT_EQ(ends[0]["ts"], ends[1]["ts"]);
    }
}

TEST(Chrome, EventsCarryNamesLanesAndArguments) {
    const Json json = *parse_json(chrome(sample()), "trace.json");
    bool forward = false, send = false, process = false;
    for (const Json& e : json["traceEvents"]) {
        if (e["ph"] == "X" && e["name"] == "F mb1 s0" && e["args"]["step"] == 0) {
            forward = true;
            EXPECT_EQ(e["pid"], 0);
            EXPECT_EQ(e["dur"].get<double>(), 2.000001);
            EXPECT_EQ(e["args"]["layers"], "layers 0-3");
            EXPECT_EQ(e["args"]["microbatch"], 1);
        }
        if (e["ph"] == "X" && e["name"] == "send activation mb1 s0") {
            send = true;
            EXPECT_EQ(e["args"]["bytes"], 4096);
            EXPECT_EQ(e["cat"], "pp");
        }
        if (e["ph"] == "M" && e["name"] == "process_name" && e["pid"] == 1) {
            process = true;
            EXPECT_EQ(e["args"]["name"], "PP01 @ node 0");
        }
    }
    EXPECT_TRUE(forward && send && process);
    EXPECT_EQ(json["otherData"]["title"], "a \"title\"");
}

TEST(Chrome, AlignsClocksAndIsDeterministic) {
    Trace trace = sample();
    const std::string before = chrome(trace);
    for (TraceEvent& e : trace.ranks[2].events)
        e.arrival += 9'000'000, e.start += 9'000'000, e.end += 9'000'000;
    for (MemorySample& m : trace.ranks[2].memory)
        m.time += 9'000'000;
    trace.ranks[2].clock_offset_s = -9e-6;
    EXPECT_EQ(chrome(trace), before);
    EXPECT_TRUE(parse_json(chrome(Trace{}), "empty").has_value());
}

TEST(TraceDocument, ReadsBackExactly) {
    Trace trace = sample();
    trace.ranks[2].clock_offset_s = 0.1;
    trace.ranks[2].pipeline_rank = 2;
    trace.ranks[2].replica = 3;
    trace.ranks[2].events[1].waited = 7;
    const std::string text = own(trace);
    const Result<Trace> back = trace_from_json(*parse_json(text, "t"));
    ASSERT_TRUE(back.has_value()) << to_string(back.errors());
    EXPECT_EQ(own(*back), text);
    ASSERT_EQ(back->ranks.size(), 3U);
    for (std::size_t r = 0; r < 3; ++r) {
        ASSERT_EQ(back->ranks[r].events.size(), trace.ranks[r].events.size());
        for (std::size_t e = 0; e < trace.ranks[r].events.size(); ++e) {
            const TraceEvent &a = back->ranks[r].events[e], &b = trace.ranks[r].events[e];
            EXPECT_EQ(a.instruction, b.instruction);
            EXPECT_EQ(std::tie(a.step, a.index, a.arrival, a.start, a.end, a.waited),
                      std::tie(b.step, b.index, b.arrival, b.start, b.end, b.waited));
        }
        EXPECT_EQ(back->ranks[r].memory.size(), trace.ranks[r].memory.size());
    }
    EXPECT_EQ(back->step_end, trace.step_end);
    EXPECT_EQ(back->size_class_bytes, trace.size_class_bytes);
    EXPECT_EQ(back->capacity_of(back->ranks[0]), 1000);
    EXPECT_EQ(back->capacity_of(back->ranks[1]), 1500);
}

TEST(TraceDocument, RefusesWithPointersAllAtOnce) {
    const Json json =
        *parse_json(R"({"schema":"trainwright/trace","version":1,"origin":"dreamt","steps":1,"ranks":[
        {"rank":0,"events":[{"opcode":"forwrad","stage":0,"index":0,"start_ps":5,"end_ps":4},
                            {"opcode":"send_grad","stream":"p2p","stage":70000,"index":1,"start_ps":1,"end_ps":2,"arrival_ps":3,"step":1}]},
        {"rank":0,"events":[],"colour":"red","memory":[{"time_ps":0,"bytes":[1]}]}]})",
                    "t");
    const Result<Trace> result = trace_from_json(json);
    ASSERT_FALSE(result.has_value());
    std::set<std::string> contexts;
    for (const Error& e : result.errors()) {
        contexts.insert(e.context);
        EXPECT_EQ(e.code, ErrorCode::Unreadable) << e.message;
    }
    for (const char* pointer :
         {"/origin", "/ranks/0/events/0/opcode", "/ranks/0/events/0/end_ps", "/ranks/0/events/1/stage",
          "/ranks/0/events/1/arrival_ps", "/ranks/0/events/1/step", "/ranks/1/colour",
          "/ranks/1/memory/0/bytes", "/ranks"}) {
        EXPECT_TRUE(contexts.count(pointer)) << pointer << "\n" << to_string(result.errors());
    }
    EXPECT_NE(to_string(result.errors()).find("did you mean 'forward'"), std::string::npos);
}

TEST(TraceDocument, RefusesDamagedText) {
    const std::string text = own(sample());
    for (std::size_t length = 0; length < text.size() - 2; length += 97) {
        const Result<Json> json = parse_json(text.substr(0, length), "cut");
        ASSERT_FALSE(json.has_value()) << length;
    }
    for (
        const char* wrong :
        {"[]", "{}", "null", R"({"schema":"trainwright/plan","version":1})",
         R"({"schema":"trainwright/trace","version":2,"origin":"simulated","steps":1,"ranks":[]})",
         R"({"schema":"trainwright/trace","version":1,"origin":"simulated","steps":0,"ranks":{}})",
         R"({"schema":"trainwright/trace","version":1,"origin":"simulated","steps":1,"step_end_ps":[1e30],"ranks":[]})",
         R"({"schema":"trainwright/trace","version":1,"origin":"simulated","steps":1,"ranks":[7]})"}) {
        EXPECT_FALSE(trace_from_json(*parse_json(wrong, "wrong")).has_value()) << wrong;
    }
}

}  // namespace
}  // namespace tw

#include "models/formats/trace_events.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>
#include <unistd.h>

#include "models/formats/json_slice.hpp"

namespace tw {
namespace {

struct Kept {
    char phase;
    std::string name, category, pid, tid, args;
    bool timed;
    std::int64_t start_ns, duration_ps, offset;
    int start_ps;
};

struct Keeper : TraceVisitor {
    std::vector<Kept> events;
    std::vector<std::pair<std::string, std::string>> members;
    void on_event(const ForeignEvent& e) override {
        events.push_back({e.phase, json_slice::decoded(e.name), std::string(e.category), std::string(e.pid),
                          std::string(e.tid), std::string(e.args), e.timed, e.start_ns, e.duration_ps,
                          e.offset, e.start_ps});
    }
    void on_member(std::string_view key, std::string_view value) override {
        members.emplace_back(key, value);
    }
};

Result<TraceReadSummary> read(std::string_view text, Keeper& keeper) {
    return read_trace_events_text(text, "t.json", keeper);
}

std::filesystem::path scratch(const std::string& name) {
    return std::filesystem::temp_directory_path() / ("tw-trace-" + std::to_string(getpid()) + "-" + name);
}

TEST(TraceEvents, DocumentWithMembersOnBothSides) {
    Keeper keeper;
    const auto summary =
        read(R"( {"schemaVersion": 1, "distributedInfo": {"rank": 3, "pg": [{"ranks": [0, 1]}]},
      "traceEvents": [
        {"ph": "X", "cat": "kernel", "name": "gemm<\"a\", {1}>", "pid": 0, "tid": 7,
         "ts": 1661203462598738.125, "dur": 19.5, "args": {"stream": 7, "name": "inner"}},
        {"ph": "M", "name": "process_name", "pid": "Spans", "tid": 0}, ],
      "traceName": "x" } )",
             keeper);
    ASSERT_TRUE(summary) << to_string(summary.errors());
    EXPECT_EQ(summary->events, 2);
    EXPECT_EQ(summary->untimed, 0);
    EXPECT_FALSE(summary->truncated);
    ASSERT_EQ(keeper.events.size(), 2U);
    const Kept& gemm = keeper.events[0];
    EXPECT_EQ(gemm.name, "gemm<\"a\", {1}>");
    EXPECT_EQ(gemm.category, "kernel");
    EXPECT_EQ(gemm.tid, "7");
    EXPECT_EQ(gemm.start_ns, 1661203462598738125);
    EXPECT_EQ(gemm.duration_ps, 19'500'000);
    EXPECT_EQ(gemm.args, R"({"stream": 7, "name": "inner"})");
    EXPECT_EQ(keeper.events[1].pid, "Spans");
    ASSERT_EQ(keeper.members.size(), 3U);
    EXPECT_EQ(keeper.members[1].first, "distributedInfo");
    EXPECT_EQ(json_slice::integer(json_slice::find(keeper.members[1].second, "rank")), 3);
    EXPECT_EQ(keeper.members[2].second, "\"x\"");
}

TEST(TraceEvents, TimesAreExact) {
    const auto time = [](std::string_view text) {
        std::int64_t ns = 0;
        std::int32_t ps = 0;
        EXPECT_TRUE(parse_trace_time(text, ns, ps)) << text;
        return std::pair(ns, ps);
    };
    EXPECT_EQ(time("0"), std::pair(std::int64_t{0}, 0));
    EXPECT_EQ(time("1671234567890123.4567"), std::pair(std::int64_t{1671234567890123456}, 700));
    EXPECT_EQ(time("0.000001"), std::pair(std::int64_t{0}, 1));
    EXPECT_EQ(time("-0.000001"), std::pair(std::int64_t{-1}, 999));
    EXPECT_EQ(time("-2.5"), std::pair(std::int64_t{-2500}, 0));
    EXPECT_EQ(time("1.5e3"), std::pair(std::int64_t{1500000}, 0));
    EXPECT_EQ(time("1.67e15"), std::pair(std::int64_t{1670000000000000000}, 0));
    std::int64_t ns = 0;
    std::int32_t ps = 0;
    for (const std::string_view wrong :
         {"", "-", "x", "1x", "1.5.2", "NaN", "1e400", "9100000000000000", "99999999999999999999"})
        EXPECT_FALSE(parse_trace_time(wrong, ns, ps)) << wrong;
    ForeignEvent event;
    event.start_ns = 9'000'000'000'000'000'000;
    EXPECT_EQ(event.start_since_ps(-9'000'000'000'000'000'000), std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(event.start_since_ps(8'999'999'999'999'999'000), 1'000'000);
}

TEST(TraceEvents, WhatManyHandsWrite) {
    Keeper keeper;
    // Control characters and a stray byte inside strings, quoted numbers, bare words, no closing bracket.
    const auto summary = read(
        "\xef\xbb\xbf[{\"ph\":\"X\",\"name\":\"a\x01\xff\",\"ts\":\"12.5\",\"dur\":NaN},\n"
        "{\"ph\":\"i\",\"name\":\"\\u00e9\\ud83d\\ude00\\n\",\"ts\":nan},",
        keeper);
    ASSERT_TRUE(summary) << to_string(summary.errors());
    EXPECT_TRUE(summary->truncated);
    EXPECT_EQ(summary->untimed, 1);
    EXPECT_EQ(summary->warnings.size(), 2U);
    EXPECT_EQ(keeper.events[0].name, "a \xef\xbf\xbd");
    EXPECT_EQ(keeper.events[0].start_ns, 12500);
    EXPECT_EQ(keeper.events[0].duration_ps, -1);
    EXPECT_EQ(keeper.events[1].name, "\u00e9\U0001f600 ");
}

TEST(TraceEvents, CutAnywhere) {
    const std::string whole =
        R"({"a":[1,{"b":"]"}],"traceEvents":[{"ph":"X","name":"x\"","ts":1,"dur":2,"args":{"k":[1]}},{"ph":"E","ts":3}],"z":7})";
    for (std::size_t length = 0; length < whole.size(); ++length) {
        Keeper keeper;
        const auto summary = read(whole.substr(0, length), keeper);
        const bool inside = length >= whole.find("[{\"ph\"") + 1;
        ASSERT_EQ(summary.has_value(), inside) << length;
        if (inside) {
            EXPECT_TRUE(summary->truncated) << length;
            EXPECT_EQ(summary->events, static_cast<std::int64_t>(keeper.events.size()));
        }
    }
}

TEST(TraceEvents, RefusalsSayWhere) {
    const auto refusal = [](std::string_view text) {
        Keeper keeper;
        const auto summary = read(text, keeper);
        EXPECT_FALSE(summary) << text;
        return summary ? std::string() : to_string(summary.errors());
    };
    EXPECT_NE(refusal("").find("no traceEvents"), std::string::npos);
    EXPECT_NE(refusal("hello").find("neither { nor ["), std::string::npos);
    EXPECT_NE(refusal("{\"nodes\": []}").find("no traceEvents"), std::string::npos);
    EXPECT_NE(refusal("[{\"ph\":\"X\"} 3]").find("byte 12"), std::string::npos);
    // Two ranks wrote into one file.
    EXPECT_NE(refusal("[{\"ph\":\"X\",\"ts\":1},{\"ph\":\"X\",{\"ph\":\"X\"}]").find("file of its own"),
              std::string::npos);
    EXPECT_NE(refusal("[{\"ph\":\"X\",\"ts\":1}, 7]").find("an event is expected"), std::string::npos);
}

TEST(TraceEvents, ProgressCancels) {
    std::string text = "[";
    while (text.size() < (std::size_t{10} << 20))
        text += "{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"name\":\"kernel\"},\n";
    int calls = 0;
    Keeper keeper;
    const auto summary =
        read_trace_events_text(text, "t", keeper, {.progress = [&](std::int64_t at, std::int64_t size) {
                                   EXPECT_LE(at, size);
                                   return ++calls < 2;
                               }});
    ASSERT_FALSE(summary);
    EXPECT_EQ(summary.error().code, ErrorCode::Interrupted);
    EXPECT_EQ(calls, 2);
}

TEST(TraceEvents, Recognised) {
    EXPECT_TRUE(looks_like_trace_events(R"({"traceEvents": [)"));
    EXPECT_TRUE(looks_like_trace_events(R"({"schemaVersion": 1, "distributedInfo": {"pg_config": [1, 2, 3)"));
    EXPECT_TRUE(looks_like_trace_events("\n[ {\"name\": \"a\", \"ph\": \"B\"}"));
    EXPECT_FALSE(looks_like_trace_events(R"({"schema": "1.0.1", "nodes": []})"));
    EXPECT_FALSE(looks_like_trace_events(R"([{"name": "a"}])"));
    EXPECT_FALSE(looks_like_trace_events(R"({"model_type": "gpt2"})"));
    EXPECT_FALSE(looks_like_trace_events("GPU0"));
}

// Pages of the process that are in memory.
std::int64_t resident_bytes() {
    std::ifstream statm("/proc/self/statm");
    std::int64_t size = 0, resident = 0;
    statm >> size >> resident;
    return resident * sysconf(_SC_PAGESIZE);
}

void write_events(const std::filesystem::path& path, std::int64_t bytes) {
    std::string block;
    for (int i = 0; i < 1000; ++i) {
        block += "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k" + std::to_string(i) +
                 "\", \"pid\": 0, \"tid\": 7, \"ts\": 1661203462598738.25, \"dur\": 3.5, \"args\": "
                 "{\"stream\": 7}},\n";
    }
    std::ofstream out(path, std::ios::binary);
    out << "{\"traceEvents\": [\n";
    for (std::int64_t written = 0; written < bytes; written += static_cast<std::int64_t>(block.size()))
        out << block;
    out << "]}";
}

struct Counter : TraceVisitor {
    std::int64_t events = 0;
    void on_event(const ForeignEvent&) override { ++events; }
};

// The most that reading needs beyond what the process had.
std::int64_t growth_of_reading(const std::filesystem::path& path, std::int64_t& events) {
    const std::int64_t before = resident_bytes();
    std::int64_t most = 0;
    Counter counter;
    const auto summary = read_trace_events(path, counter, {.progress = [&](std::int64_t, std::int64_t) {
                                               most = std::max(most, resident_bytes() - before);
                                               return true;
                                           }});
    EXPECT_TRUE(summary);
    events = counter.events;
    return most;
}

TEST(TraceEvents, MemoryDoesNotGrowWithTheFile) {
    const auto path = scratch("long.json");
    write_events(path, std::int64_t{160} << 20);
    std::int64_t events = 0;
    const std::int64_t grown = growth_of_reading(path, events);
    EXPECT_EQ(events % 1000, 0);
    EXPECT_GT(events, 1'000'000);
    EXPECT_LT(grown, std::int64_t{40} << 20);
    std::filesystem::remove(path);
}

TEST(TraceEvents, CompressedInPieces) {
    const auto path = scratch("short.json");
    write_events(path, std::int64_t{24} << 20);
    ASSERT_EQ(std::system(("gzip -1 -k " + path.string()).c_str()), 0);
    const auto packed = path.string() + ".gz";
    const auto opened = ByteStream::open(packed);
    if (!opened) GTEST_SKIP() << to_string(opened.errors());
    std::int64_t plain_events = 0, packed_events = 0;
    growth_of_reading(path, plain_events);
    const std::int64_t grown = growth_of_reading(packed, packed_events);
    EXPECT_EQ(plain_events, packed_events);
    EXPECT_LT(grown, std::int64_t{16} << 20);
    // Cut: what is there is read, and said.
    std::filesystem::resize_file(packed, std::filesystem::file_size(packed) / 2);
    Counter counter;
    const auto cut = read_trace_events(packed, counter);
    ASSERT_TRUE(cut);
    EXPECT_GT(counter.events, 0);
    ASSERT_FALSE(cut->warnings.empty());
    EXPECT_NE(cut->warnings[0].find("end early"), std::string::npos);
    std::filesystem::remove(path);
    std::filesystem::remove(packed);
}

TEST(TraceEvents, NoSuchFile) {
    Counter counter;
    const auto summary = read_trace_events("/nonexistent/trace.json", counter);
    ASSERT_FALSE(summary);
    EXPECT_EQ(summary.error().code, ErrorCode::Unreadable);
}

TEST(JsonSlice, MembersAndNumbers) {
    json_slice::Members members(R"({"a": 1, "b":[{"c":2}], "d":"x, y}"})");
    std::vector<std::string> seen;
    while (members.next())
        seen.push_back(std::string(members.key()) + "=" + std::string(members.value()));
    EXPECT_EQ(seen, (std::vector<std::string>{"a=1", R"(b=[{"c":2}])", R"(d="x, y}")"}));
    json_slice::Members elements("[1, \"two\", [3]]");
    int count = 0;
    while (elements.next())
        ++count;
    EXPECT_EQ(count, 3);
    EXPECT_EQ(json_slice::find(R"({"x":{"k":1},"k":2})", "k"), "2");
    EXPECT_EQ(json_slice::integer("\"8\""), 8);
    EXPECT_EQ(json_slice::integer("8.0"), 8);
    EXPECT_EQ(json_slice::integer("8.5"), std::nullopt);
    EXPECT_EQ(json_slice::number("1e400"), std::nullopt);
    EXPECT_EQ(json_slice::decoded("\\ud800\\uZZ\\"), "\xef\xbf\xbd\xef\xbf\xbdZZ");
}

}  // namespace
}  // namespace tw

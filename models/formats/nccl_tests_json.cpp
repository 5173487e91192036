// nccl-tests -J (NVIDIA/nccl-tests, src/util.cu): the same rows as the text, times in microseconds, rates in
// GB/s.
#include <algorithm>
#include <cctype>

#include "models/formats/json_slice.hpp"
#include "models/formats/nccl_tests.hpp"
#include "models/formats/nccl_tests_derive.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

namespace js = json_slice;

std::optional<NcclTestsTiming> read_timing(std::string_view object, bool& cpu_time) {
    if (!object.starts_with('{')) return std::nullopt;
    auto time = js::number(js::find(object, "time"));
    if (!time) {
        time = js::number(js::find(object, "cpu_time"));
        cpu_time = cpu_time || time.has_value();
    }
    const auto algbw = js::number(js::find(object, "alg_bw")), busbw = js::number(js::find(object, "bus_bw"));
    if (!time || !algbw || !busbw || *time < 0 || *algbw < 0 || *busbw < 0) return std::nullopt;
    const std::string_view wrong = js::find(object, "nwrong");
    const auto count = js::number(wrong);
    return NcclTestsTiming{.time = Seconds(*time * 1e-6),
                           .algbw = AlgBandwidth(*algbw * 1e9),
                           .busbw = BusBandwidth(*busbw * 1e9),
                           .wrong = count ? compact(*count) : "N/A",
                           .shortest = std::nullopt,
                           .longest = std::nullopt,
                           .p99 = std::nullopt};
}

std::optional<NcclTestsRow> read_row(std::string_view object, std::size_t number, bool& cpu_time) {
    const auto size = js::integer(js::find(object, "size")), count = js::integer(js::find(object, "count"));
    if (!size || !count || *size < 0 || *count < 0) return std::nullopt;
    NcclTestsRow row{.size = Bytes(*size),
                     .count = *count,
                     .type = excerpt(js::text_of(js::find(object, "type"))),
                     .redop = excerpt(js::text_of(js::find(object, "redop"))),
                     .root = std::nullopt,
                     .out_of_place = {},
                     .in_place = std::nullopt,
                     .line = number};
    if (nccl_type_bytes(row.type) == 0) return std::nullopt;
    const auto root = parse_integer(trim(js::unquoted(js::find(object, "root"))));
    if (root && *root >= -1 && *root <= 1'000'000) row.root = static_cast<int>(*root);
    auto out = read_timing(js::find(object, "out_of_place"), cpu_time);
    row.in_place = read_timing(js::find(object, "in_place"), cpu_time);
    if (!out) out = row.in_place;  // a replay has the one in place alone
    if (!out) return std::nullopt;
    row.out_of_place = *out;
    return row;
}

// 22907 is 2.29.7; 2708 was 2.7.8.
std::string version_of(std::int64_t code) {
    const std::int64_t major = code >= 10000 ? code / 10000 : code / 1000;
    const std::int64_t minor = code >= 10000 ? code / 100 % 100 : code / 100 % 10;
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(code % 100);
}

void read_devices(std::string_view devices, NcclTestsLog& log) {
    std::vector<std::string> hosts;
    js::Members members(devices);
    while (members.next()) {
        ++log.listed_ranks;
        hosts.push_back(js::text_of(js::find(members.value(), "hostname")));
        if (log.device.empty()) log.device = excerpt(js::text_of(js::find(members.value(), "device_info")));
    }
    std::sort(hosts.begin(), hosts.end());
    log.hosts = static_cast<int>(std::unique(hosts.begin(), hosts.end()) - hosts.begin());
}

// The operation from the program's name: "/opt/nccl-tests/build/all_reduce_perf".
std::set<std::string> words_of(std::string_view args) {
    std::set<std::string> words;
    js::Members members(args);
    if (!members.next()) return words;
    std::string plain;
    const std::string program = js::text_of(members.value());
    for (const char c : program.substr(program.rfind('/') + 1)) {
        if (std::isalpha(static_cast<unsigned char>(c)) != 0) plain += static_cast<char>(std::tolower(c));
    }
    for (const char* word :
         {"allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "sendrecv"}) {
        if (plain.starts_with(word)) words.insert(word);
    }
    return words;
}

}  // namespace

bool looks_like_nccl_tests_json(std::string_view text) {
    text = trim(text);
    if (!text.starts_with('{')) return false;
    js::Members members(text);
    bool config = false;
    while (members.next()) {
        if (members.key() == "nccl_version") config = true;
        if (members.key() == "results")
            return (config || text.find("\"average_bus_bandwidth\"") != std::string_view::npos) &&
                   members.value().find("\"bus_bw\"") != std::string_view::npos;
    }
    return false;
}

Result<NcclTestsLog> parse_nccl_tests_json(std::string_view text, std::string_view name) {
    text = trim(text);
    NcclTestsLog log;
    const std::string_view results = js::find(text, "results");
    std::size_t number = 0, skipped = 0;
    js::Members rows(results);
    while (rows.next()) {
        ++number;
        if (auto row = read_row(rows.value(), number, log.cpu_time)) {
            log.rows.push_back(std::move(*row));
        } else if (++skipped <= 8) {
            log.warnings.push_back(
                {"numbers-missing", "result " + std::to_string(number) + " cannot be read"});
        }
    }
    if (log.rows.empty()) {
        return Error{
            ErrorCode::Unreadable,
            number > 0 ? std::to_string(number) + " results, none of which can be read" : "no results",
            std::string(name),
            "a result is {\"size\", \"count\", \"type\", \"out_of_place\": {\"time\", \"alg_bw\", "
            "\"bus_bw\"}}"};
    }
    if (const auto code = js::integer(js::find(text, "nccl_version")); code && *code > 0)
        log.nccl_version = version_of(*code);
    read_devices(js::find(js::find(text, "config"), "devices"), log);
    const auto average = js::number(js::find(js::find(text, "average_bus_bandwidth"), "bandwidth"));
    if (average && *average >= 0) log.average_busbw = BusBandwidth(*average * 1e9);
    log.out_of_bounds = js::integer(js::find(js::find(text, "out_of_bounds"), "count"));
    derive_operation(log, words_of(js::find(text, "args")));
    check_numbers(log);
    return log;
}

}  // namespace tw

#include "models/formats/nccl_tests.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "models/formats/nccl_tests_derive.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

using Tokens = std::vector<std::string_view>;

// What stands in one half of a row, out of place or in place.
struct Columns {
    std::vector<std::string> half = {"time", "algbw", "busbw", "#wrong"};
    bool timestamp = false;  // date and time, two tokens, after both halves
    std::size_t extra = 0;   // other columns after both halves
    bool from_header = false;
};

// Without what mpirun --tag-output ("[1,0]<stdout>:") or srun --label ("0: ") put before it.
std::string_view without_prefix(std::string_view line) {
    line = trim(line);
    if (line.starts_with('[')) {
        const auto tag = line.find(">:");
        if (tag != std::string_view::npos && tag < 40) return trim(line.substr(tag + 2));
    }
    const auto digits = line.find_first_not_of("0123456789");
    if (digits != std::string_view::npos && digits > 0 && line.substr(digits).starts_with(": ")) {
        return trim(line.substr(digits + 1));
    }
    return line;
}

bool is_column_header(std::string_view line) {
    return line.starts_with('#') && line.find("size") != std::string_view::npos &&
           line.find("algbw") != std::string_view::npos && line.find("busbw") != std::string_view::npos;
}

Columns read_columns(std::string_view line) {
    Columns columns;
    const Tokens names = split_tokens(line.substr(1));
    std::vector<std::size_t> starts;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i] == "time" || names[i] == "cputime") starts.push_back(i);
    }
    if (starts.size() != 2) return columns;
    columns.from_header = true;
    columns.half.assign(names.begin() + static_cast<std::ptrdiff_t>(starts[0]),
                        names.begin() + static_cast<std::ptrdiff_t>(starts[1]));
    for (std::size_t i = starts[1] + columns.half.size(); i < names.size(); ++i) {
        if (names[i] == "timestamp") {
            columns.timestamp = true;
        } else {
            ++columns.extra;
        }
    }
    return columns;
}

// A row starts with a size, a count and a type; nothing else in a log does.
bool is_row(const Tokens& tokens) {
    return tokens.size() >= 7 && parse_integer(tokens[0]) && parse_integer(tokens[1]) &&
           nccl_type_bytes(tokens[2]) > 0;
}

bool is_word(std::string_view token) {
    return token != "N/A" && !token.empty() && std::isalpha(static_cast<unsigned char>(token.front())) != 0;
}

std::optional<NcclTestsTiming> read_timing(const Columns& columns, const Tokens& tokens, std::size_t begin) {
    const auto number = [&](std::string_view name) -> std::optional<double> {
        const auto column = std::find(columns.half.begin(), columns.half.end(), name);
        if (column == columns.half.end()) return std::nullopt;
        const auto value =
            parse_number(tokens[begin + static_cast<std::size_t>(column - columns.half.begin())]);
        return value && *value >= 0 ? value : std::nullopt;
    };
    const auto iteration = [&](std::string_view name) -> std::optional<Seconds> {
        const auto value = number(name);
        return value ? std::optional(Seconds(*value * 1e-6)) : std::nullopt;
    };
    const auto time = parse_number(tokens[begin]);
    const auto algbw = number("algbw"), busbw = number("busbw");
    if (!time || *time < 0 || !algbw || !busbw) return std::nullopt;
    NcclTestsTiming timing{.time = Seconds(*time * 1e-6),
                           .algbw = AlgBandwidth(*algbw * 1e9),
                           .busbw = BusBandwidth(*busbw * 1e9),
                           .wrong = "",
                           .shortest = iteration("i_min"),
                           .longest = iteration("i_max"),
                           .p99 = iteration("i_p99")};
    for (const char* name : {"#wrong", "error"}) {
        const auto column = std::find(columns.half.begin(), columns.half.end(), name);
        if (column != columns.half.end()) {
            timing.wrong = tokens[begin + static_cast<std::size_t>(column - columns.half.begin())];
        }
    }
    return timing;
}

class Reader {
  public:
    void read(std::string_view text) {
        std::size_t number = 0;
        for (const std::string_view raw : split_lines(text)) {
            ++number;
            const std::string_view line = without_prefix(raw);
            if (is_column_header(line)) {
                columns_ = read_columns(line);
                log.cpu_time = columns_.half.front() == "cputime";
            } else if (line.starts_with('#')) {
                read_comment(trim(line.substr(1)));
            } else if (const Tokens tokens = split_tokens(line); is_row(tokens)) {
                read_row(tokens, number);
            } else {
                read_noise(line, number);
            }
        }
        finish();
    }

    NcclTestsLog log;
    std::set<std::string> words;  // operations that the log's own lines name, without punctuation

  private:
    void read_comment(std::string_view line) {
        const Tokens tokens = split_tokens(line);
        if (tokens.empty()) return;
        const auto after_colon = [&] {
            const auto colon = line.find(':');
            return colon == std::string_view::npos ? std::string_view{} : trim(line.substr(colon + 1));
        };
        if (tokens[0] == "Rank" && tokens.size() >= 6 && parse_integer(tokens[1])) {
            ++log.listed_ranks;
            const auto on = std::find(tokens.begin(), tokens.end(), "on");
            if (on != tokens.end() && on + 1 != tokens.end()) hosts_.insert(std::string(*(on + 1)));
            if (const auto bus = line.find("] "); bus != std::string_view::npos && log.device.empty()) {
                log.device = excerpt(trim(line.substr(bus + 2)));
            }
        } else if (line.starts_with("Avg bus bandwidth")) {
            const Tokens value = split_tokens(after_colon());
            const auto average = value.empty() ? std::nullopt : parse_number(value[0]);
            if (average && *average >= 0) log.average_busbw = BusBandwidth(*average * 1e9);
        } else if (line.starts_with("Out of bounds values")) {
            const Tokens value = split_tokens(after_colon());
            if (!value.empty()) log.out_of_bounds = parse_integer(value[0]);
        } else if (line.starts_with("nccl-tests version")) {
            if (tokens.size() > 2) log.version = excerpt(tokens[2]);
            for (const std::string_view token : tokens) {
                if (token.starts_with("nccl-library=")) log.nccl_version = excerpt(token.substr(13));
            }
        } else {
            remember_words(line);
        }
    }

    void remember_words(std::string_view line) {
        std::string plain;
        for (const char c : line) {
            if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
                plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
            }
        }
        for (const char* word :
             {"allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "sendrecv"}) {
            if (plain.find(word) != std::string::npos) words.insert(word);
        }
    }

    // What NCCL_DEBUG=INFO prints. The network that is used in the end decides: NCCL looks for InfiniBand
    // before it asks a plugin such as AWS's.
    void read_noise(std::string_view line, std::size_t number) {
        const auto has = [&](std::string_view what) { return line.find(what) != std::string_view::npos; };
        if (line.starts_with("NCCL version ") && log.nccl_version.empty()) {
            log.nccl_version = excerpt(trim(line.substr(13)));
        }
        if (const auto network = line.find("Using network "); network != std::string_view::npos) {
            network_ = excerpt(trim(line.substr(network + 14)));
        }
        if (socket_.line == 0 &&
            (has("NET/Socket : Using") || has("NET/Socket: Using") || has("Using network Socket"))) {
            socket_ = {"socket-transport", quote(line, 100), number};
        }
        if (missing_.line == 0 && (has("NET/IB : No device found") || has("Failed to open libibverbs"))) {
            missing_ = {"no-infiniband", quote(line, 100), number};
        }
        if (p2p_.line == 0 &&
            (has("NCCL_P2P_DISABLE set by environment to 1") ||
             has("NCCL_P2P_LEVEL set by environment to LOC") || has("P2P is disabled between"))) {
            p2p_ = {"p2p-disabled", quote(line, 100), number};
        }
        if (const auto via = line.find(" via "); via != std::string_view::npos && has("Channel")) {
            const auto path = split_tokens(line.substr(via + 5));
            if (!path.empty()) transports_.insert(excerpt(path[0].substr(0, path[0].find('/', 4)), 20));
        }
    }

    void finish() {
        const bool fast = !network_.empty() && network_ != "Socket";
        if (socket_.line > 0 && !fast) log.warnings.push_back(socket_);
        if (missing_.line > 0 && !fast) log.warnings.push_back(missing_);
        if (p2p_.line > 0) log.warnings.push_back(p2p_);
        if (!network_.empty()) transports_.insert("network " + network_);
        log.transports.assign(transports_.begin(), transports_.end());
        log.hosts = static_cast<int>(hosts_.size());
    }

    void skip(std::size_t line, const std::string& why) {
        if (++skipped_ <= 8) log.warnings.push_back({"numbers-missing", why, line});
    }

    void read_row(const Tokens& tokens, std::size_t line) {
        NcclTestsRow row{.size = Bytes(*parse_integer(tokens[0])),
                         .count = *parse_integer(tokens[1]),
                         .type = std::string(tokens[2]),
                         .redop = "",
                         .root = std::nullopt,
                         .out_of_place = {},
                         .in_place = std::nullopt,
                         .line = line};
        if (row.size.value < 0 || row.count < 0) return skip(line, "a negative size or count");
        std::size_t at = 3;
        if (is_word(tokens[at])) row.redop = tokens[at++];
        Columns columns = columns_;
        const std::size_t rest = tokens.size() - at;
        if (!columns.from_header && rest >= 16) {
            columns.half.insert(columns.half.end(), {"i_min", "i_max", "i_p99", "i_cv%"});
        }
        const std::size_t tail = columns.extra + (columns.timestamp ? 2 : 0);
        const std::size_t halves = 2 * columns.half.size();
        if (rest == halves + tail + 1) {
            const auto root = parse_integer(tokens[at++]);
            if (!root || *root < -1 || *root > 1'000'000) return skip(line, "an unreadable root");
            row.root = static_cast<int>(*root);
        } else if (rest != halves + tail) {
            return skip(line, std::to_string(tokens.size()) + " columns do not fit the header");
        }
        const auto out_of_place = read_timing(columns, tokens, at);
        if (!out_of_place) return skip(line, "unreadable numbers");
        row.out_of_place = *out_of_place;
        row.in_place = read_timing(columns, tokens, at + columns.half.size());
        log.rows.push_back(std::move(row));
    }

    Columns columns_;
    std::set<std::string> hosts_, transports_;
    std::string network_;
    Finding socket_, missing_, p2p_;
    int skipped_ = 0;
};

}  // namespace

int nccl_type_bytes(std::string_view type) {
    static const std::map<std::string_view, int> bytes = {
        {"int8", 1},   {"uint8", 1},  {"int32", 4},    {"uint32", 4},  {"int64", 8}, {"uint64", 8},
        {"half", 2},   {"float", 4},  {"double", 8},   {"char", 1},    {"int", 4},   {"bfloat16", 2},
        {"f8e4m3", 1}, {"f8e5m2", 1}, {"fp8_e4m3", 1}, {"fp8_e5m2", 1}};
    const auto found = bytes.find(type);
    return found == bytes.end() ? 0 : found->second;
}

bool looks_like_nccl_tests(std::string_view text) {
    for (const std::string_view raw : split_lines(text.substr(0, 1 << 16))) {
        const std::string_view line = without_prefix(raw);
        if (is_column_header(line) || is_row(split_tokens(line))) return true;
    }
    return false;
}

Result<NcclTestsLog> parse_nccl_tests(std::string_view text, std::string_view name) {
    Reader reader;
    reader.read(text);
    if (reader.log.rows.empty()) {
        std::string why = "no row of nccl-tests in this log";
        for (const Finding& finding : reader.log.warnings)
            why += "; " + to_string(finding);
        return Error{
            ErrorCode::Unreadable, why, std::string(name),
            "a row reads: size count type redop root time algbw busbw #wrong time algbw busbw #wrong"};
    }
    derive_operation(reader.log, reader.words);
    if (reader.log.operations.size() > 1) {
        // A file's name decides where nothing in it does; it contradicts nothing.
        Reader named;
        named.read("# " + std::string(name.substr(name.rfind('/') + 1)));
        keep_named(reader.log, named.words);
    }
    check_numbers(reader.log);
    return std::move(reader.log);
}

}  // namespace tw

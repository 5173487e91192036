#include "plan/schedule/text.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "base/nearest.hpp"

namespace tw {
namespace {

constexpr std::string_view kMagic = "trainwright-schedule";
constexpr std::array<std::string_view, 3> kBoundaries = {"barrier", "rank-local", "none"};
constexpr std::array<std::string_view, 4> kSemantics = {"synchronous", "bounded-staleness", "local-steps",
                                                        "asynchronous"};

std::string join(const auto& values) {
    std::string out;
    for (const auto value : values)
        out += fmt::format(" {}", value);
    return out;
}

void append_key(std::string& out, std::string_view what, const DurationKey& key) {
    out += fmt::format("{} {} {} {} {} {}\n", what, token_of(key.opcode), key.stage, key.stage2, key.part,
                       key.group);
}

void append_instruction(std::string& out, const Instruction& i, std::span<const std::uint32_t> waits) {
    out += to_string(i);
    const bool overlap = i.opcode == Opcode::OverlapForwardBackward;
    const auto field = [&](std::string_view name, std::int64_t value, std::int64_t usual) {
        if (value != usual) out += fmt::format(" {}={}", name, value);
    };
    if (i.stream != default_stream(i.opcode)) out += fmt::format(" stream={}", to_string(i.stream));
    if (!overlap) field("stage2", i.stage2, 0);
    if (!overlap) field("microbatch2", i.microbatch2, kNoMicrobatch);
    field("peer", i.peer, 0);
    field("lane", i.communicator, 0);
    field("batch", i.batch_group, 0);
    field("group", i.group, 0);
    field("duration", i.duration_class, 0);
    field("size", i.size_class, 0);
    field("version", i.weight_version, 0);
    field("part", i.part, 0);
    if (!waits.empty()) {
        out += " after=";
        for (std::size_t w = 0; w < waits.size(); ++w)
            out += fmt::format("{}{}", w == 0 ? "" : ",", waits[w]);
    }
    out += '\n';
}

class Parser {
  public:
    explicit Parser(std::string_view text) : rest_(text) {}

    Result<Schedule> run() {
        if (!next_line() || !read_version()) {
            if (errors_.empty()) error("an empty text");
            return std::move(errors_);
        }
        schedule_.groups.emplace_back();
        schedule_.size_classes.add_unused();
        while (next_line()) {
            if (words_.empty()) continue;
            read_line();
            if (errors_.size() >= kMaxErrors) break;
        }
        if (!errors_.empty()) return std::move(errors_);
        return std::move(schedule_);
    }

  private:
    static constexpr std::size_t kMaxErrors = 20;  // more say nothing new

    bool next_line() {
        if (rest_.empty()) return false;
        ++line_;
        const std::size_t end = std::min(rest_.find('\n'), rest_.size());
        std::string_view line = rest_.substr(0, end);
        rest_.remove_prefix(std::min(end + 1, rest_.size()));
        words_.clear();
        while (!line.empty()) {
            const std::size_t space = std::min(line.find_first_of(" \t\r"), line.size());
            if (space > 0) words_.push_back(line.substr(0, space));
            line.remove_prefix(std::min(space + 1, line.size()));
        }
        return true;
    }

    void error(std::string message, std::string hint = {}) {
        errors_.push_back(
            {ErrorCode::Unreadable, std::move(message), fmt::format("line {}", line_), std::move(hint)});
    }

    std::int64_t number(std::string_view word, std::int64_t low, std::int64_t high) {
        std::int64_t value = 0;
        const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (code == std::errc() && end == word.data() + word.size() && value >= low && value <= high)
            return value;
        error(fmt::format("'{}' is not a number from {} to {}", word, low, high));
        return low;
    }
    std::uint16_t small(std::string_view word) {
        return static_cast<std::uint16_t>(number(word, 0, std::numeric_limits<std::uint16_t>::max()));
    }
    std::uint32_t index(std::string_view word) {
        return static_cast<std::uint32_t>(number(word, 0, std::numeric_limits<std::uint32_t>::max()));
    }

    template <std::size_t N>
    std::size_t one_of(std::string_view word, const std::array<std::string_view, N>& names) {
        for (std::size_t i = 0; i < N; ++i) {
            if (word == names[i]) return i;
        }
        error(fmt::format("unknown '{}'", word),
              unknown_name_hint(word, std::vector<std::string>(names.begin(), names.end())));
        return 0;
    }

    bool read_version() {
        if (words_.size() != 2 || words_[0] != kMagic) {
            error(fmt::format("a schedule starts with the line '{} {}'", kMagic, kScheduleTextVersion));
            return false;
        }
        if (number(words_[1], 1, kScheduleTextVersion) != kScheduleTextVersion) {
            error(fmt::format("version {} cannot be read", words_[1]));
        }
        return errors_.empty();
    }

    void read_line() {
        const std::string_view key = words_[0];
        if (key == "rank") return read_rank();
        if (!schedule_.programs.empty()) return read_instruction();
        if (key == "rank_of_stage") return read_list(schedule_.rank_of_stage);
        if (key == "replicas_of_stage") return read_list(schedule_.replicas_of_stage);
        if (key == "group") return read_list(schedule_.groups.emplace_back());
        if (key == "duration") return read_key(schedule_.duration_classes);
        if (key == "size") return read_key(schedule_.size_classes);
        if (words_.size() != 2) return error(fmt::format("'{}' takes one value", key));
        constexpr std::int64_t kMax = std::numeric_limits<int>::max();
        if (key == "generator") {
            schedule_.generator = words_[1] == "-" ? "" : words_[1];
        } else if (key == "stages") {
            schedule_.stages =
                static_cast<int>(number(words_[1], 1, std::numeric_limits<std::uint16_t>::max()));
        } else if (key == "microbatches") {
            schedule_.microbatches = static_cast<int>(number(words_[1], 1, kMax));
        } else if (key == "steps") {
            schedule_.steps = static_cast<int>(number(words_[1], 1, kMax));
        } else if (key == "boundary") {
            schedule_.boundary = static_cast<StepBoundary>(one_of(words_[1], kBoundaries));
        } else if (key == "semantics") {
            schedule_.semantics = static_cast<Semantics>(one_of(words_[1], kSemantics));
        } else {
            error(fmt::format("unknown key '{}'", key),
                  unknown_name_hint(
                      key, {"generator", "stages", "microbatches", "steps", "boundary", "semantics",
                            "rank_of_stage", "replicas_of_stage", "group", "duration", "size", "rank"}));
        }
    }

    void read_rank() {
        if (words_.size() != 2) return error("'rank' takes its number");
        const auto rank =
            static_cast<std::size_t>(number(words_[1], 0, std::numeric_limits<std::uint16_t>::max()));
        if (rank != schedule_.programs.size()) {
            return error(fmt::format("rank {} follows rank {}", rank,
                                     static_cast<int>(schedule_.programs.size()) - 1));
        }
        schedule_.programs.emplace_back().wait_begin.push_back(0);
    }

    void read_list(std::vector<std::uint16_t>& list) {
        for (std::size_t w = 1; w < words_.size(); ++w)
            list.push_back(small(words_[w]));
    }

    void read_key(DurationKeys& keys) {
        if (words_.size() != 6) return error("a class has five fields: kind, stage, stage2, part, group");
        DurationKey key;
        bool known = false;
        for (int i = 0; i <= static_cast<int>(Opcode::Wait); ++i) {
            if (words_[1] != token_of(static_cast<Opcode>(i))) continue;
            key.opcode = static_cast<Opcode>(i);
            known = true;
        }
        if (!known) error(fmt::format("unknown instruction kind '{}'", words_[1]));
        key.stage = small(words_[2]);
        key.stage2 = small(words_[3]);
        key.part = index(words_[4]);
        key.group = small(words_[5]);
        keys.push_back(key);
    }

    void read_instruction() {
        auto token = parse_token(words_[0]);
        if (!token) {
            for (const Error& e : token.errors())
                error(e.context + ": " + e.message, e.hint);
            return;
        }
        Instruction instruction = *token;
        std::vector<std::uint32_t> waits;
        for (std::size_t w = 1; w < words_.size(); ++w) {
            const std::size_t equals = words_[w].find('=');
            if (equals == std::string_view::npos) {
                error(fmt::format("'{}' is not key=value", words_[w]));
                continue;
            }
            read_field(instruction, waits, words_[w].substr(0, equals), words_[w].substr(equals + 1));
        }
        RankProgram& program = schedule_.programs.back();
        for (const std::uint32_t wait : waits) {
            if (wait >= program.instructions.size()) {
                return error(fmt::format("waits for instruction {}, which is not earlier", wait));
            }
        }
        program.append(instruction, waits);
    }

    void read_field(Instruction& i, std::vector<std::uint32_t>& waits, std::string_view key,
                    std::string_view value) {
        if (key == "stream") {
            std::array<std::string_view, 7> names;
            for (std::size_t s = 0; s < names.size(); ++s)
                names[s] = to_string(static_cast<Stream>(s));
            i.stream = static_cast<Stream>(one_of(value, names));
        } else if (key == "stage2") {
            i.stage2 = small(value);
        } else if (key == "microbatch2") {
            i.microbatch2 =
                static_cast<std::int32_t>(number(value, 0, std::numeric_limits<std::int32_t>::max()));
        } else if (key == "peer") {
            i.peer = small(value);
        } else if (key == "lane") {
            i.communicator = small(value);
        } else if (key == "batch") {
            i.batch_group = small(value);
        } else if (key == "group") {
            i.group = small(value);
        } else if (key == "duration") {
            i.duration_class = small(value);
        } else if (key == "size") {
            i.size_class = small(value);
        } else if (key == "version") {
            i.weight_version = small(value);
        } else if (key == "part") {
            i.part = index(value);
        } else if (key == "after") {
            while (!value.empty()) {
                const std::size_t comma = std::min(value.find(','), value.size());
                waits.push_back(index(value.substr(0, comma)));
                value.remove_prefix(std::min(comma + 1, value.size()));
            }
        } else {
            error(fmt::format("unknown field '{}'", key),
                  unknown_name_hint(key, {"stream", "stage2", "microbatch2", "peer", "lane", "batch", "group",
                                          "duration", "size", "version", "part", "after"}));
        }
    }

    std::string_view rest_;
    std::size_t line_ = 0;
    std::vector<std::string_view> words_;
    Schedule schedule_;
    Errors errors_;
};

}  // namespace

std::string format_schedule(const Schedule& schedule) {
    std::string out = fmt::format("{} {}\n", kMagic, kScheduleTextVersion);
    out += fmt::format("generator {}\n", schedule.generator.empty() ? "-" : schedule.generator);
    out += fmt::format("stages {}\nmicrobatches {}\nsteps {}\n", schedule.stages, schedule.microbatches,
                       schedule.steps);
    out += fmt::format("boundary {}\n", kBoundaries[static_cast<std::size_t>(schedule.boundary)]);
    out += fmt::format("semantics {}\n", kSemantics[static_cast<std::size_t>(schedule.semantics)]);
    out += "rank_of_stage" + join(schedule.rank_of_stage) + '\n';
    out += "replicas_of_stage" + join(schedule.replicas_of_stage) + '\n';
    for (std::size_t g = 1; g < schedule.groups.size(); ++g)
        out += "group" + join(schedule.groups[g]) + '\n';
    for (const DurationKey& key : schedule.duration_classes)
        append_key(out, "duration", key);
    for (std::size_t k = 1; k < schedule.size_classes.size(); ++k)
        append_key(out, "size", schedule.size_classes[k]);
    for (std::size_t r = 0; r < schedule.programs.size(); ++r) {
        out += fmt::format("rank {}\n", r);
        const RankProgram& program = schedule.programs[r];
        for (std::size_t i = 0; i < program.instructions.size(); ++i) {
            append_instruction(out, program.instructions[i], program.waits_of(i));
        }
    }
    return out;
}

Result<Schedule> parse_schedule(std::string_view text) {
    return Parser(text).run();
}

}  // namespace tw

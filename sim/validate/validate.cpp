#include "sim/validate/validate.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <system_error>

#include <fmt/format.h>

#include "sim/validate/calibrate.hpp"

namespace tw {
namespace {

// 80 % of a normal distribution lie within this many standard deviations.
constexpr double kEighty = 1.2816;

std::string text_of(const std::optional<int>& value) {
    return value ? std::to_string(*value) : "-";
}

std::string text_of(const std::optional<std::int64_t>& value) {
    return value ? std::to_string(*value) : "-";
}

// What a row is besides the one field that a sweep varies.
struct SweepFields {
    std::string fixed;
    std::vector<std::string> layout;
};

SweepFields sweep_fields(const ValidationRow& row) {
    const TruthRow& t = row.truth;
    const TruthModel& m = t.model;
    SweepFields f;
    f.fixed = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", t.file, m.name, text_of(m.layers),
                          text_of(m.hidden), text_of(m.seq_len), t.precision, t.gpu, t.gpu_mem_gb,
                          row.framework, text_of(t.global_batch), t.one_layer, t.source);
    f.layout = {text_of(t.dp),        text_of(t.tp),
                text_of(t.pp),        text_of(t.cp),
                text_of(t.ep),        t.sharding + text_of(t.zero_stage),
                t.recompute,          t.schedule + text_of(t.vpp),
                text_of(t.microbatch)};
    return f;
}

// An unreadable field by its key in the row ("model/hidden: ..."), which an error's pointer ends with.
std::string unreadable(const Error& error) {
    const auto row = error.context.find("#/");
    const auto key = row == std::string::npos ? row : error.context.find('/', row + 2);
    return key == std::string::npos ? error.message : error.context.substr(key + 1) + ": " + error.message;
}

// A figure that no device of the row can have held is not scored. Of 80 GB a driver reports 79.2 GiB.
void leave_out_impossible_memory(const Device& device, ValidationRow& row) {
    constexpr double kMostOfDevice = 1.05;
    if (row.truth.memory_bytes <= kMostOfDevice * static_cast<double>(device.memory.value)) return;
    row.assumed.push_back(
        fmt::format("memory of {:.1f} GB: more than the device has, left out", row.truth.memory_bytes / 1e9));
    row.truth.memory_bytes = 0;
}

ValidationRow predict_row(TruthRow truth) {
    ValidationRow row;
    row.truth = std::move(truth);
    auto c = make_case(row.truth);
    if (!c) {
        row.reason = unreadable(c.errors().front());
        return row;
    }
    if (row.truth.status == TruthStatus::Ok && row.truth.step_time_s <= 0 && row.truth.memory_bytes <= 0) {
        row.reason = "neither a time nor a measured memory";
        return row;
    }
    row.framework = c->plan.framework;
    row.plan = summary(c->plan);
    row.assumed = c->assumed;
    leave_out_impossible_memory(c->cluster.groups.front().device, row);
    auto p = predict(*c, row.truth);
    if (!p) {
        row.reason = p.errors().front().message;
        return row;
    }
    row.blind = std::move(*p);
    row.calibrated_step_time_s = row.blind.step_time_s;
    row.calibrated_sigma_s = row.blind.sigma_s;
    row.compared = true;
    return row;
}

// Rows with an interval, and those inside it.
struct Coverage {
    int stated = 0, inside = 0;
    void add(double predicted, double sigma, double measured) {
        if (sigma <= 0) return;
        ++stated;
        inside += std::abs(std::log(predicted / measured)) <= kEighty * sigma / predicted ? 1 : 0;
    }
    [[nodiscard]] double share() const { return stated == 0 ? 0 : static_cast<double>(inside) / stated; }
};

SourceScore score_source(const std::string& file, const std::vector<const ValidationRow*>& rows) {
    SourceScore s;
    s.file = file;
    s.rows = static_cast<int>(rows.size());
    std::vector<Pair> time, blind, memory;
    Coverage calibrated_inside, blind_inside;
    for (const ValidationRow* row : rows) {
        if (!row->compared) continue;
        ++s.compared;
        if (row->has_time()) {
            const double measured = row->truth.step_time_s;
            blind.push_back({row->blind.step_time_s, measured});
            if (!row->calibrates) time.push_back({row->calibrated_step_time_s, measured});
            blind_inside.add(row->blind.step_time_s, row->blind.sigma_s, measured);
            if (!row->calibrates)
                calibrated_inside.add(row->calibrated_step_time_s, row->calibrated_sigma_s, measured);
        }
        if (row->has_memory()) memory.push_back({row->blind.memory_bytes, row->truth.memory_bytes});
        const bool fits = row->blind.fits;
        if (row->truth.status == TruthStatus::OutOfMemory) {
            (fits ? s.out_of_memory.false_negative : s.out_of_memory.true_positive) += 1;
        } else {
            (fits ? s.out_of_memory.true_negative : s.out_of_memory.false_positive) += 1;
        }
    }
    s.time = score_errors(time);
    s.time_blind = score_errors(blind);
    s.coverage = calibrated_inside.share();
    s.coverage_blind = blind_inside.share();
    s.memory = score_errors(memory);
    return s;
}

struct LabelledPath {
    std::string path, label;
};

// The last `parts` parts of a path, the stem of its last one.
std::string label_of(const std::filesystem::path& path, std::size_t parts) {
    std::filesystem::path label = path.stem();
    std::filesystem::path folder = path.parent_path();
    for (; parts > 1 && !folder.filename().empty(); --parts, folder = folder.parent_path())
        label = folder.filename() / label;
    return label.generic_string();
}

// Each document once, with its stem for a name; stems that collide grow by their folders, and end in the name
// with its extension where folders do not tell them apart.
std::vector<LabelledPath> labelled(const std::vector<std::string>& paths) {
    std::vector<LabelledPath> result;
    std::vector<std::filesystem::path> known;
    for (const std::string& path : paths) {
        std::error_code error;
        std::filesystem::path whole = std::filesystem::weakly_canonical(path, error);
        if (error) whole = path;
        if (std::find(known.begin(), known.end(), whole) != known.end()) continue;
        known.push_back(std::move(whole));
        result.push_back({path, ""});
    }
    const auto unique = [&](std::size_t i, std::size_t parts) {
        for (std::size_t k = 0; k < known.size(); ++k) {
            if (k != i && label_of(known[k], parts) == label_of(known[i], parts)) return false;
        }
        return true;
    };
    constexpr std::size_t kMostParts = 16;
    for (std::size_t i = 0; i < known.size(); ++i) {
        std::size_t parts = 1;
        while (parts < kMostParts && !unique(i, parts))
            ++parts;
        result[i].label = parts < kMostParts ? label_of(known[i], parts) : known[i].generic_string();
    }
    return result;
}

}  // namespace

std::vector<std::vector<std::size_t>> find_sweeps(const std::vector<ValidationRow>& rows) {
    std::map<std::string, std::vector<std::size_t>> groups;  // ordered: sweeps come out sorted by key
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!rows[i].has_time()) continue;
        const SweepFields f = sweep_fields(rows[i]);
        for (std::size_t varied = 0; varied < f.layout.size(); ++varied) {
            std::string key = fmt::format("{}|{}", f.fixed, varied);
            for (std::size_t k = 0; k < f.layout.size(); ++k)
                key += "|" + (k == varied ? std::string("*") : f.layout[k]);
            groups[key].push_back(i);
        }
    }
    std::vector<std::vector<std::size_t>> sweeps;
    for (auto& [key, members] : groups) {
        if (members.size() >= static_cast<std::size_t>(kSweepRows)) sweeps.push_back(std::move(members));
    }
    return sweeps;
}

namespace {

void score_sources(const std::vector<std::string>& files, ValidationReport& report) {
    const std::vector<std::vector<std::size_t>> sweeps = find_sweeps(report.rows);
    for (const std::string& file : files) {
        std::vector<const ValidationRow*> rows;
        for (const ValidationRow& row : report.rows) {
            if (row.truth.file == file) rows.push_back(&row);
        }
        SourceScore score = score_source(file, rows);
        std::vector<std::vector<Pair>> groups;
        for (const std::vector<std::size_t>& sweep : sweeps) {
            if (report.rows[sweep.front()].truth.file != file) continue;
            std::vector<Pair> pairs;
            for (const std::size_t i : sweep)
                pairs.push_back({report.rows[i].calibrated_step_time_s, report.rows[i].truth.step_time_s});
            groups.push_back(std::move(pairs));
        }
        score.sweeps = static_cast<int>(groups.size());
        score.kendall_tau = kendall_tau(groups);
        report.sources.push_back(std::move(score));
    }
}

}  // namespace

ValidationReport validate(const std::vector<std::string>& paths, bool calibrate) {
    ValidationReport report;
    std::vector<std::string> files;
    for (const auto& [path, label] : labelled(paths)) {
        auto truth = read_truth(path);
        if (!truth) {
            report.unread.insert(report.unread.end(), truth.errors().begin(), truth.errors().end());
            continue;
        }
        if (!truth->empty()) files.push_back(label);
        for (TruthRow& row : *truth) {
            row.file = label;
            report.rows.push_back(predict_row(std::move(row)));
        }
    }
    if (calibrate) report.calibrations = calibrate_hosts(report.rows);
    score_sources(files, report);
    return report;
}

}  // namespace tw

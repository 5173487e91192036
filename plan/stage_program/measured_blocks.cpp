#include "plan/stage_program/measured_blocks.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/si_format.hpp"
#include "models/formats/text_lines.hpp"
#include "plan/stage_program/layer_sheet.hpp"

namespace tw {
namespace {

constexpr double kAsPlanned = 0.02, kNear = 0.10;
constexpr std::int64_t kMostBlocks = 1'000'000'000;

// A tensor of one layer under some shape.
struct Candidate {
    std::string layer, tensor, unsplit;
    double bytes = 0, planned = 0;
};

struct Variant {
    const char* axis;
    WorkShape shape;
};

// The plan's shape with one axis at a time as if it were not there. Where two explain a block alike the first
// does: without sp the rest of tp still splits.
std::vector<Variant> variants_of(const WorkShape& shape) {
    std::vector<Variant> variants;
    const auto add = [&](const char* axis, bool split, auto&& drop) {
        if (!split) return;
        variants.push_back({axis, shape});
        drop(variants.back().shape);
    };
    add("cp", shape.cp > 1, [](WorkShape& s) { s.cp = 1; });
    add("sp", shape.sequence_parallel && shape.tp > 1, [](WorkShape& s) { s.sequence_parallel = false; });
    add("tp", shape.tp > 1, [](WorkShape& s) {
        s.tp = 1;
        s.sequence_parallel = false;
    });
    add("ep", shape.ep > 1, [](WorkShape& s) { s.ep = 1; });
    add("etp", shape.etp > 1, [](WorkShape& s) { s.etp = 1; });
    return variants;
}

std::vector<Candidate> candidates_of(const LayerGraph& graph, const WorkShape& shape, bool own_executor) {
    const std::vector<LayerSheet> planned = layer_sheets(graph, shape, own_executor);
    std::vector<Candidate> candidates;
    for (const LayerSheet& sheet : planned) {
        for (const SavedTensor& t : sheet.work.saved)
            candidates.push_back({sheet.name, t.name, "", t.bytes, t.bytes});
    }
    for (const Variant& variant : variants_of(shape)) {
        const std::vector<LayerSheet> other = layer_sheets(graph, variant.shape, own_executor);
        for (std::size_t i = 0; i < other.size(); ++i) {
            const std::vector<SavedTensor>& tensors = planned[i].work.saved;
            for (const SavedTensor& t : other[i].work.saved) {
                const auto own = std::find_if(tensors.begin(), tensors.end(),
                                              [&](const SavedTensor& p) { return p.name == t.name; });
                if (own == tensors.end() || own->bytes == t.bytes) continue;
                candidates.push_back({other[i].name, t.name, variant.axis, t.bytes, own->bytes});
            }
        }
    }
    return candidates;
}

double distance(const Candidate& candidate, double bytes) {
    return candidate.bytes > 0 ? std::abs(bytes / candidate.bytes - 1) : kNear + 1;
}

BlockMatch match(const MeasuredBlock& block, const std::vector<Candidate>& candidates) {
    const Candidate* planned = nullptr;
    const Candidate* unsplit = nullptr;
    for (const Candidate& c : candidates) {
        const Candidate*& best = c.unsplit.empty() ? planned : unsplit;
        if (best == nullptr || distance(c, block.bytes) < distance(*best, block.bytes)) best = &c;
    }
    const auto within = [&](const Candidate* c, double limit) {
        return c != nullptr && distance(*c, block.bytes) <= limit;
    };
    BlockMatch result{.block = block, .layer = "", .tensor = "", .unsplit = ""};
    const Candidate* best = nullptr;
    if (within(planned, kAsPlanned)) {
        best = planned;
    } else if (within(unsplit, kNear)) {
        best = unsplit;
    } else if (within(planned, kNear)) {
        best = planned;
    }
    if (best != nullptr) {
        result.layer = best->layer;
        result.tensor = best->tensor;
        result.unsplit = best->unsplit;
        result.planned_bytes = best->planned;
    }
    return result;
}

}  // namespace

Result<std::vector<MeasuredBlock>> parse_blocks(std::string_view text, std::string_view name) {
    std::vector<MeasuredBlock> blocks;
    Errors errors;
    std::size_t number = 0;
    for (std::string_view line : split_lines(text)) {
        ++number;
        line = trim(line.substr(0, line.find('#')));
        if (line.empty()) continue;
        const std::size_t times = line.rfind(" x ");
        const bool counted = times != std::string_view::npos;
        const auto bytes = parse_bytes(trim(line.substr(0, times)));
        const auto count =
            counted ? parse_integer(trim(line.substr(times + 3))) : std::optional<std::int64_t>(1);
        if (!bytes || *bytes <= 0 || !count || *count <= 0 || *count > kMostBlocks) {
            errors.push_back(unreadable_line(name, number, quote(line) + " is no size of a block",
                                             "335544320, or 320 MiB x 64"));
            continue;
        }
        const auto same = std::find_if(blocks.begin(), blocks.end(),
                                       [&](const MeasuredBlock& b) { return b.bytes == *bytes; });
        if (same == blocks.end()) {
            blocks.push_back({*bytes, *count});
        } else {
            same->count = std::min(same->count + *count, kMostBlocks);
        }
    }
    if (errors.empty() && blocks.empty())
        errors.push_back({ErrorCode::Unreadable, "lists no blocks", std::string(name), ""});
    if (!errors.empty()) return errors;
    return blocks;
}

std::vector<BlockMatch> match_blocks(const LayerGraph& graph, const WorkShape& shape,
                                     std::vector<MeasuredBlock> blocks, bool own_executor) {
    std::stable_sort(blocks.begin(), blocks.end(),
                     [](const MeasuredBlock& a, const MeasuredBlock& b) { return a.bytes > b.bytes; });
    const std::vector<Candidate> candidates = candidates_of(graph, shape, own_executor);
    std::vector<BlockMatch> matches;
    for (const MeasuredBlock& block : blocks)
        matches.push_back(match(block, candidates));
    return matches;
}

}  // namespace tw

// Schedules in words, and the cut into stages.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "plan/schedule/generator.hpp"
#include "plan/stage_partition.hpp"
#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_plan.hpp"

namespace tw {
namespace {

struct ScheduleWord {
    std::string_view key;   // letters and digits of the row's words
    std::string_view name;  // the registry's; "" where it is none that is modelled
};
// The first that is said. PyTorch's classes have the prefix "Schedule" (distributed/pipelining/schedules.py);
// DAPPLE and PipeDream-Flush are 1F1B (Narayanan et al. 2021, section 2.2).
constexpr std::array<ScheduleWord, 27> kSchedules = {{
    {"noninterleaved", "1f1b"},
    {"interleavedzerobubble", ""},
    {"vhalf", ""},
    {"vmin", ""},
    {"zb2p", "zb-2p"},
    {"zb1p", "zb-1p"},
    {"zbh1", "zb-h1"},
    {"zbh2", "zb-h2"},
    {"zbv", "zb-v"},
    {"zbauto", "zb-auto"},
    {"dualpipe", "dualpipev"},
    {"gpipe", "gpipe"},
    {"afab", "gpipe"},
    {"filldrain", "gpipe"},
    {"allforwardallbackward", "gpipe"},
    {"pipedreamflush", "1f1b"},
    {"dapple", "1f1b"},
    {"2bw", "pipedream-2bw"},
    {"pipedream", "pipedream"},
    {"breadthfirst", "looped-bfs"},
    {"loopedbfs", "looped-bfs"},
    {"loopingbfs", "looped-bfs"},
    {"1f1b", "1f1b"},
    {"onefonebackward", "1f1b"},
    {"zerobubble", "zb-1p"},
    {"zb", "zb-1p"},
    {"none", "1f1b"},
}};

// Words that say interleaving of themselves, not of other rows of a table ("interleaved for the large
// models") or of what the framework can ("interleaved-capable").
bool interleaved(const std::string& key) {
    if (says_any(key, {"interleavedfor", "interleavedcapable", "interleavedzerobubble", "noninterleaved"}))
        return false;
    return key == "1f1bi" || begins(key, "interleaved") ||
           says_any(key, {"interleaved1f1b", "1f1binterleav", "virtualpipeline", "depthfirst"});
}

std::string schedule_named(const std::string& text) {
    const std::string key = key_of(text);
    if (key.empty()) return "1f1b";
    for (const ScheduleWord& word : kSchedules) {
        if (says(key, word.key)) return std::string(word.name);
    }
    const auto exact = find_schedule(text);
    return exact ? (*exact)->info().name : "";
}

// "(v=2)", "vpp 4", "2 chunks".
std::optional<int> virtual_stages_said(const std::string& text) {
    for (const std::string_view word : {"v=", "v =", "vpp", "vp="}) {
        if (const auto n = number_after(text, word)) return n;
    }
    return number_before(text, "chunk");
}

// Embedding and head count as a layer each where only that makes the stages equal (Megatron's
// account_for_embedding_in_pipeline_split and its sibling for the loss).
bool counts_ends(int blocks, int stages) {
    return blocks % stages != 0 && (blocks + 2) % stages == 0;
}

// Virtual stages of a rank. Where interleaving alone is said, each chunk is one layer.
int virtual_stages(const TruthRow& row, int blocks, int pp, bool chunks, std::vector<std::string>& assumed) {
    const auto said = row.vpp ? row.vpp : chunks ? virtual_stages_said(row.schedule) : std::nullopt;
    if (said) return std::max(1, *said);
    if (!chunks) return 1;
    const int vpp = std::max(1, (blocks + (counts_ends(blocks, pp) ? 2 : 0)) / pp);
    assumed.push_back(fmt::format("vpp: {}, a layer in each chunk", vpp));
    return vpp;
}

int blocks_of(const LayerGraph& graph, const StageSpec& stage) {
    int blocks = 0;
    for (int i = stage.first_layer; i < stage.last_layer; ++i)
        blocks += graph.layer(i).role == LayerRole::Block ? 1 : 0;
    return blocks;
}

void set_stages(const LayerGraph& graph, const StatedRecompute& recompute, int stages, ParallelPlan& plan) {
    const auto blocks = static_cast<int>(graph.blocks);
    plan.stages = uniform_partition(graph, stages, plan.recompute);
    if (counts_ends(blocks, stages) && graph.size() == blocks + 2) {
        const int each = (blocks + 2) / stages;
        for (int i = 0; i < stages; ++i) {
            plan.stages[static_cast<std::size_t>(i)].first_layer = i * each;
            plan.stages[static_cast<std::size_t>(i)].last_layer = (i + 1) * each;
        }
    }
    const int part = recompute.layers_of_model >= 0 ? recompute.layers_of_model / stages : recompute.layers;
    for (StageSpec& stage : plan.stages) {
        stage.recompute = plan.recompute;
        if (plan.recompute == RecomputeMode::Full && part < blocks_of(graph, stage))
            stage.recompute_layers = part;
    }
}

}  // namespace

Status set_schedule(const TruthRow& row, const LayerGraph& graph, const StatedRecompute& recompute,
                    ParallelPlan& plan, std::vector<std::string>& assumed) {
    const int pp = plan.mesh.pp;
    const auto blocks = static_cast<int>(graph.blocks);
    const std::string key = key_of(row.schedule);
    const bool chunks = pp > 1 && interleaved(key);
    plan.schedule = chunks || pp == 1 ? "1f1b" : schedule_named(row.schedule);
    if (plan.schedule.empty()) return reason("schedule " + row.schedule + " is not known");
    const GeneratorInfo info = (*find_schedule(plan.schedule))->info();
    if (plan.schedule == "zb-1p" && !says(key, "zb1p"))
        assumed.push_back(fmt::format("schedule \"{}\": zb-1p", row.schedule));
    int vpp = virtual_stages(row, blocks, pp, chunks, assumed);
    if (info.fixed_virtual_stages > 0) vpp = info.fixed_virtual_stages;
    if (pp == 1) vpp = 1;
    if (vpp > 1 && !info.virtual_stages && info.fixed_virtual_stages == 0) {
        if (plan.schedule != "1f1b")
            return reason(fmt::format("schedule {} has no {} stages a rank", row.schedule, vpp));
        plan.schedule = "interleaved";
    }
    const std::int64_t stages = std::int64_t{pp} * vpp;
    if (blocks > 0 ? stages > blocks + 2 : stages > 1)
        return reason(fmt::format("{} stages for {} layers", stages, blocks));
    if (recompute.layers_of_model >= 0 && recompute.layers_of_model % stages != 0)
        return reason(fmt::format("recompute \"{}\" is not the same on {} stages", row.recompute, stages));
    plan.virtual_stages = vpp;
    set_stages(graph, recompute, static_cast<int>(stages), plan);
    return ok();
}

}  // namespace tw

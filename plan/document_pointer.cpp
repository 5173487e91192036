#include <algorithm>
#include <array>

#include "plan/plan_json.hpp"

namespace tw {

std::string document_pointer(std::string_view key) {
    struct Row {
        std::string_view key, pointer;  // below the plan; empty: of the same name
    };
    static constexpr std::array kRows = {Row{"dp", "mesh/dp"},
                                         Row{"tp", "mesh/tp"},
                                         Row{"pp", "mesh/pp"},
                                         Row{"cp", "mesh/cp"},
                                         Row{"ep", "mesh/ep"},
                                         Row{"etp", "mesh/etp"},
                                         Row{"sp", "sequence_parallel"},
                                         Row{"vpp", "virtual_stages"},
                                         Row{"mbs", "microbatch"},
                                         Row{"zero", "zero_stage"},
                                         Row{"recompute_layers", "stages"},
                                         Row{"master_weights", "precision/master_weights"},
                                         Row{"optimizer_states", "precision/optimizer_states"},
                                         Row{"gradient_reduce", "precision/gradient_reduce"},
                                         Row{"attention", ""},
                                         Row{"expert_imbalance", ""},
                                         Row{"cp_kind", ""},
                                         Row{"expert_dispatch", ""},
                                         Row{"microbatches", ""},
                                         Row{"global_batch", ""},
                                         Row{"seq_len", ""},
                                         Row{"zero_shard", ""},
                                         Row{"recompute", ""},
                                         Row{"recompute_modules", "recompute"},
                                         Row{"schedule", ""},
                                         Row{"microbatch_group", ""},
                                         Row{"stages", ""},
                                         Row{"rank_order", ""},
                                         Row{"precision", ""},
                                         Row{"optimizer", ""},
                                         Row{"offload_optimizer", ""},
                                         Row{"offload_activations", ""},
                                         Row{"vocab_divisor", ""},
                                         Row{"semantics", ""},
                                         Row{"gradient_sync", ""},
                                         Row{"gradient_sync_options", ""}};
    if (key == "cluster") return "/cluster";
    const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.key == key; });
    if (row == kRows.end()) return {};
    return "/plan/" + std::string(row->pointer.empty() ? row->key : row->pointer);
}

}  // namespace tw

// Measured rows for tests: one of the main schema that is all stated, and variants of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "sim/validate/truth_case.hpp"

namespace tw {

inline constexpr const char* kMain = R"([{"id": "a", "source": "s", "status": "ok", "unit": "iteration",
  "model": {"name": "GPT", "family": "gpt-dense", "layers": 24, "hidden": 1024, "heads": 16, "vocab": 50257, "seq_len": 1024},
  "precision": "fp16", "hardware": {"gpu": "A100", "gpu_mem_gb": 80, "gpus_per_node": 8, "inter_node": "4x HDR 200 Gb/s"},
  "gpus": 16, "dp": 4, "tp": 2, "pp": 2, "micro_batch": 2.0, "global_batch": 64, "recompute": "full",
  "framework": "Megatron-LM", "iteration_time_s": 1.0, "memory_gb": 10, "memory_kind": "GiB, torch max allocated"},
 {"id": "b", "model": {"name": "GPT", "family": "gpt-dense"}, "hardware": {"gpu": "A100"}, "framework": "Megatron-LM"}])";

// The row of kMain with fields put in place of its own.
inline TruthRow row_with(const Json& changes) {
    Json document = Json::parse(kMain);
    document[0].merge_patch(changes);
    const auto rows = read_truth_text(document.dump(), "x.json");
    EXPECT_TRUE(rows) << to_string(rows.errors());
    return rows->front();
}

// Its case, or why there is none.
inline std::string refusal_of(const Json& changes) {
    const auto made = make_case(row_with(changes));
    return made ? "" : made.errors().front().message;
}

// The case of a row that must have one.
inline ValidationCase case_of(const Json& changes) {
    auto made = make_case(row_with(changes));
    EXPECT_TRUE(made) << changes.dump() << ": " << to_string(made.errors());
    return made ? std::move(*made) : ValidationCase{};
}

}  // namespace tw

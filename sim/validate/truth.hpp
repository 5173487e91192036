// One measured training run (or layer) as published: the words of its row, nothing added. Three shapes of
// document are read (truth_json.cpp): the main schema, a framework's functional tests, and runs of one
// device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace tw {

enum class TruthShape : std::uint8_t { Main, Functional, SingleDevice };
// What a memory figure counts.
enum class MemoryKind : std::uint8_t { None, Allocated, Reserved, Device };
enum class TruthStatus : std::uint8_t { Ok, OutOfMemory, NotComparable };

struct TruthModel {
    std::string name, family;
    std::optional<std::int64_t> layers, hidden, heads, kv_heads, ffn, vocab, seq_len, experts,
        experts_per_token;
    // Said by the flags of a functional test.
    bool gated = false, untied = false, without_bias = false, rope = false, rms_norm = false;
    std::string document;  // a foreign configuration that the row embeds
};

struct TruthRow {
    // Stem of the document, "zero_bubble"; with its folders before it where documents of one stem are read
    // together.
    std::string file;
    std::string id, source;
    TruthShape shape = TruthShape::Main;
    TruthStatus status = TruthStatus::Ok;
    std::string status_reason;
    bool one_layer = false;  // the time is that of one layer, forward and backward

    TruthModel model;
    std::string precision, framework, schedule, recompute, sharding;
    std::string gpu, intra_node, inter_node;
    double gpu_mem_gb = 0;  // 0: not stated
    std::optional<int> gpus_per_node, gpus, dp, tp, pp, vpp, cp, ep;
    std::optional<int> zero_stage;
    std::optional<int> optimizer_instances;  // replicas of the sharded optimizer
    std::optional<int> recompute_layers;     // blocks of a stage that are recomputed; all where absent
    std::optional<bool> sequence_parallel, flash_attention, dropout;
    std::optional<std::int64_t> microbatch, microbatches, global_batch;
    bool compile = false, async_tp = false, overlap_grad_reduce = false, overlap_param_gather = false;

    double step_time_s = 0;   // stated, or what the row's throughput comes to; 0: not measured
    double memory_bytes = 0;  // 0: not measured, or not a measurement
    MemoryKind memory_kind = MemoryKind::None;
    // Read on the last pipeline rank, or on the first node; else the largest over ranks.
    bool memory_of_last_stage = false, memory_of_first_node = false;
    std::vector<std::string>
        assumed;    // what was taken where the row does not say it, and what is left unread
    Errors errors;  // fields of the row that could not be read
};

// A document of any of the three shapes: an array of rows, or an object whose "rows" it is. Python's NaN and
// Infinity say nothing. Fails where no row has one of the shapes; a row without, or with an unreadable field,
// is returned with its errors. Rows without an id have their place's: "#12".
Result<std::vector<TruthRow>> read_truth(const std::string& path);
Result<std::vector<TruthRow>> read_truth_text(std::string_view text, const std::string& path);

}  // namespace tw
